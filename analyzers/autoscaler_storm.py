"""Scaling that feeds itself: an autoscaler adds members, the rebalances stop the group, it falls behind, and the
autoscaler answers with more of them; once the lag is gone it takes them away again, which makes the next rebalance.

Only Kubernetes tells who scaled (origins `scaled_up` and `scaled_down`, by a HorizontalPodAutoscaler or by KEDA), so
without `run --kubernetes` nothing is kept and nothing is said: members that come and go may be anything. What of it
would not have been is counted, not guessed: scale-downs that a scale-up followed, with both of their rebalances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from msgspec import Struct

from agent.core.inference.origins import Origin, OriginKind
from agent.core.shadow.transitions import Rebalanced, Transition
from agent.core.state_fields import StateFields, shared
from analyzers.api import Analyzer, Condition, GroupContext, LagLook, Settings, Severity, Verdict, setting
from analyzers.formatting import count_text, duration_text, milliseconds
from analyzers.windows import RecentItems

AUTOSCALERS = ("HorizontalPodAutoscaler", "KEDA")
"""How `message` of an origin names who scaled, where it was no hand."""
LATE_MS, ASK_AGAIN_MS = 300_000, 30_000
"""So long after a rebalance the origins of its members are looked for, and when: by then they are settled
(`agent.core.events.open_origins`)."""
LOOK_MS = 30_000
"""How often lag is looked at while there is scaling: as often as ends of partitions are asked for."""
MINUTE_MS = 60_000
LEAST_WINDOW_MS = 300_000
"""A HorizontalPodAutoscaler's own: whoever turned it down is advised no less."""
UP, DOWN = 1, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerStormSettings(Settings):
    """Load turns a few times in a day: three turns within half an hour are the autoscaler's own. From lag to another
    pod that has joined it takes some minutes (metrics each 15 to 30 s, and its start)."""

    window_s: float = setting(1800.0, "seconds over which changes of direction are counted", least=60)
    min_turns: int = setting(3, "times within window_s that scaling turned from up to down or back", least=1)
    feed_s: float = setting(300.0, "seconds within which lag of a rebalance may cause the next scale-up", least=1)
    growth_records: int = setting(100, "records that lag must grow by after a rebalance to be its lag", least=1)
    min_fed: int = setting(2, "scale-ups after such lag that show that scaling feeds itself", least=1)


@shared
class ScaleRound(Struct, gc=False):
    """A rebalance in which members came or went. `direction`: +1 where an autoscaler added some, -1 where it took
    some, 0 for all else. Lag in records, when it was completed and at most since; None: not known."""

    at_ms: int
    joined: tuple[str, ...]
    left: tuple[str, ...]
    stopped_ms: int | None
    direction: int
    lag_before: int | None
    lag_peak: int | None


class Move(Struct):
    """Rounds of one direction, one after the other."""

    direction: int
    rounds: list[ScaleRound]

    @property
    def began_ms(self) -> int:
        """When the first was completed."""
        return self.rounds[0].at_ms


class AutoscalerStorm(Analyzer):
    """Counts turns of an autoscaler, and the scale-ups that lag of rebalances preceded: the module has the rule."""

    STATE: ClassVar = StateFields({"_rounds": RecentItems[ScaleRound], "_lag": int | None})

    name: ClassVar[str] = "autoscaler_storm"
    rule: ClassVar[str] = (
        "By Kubernetes, an autoscaler turned from adding members to taking them, or back, min_turns times within "
        "window_s. Warning if min_fed of the scale-ups came within feed_s of a rebalance by scaling after which lag "
        "had grown by growth_records; info if lag is not known; nothing if lag did not grow."
    )
    false_alarms: ClassVar[str] = (
        "Load that itself comes and goes within minutes. Not seen: anything without `run --kubernetes`, autoscalers "
        "other than a HorizontalPodAutoscaler and KEDA, members whose pod is not known."
    )
    settings_class: ClassVar[type[Settings]] = AutoscalerStormSettings
    settings: AutoscalerStormSettings

    __slots__ = ("_lag", "_rounds")

    def __init__(self, settings: AutoscalerStormSettings) -> None:
        super().__init__(settings)
        self._rounds: RecentItems[ScaleRound] = RecentItems(milliseconds(settings.window_s))
        self._lag: int | None = None

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Keep a rebalance in which members came or went, where anybody tells their origins."""
        if not isinstance(transition, Rebalanced) or transition.origins is None:
            return
        joined = tuple(it.member_id for it in transition.joined)
        left = tuple(it.member_id for it in transition.left)
        if not (joined or left):
            return
        origins = transition.origins
        direction = _direction([origins.get(it) for it in joined], [origins.get(it) for it in left])
        stopped_ms = transition.stopped_partition_ms
        self._rounds.add(group.now_ms, ScaleRound(group.now_ms, joined, left, stopped_ms, direction, self._lag, None))

    @property
    def look_ms(self) -> int:
        """As often as it may change."""
        return LOOK_MS

    @property
    def wants_look(self) -> bool:
        """Only while there is scaling."""
        return len(self._rounds) > 0

    def look(self, look: LagLook, group: GroupContext) -> None:
        """Note how far behind the group is after each round."""
        self._lag = sum(look.lags.values()) if look.lags else None
        if self._lag is None:
            return
        since_ms = look.at_ms - milliseconds(self.settings.feed_s)
        for it in self._rounds:
            if it.at_ms >= since_ms:
                it.lag_peak = max(it.lag_peak or 0, self._lag)

    def judge(self, group: GroupContext) -> Verdict:
        """Whether scaling feeds itself."""
        self._rounds.prune(group.now_ms)
        if not self._rounds:
            self._lag = None
            return Verdict()
        ends = [self._rounds.expires_ms, self._learn_late(group)]
        return Verdict(self._describe(_moves(self._rounds)), min(it for it in ends if it is not None))

    def _learn_late(self, group: GroupContext) -> int | None:
        """The kubelet and the controllers may tell of a pod some seconds after the topic: when to ask again."""
        unknown = []
        for it in self._rounds:
            if not it.direction and group.now_ms - it.at_ms <= LATE_MS:
                unknown.append(it)
            else:
                # Nobody is asked of them any more, and there may be many, with long names.
                it.joined = it.left = ()
        if not unknown:
            return None
        went, view = group.origins, group.view
        came = {} if view is None or view.origins is None else view.origins
        for it in unknown:
            it.direction = _direction([came.get(m) for m in it.joined], [went.get(m) for m in it.left])
        due_ms = unknown[-1].at_ms + ASK_AGAIN_MS
        return due_ms if due_ms > group.now_ms else None

    def _describe(self, moves: Sequence[Move]) -> Condition | None:
        settings = self.settings
        turns = len(moves) - 1
        if turns < settings.min_turns:
            return None
        known, fed = self._fed(moves)
        if known and fed < settings.min_fed:
            return None
        rounds = [it for move in moves for it in move.rounds]
        # A scale-down that is undone at once, and what undoes it.
        undone = [(one, two) for one, two in pairwise(moves) if one.direction == DOWN]
        saved = [it for pair in undone for move in pair for it in move.rounds]
        gap_ms = max((two.began_ms - one.began_ms for one, two in undone), default=0)
        advised_ms = max(-(-gap_ms // MINUTE_MS) * MINUTE_MS, LEAST_WINDOW_MS)
        numbers: dict[str, Any] = {
            "window_s": settings.window_s,
            "turns": turns,
            "scale_ups": sum(it.direction == UP for it in moves),
            "scale_downs": sum(it.direction == DOWN for it in moves),
            "rebalances": len(rounds),
            "scale_ups_after_lag": fed,
            "is_lag_known": bool(known),
            "rebalances_saved": len(saved),
            "stopped_partition_s": _stopped_s(rounds),
            "stopped_partition_s_saved": _stopped_s(saved),
            "advised_stabilization_window_s": advised_ms // 1000,
        }
        window = duration_text(milliseconds(settings.window_s))
        why = f"{fed} of its scale-ups followed lag of its own rebalances" if known else "whether by lag is not known"
        summary = (
            f"An autoscaler turned {count_text(turns, 'time')} in {window}, with "
            f"{count_text(len(rounds), 'rebalance')}: {why}."
        )
        advice = (
            "Set stabilizationWindowSeconds under behavior.scaleDown of the HorizontalPodAutoscaler (with KEDA under "
            f"advanced.horizontalPodAutoscalerConfig) to {advised_ms // 1000} or more: {len(saved)} of "
            f"{count_text(len(rounds), 'rebalance')} would not have been, nor about "
            f"{count_text(_stopped_s(saved), 'partition-second')} stopped; pods that are idle then run longer."
        )
        return Condition(Severity.WARNING if known else Severity.INFO, summary, advice, numbers)

    def _fed(self, moves: Sequence[Move]) -> tuple[int, int]:
        """Of how many scale-ups the lag before is known, and how many lag of a rebalance by scaling preceded."""
        known = fed = 0
        for before, move in pairwise(moves):
            if move.direction != UP:
                continue
            since_ms = move.began_ms - milliseconds(self.settings.feed_s)
            grown = [
                it.lag_peak - it.lag_before
                for it in before.rounds
                if it.at_ms >= since_ms and it.lag_peak is not None and it.lag_before is not None
            ]
            known += bool(grown)
            fed += any(it >= self.settings.growth_records for it in grown)
        return known, fed


def _direction(came: Sequence[Origin | None], went: Sequence[Origin | None]) -> int:
    ups = sum(_is_by_autoscaler(it, OriginKind.SCALED_UP) for it in came)
    downs = sum(_is_by_autoscaler(it, OriginKind.SCALED_DOWN) for it in went)
    return (ups > downs) - (downs > ups)


def _is_by_autoscaler(origin: Origin | None, kind: OriginKind) -> bool:
    return origin is not None and origin.kind == kind and any(it in origin.message for it in AUTOSCALERS)


def _moves(rounds: RecentItems[ScaleRound]) -> list[Move]:
    out: list[Move] = []
    for it in rounds:
        if not it.direction:
            continue
        if out and out[-1].direction == it.direction:
            out[-1].rounds.append(it)
        else:
            out.append(Move(it.direction, [it]))
    return out


def _stopped_s(rounds: Sequence[ScaleRound]) -> int:
    return round(sum(it.stopped_ms or 0 for it in rounds) / 1000)
