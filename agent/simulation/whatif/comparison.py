"""What each alternative comes to against today's settings: rebalances, standstill, how soon a death is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.simulation.groups.script import ClientSettings, Close, Freeze, Kill, Script, Stall, Start, Step
from agent.simulation.groups.simulate import SimulationResult, StoppedTime
from agent.simulation.whatif.calibrated_replay import CalibratedReplay, CannotReplay, replay
from agent.simulation.whatif.changes import CURRENT_SETTINGS, Alternative
from agent.simulation.whatif.recorded_script import RecordedScript, until_sessions_end


class AlternativeOutcome(Struct, frozen=True):
    """What a play came to, from the opening on.

    `detected_ms`: for each member that died or stalled and was taken out for it, how long that took; of `deaths` in
    all. Others came back before anybody noticed, or the time under review ended.
    """

    alternative: Alternative
    rebalances: int
    stopped: StoppedTime
    deaths: int
    detected_ms: tuple[int, ...]

    @property
    def stopped_ms(self) -> int:
        """Partition-milliseconds of standstill, for whatever reason."""
        return sum(self.stopped)

    @property
    def detects_ms(self) -> int | None:
        """The median of `detected_ms`, None if there is none."""
        return sorted(self.detected_ms)[len(self.detected_ms) // 2] if self.detected_ms else None

    @property
    def detects_at_most_ms(self) -> int | None:
        """The longest."""
        return max(self.detected_ms, default=None)


class Comparison(NamedTuple):
    """Today's settings first, then the alternatives; and those that the model cannot play, with the reason.

    `is_cut_short`: whether there was no time for the rest of them.
    """

    outcomes: tuple[AlternativeOutcome, ...]
    not_played: tuple[tuple[Alternative, str], ...]
    is_cut_short: bool = False

    @property
    def today(self) -> AlternativeOutcome:
        """Under today's settings."""
        return self.outcomes[0]

    def saved(self, outcome: AlternativeOutcome) -> tuple[int, int]:
        """Rebalances and partition-milliseconds of standstill that an alternative would have saved."""
        return self.today.rebalances - outcome.rebalances, self.today.stopped_ms - outcome.stopped_ms


def compare(
    fitted: CalibratedReplay, alternatives: Iterable[Alternative], enough: Callable[[], bool] = lambda: False
) -> Comparison:
    """Play every alternative; `enough` is asked before each whether what was played by then is all."""
    found = fitted.recorded
    outcomes = [evaluate(found, CURRENT_SETTINGS)]
    not_played: list[tuple[Alternative, str]] = []
    for alternative in alternatives:
        if enough():
            return Comparison(tuple(outcomes), tuple(not_played), is_cut_short=True)
        try:
            outcomes.append(evaluate(found, alternative))
        except CannotReplay as error:
            not_played.append((alternative, str(error)))
    return Comparison(tuple(outcomes), tuple(not_played))


def evaluate(recorded: RecordedScript, alternative: Alternative) -> AlternativeOutcome:
    """What counts of a play: what came after the opening, and standstill until the closing. Raises `CannotReplay`."""
    script = replace(alternative.apply(recorded.script), until_ms=recorded.closing_ms)
    since_ms = recorded.opening_ms
    deaths = {
        (step.client, step.at_ms)
        for step in script.steps
        if isinstance(step, Kill | Stall | Freeze) and step.at_ms >= since_ms
    }
    until_closing = came = replay(script)
    if _awaits(script, came):
        came = replay(until_sessions_end(script, recorded.closing_ms))
    return AlternativeOutcome(
        alternative,
        sum(it.began_ms >= since_ms for it in came.rebalances),
        until_closing.stopped.plus(_before(recorded, script), -1),
        len(deaths),
        tuple(it.at_ms - it.died_ms for it in came.departures if (it.client, it.died_ms) in deaths and it.died_ms),
    )


def _awaits(script: Script, came: SimulationResult) -> bool:
    """Whether somebody who is gone at the end of a play is still counted on."""
    settings: dict[str, ClientSettings] = {}
    last: dict[str, Step] = {}
    for step in script.steps:
        if isinstance(step, Start):
            settings[step.client] = step.settings
        if isinstance(step, Start | Close | Kill | Stall | Freeze):
            last[step.client] = step
    taken_out = {(it.client, it.died_ms) for it in came.departures}
    return any(
        (client, step.at_ms) not in taken_out
        for client, step in last.items()
        if isinstance(step, Kill | Stall | Freeze)
        or (isinstance(step, Close) and settings[client].instance_id is not None)
    )


def _before(recorded: RecordedScript, script: Script) -> StoppedTime:
    """The standstill of the time in which the group is brought to where it was found."""
    if recorded.opening is None:
        return StoppedTime()
    return replay(replace(script, until_ms=recorded.opening_ms)).stopped


TOLERABLE_SHARE_OF_STOPPED, TOLERABLE_SHARE_OF_ALL = 0.5, 0.05
"""What saves rebalances is no advice if it costs more standstill: so much of today's, and of all partitions' time."""

LEAST_SAVED_SHARE = 0.05
"""What saves less than that part of today's standstill may as well save nothing: the log's times are bounds."""


def best_alternatives(
    found: RecordedScript, compared: Comparison
) -> tuple[AlternativeOutcome | None, AlternativeOutcome | None]:
    """What would have saved most standstill, and what most rebalances without costing much; None: nothing does."""
    others: Sequence[AlternativeOutcome] = compared.outcomes[1:]
    most_ms = tolerable_cost_ms(found, compared)
    by_time = max(others, key=lambda it: compared.saved(it)[::-1], default=None)
    bearable = [it for it in others if compared.saved(it)[1] >= -most_ms]
    by_count = max(bearable, key=compared.saved, default=None)
    return (
        by_time
        if by_time is not None and compared.saved(by_time)[1] > LEAST_SAVED_SHARE * compared.today.stopped_ms
        else None,
        by_count if by_count is not None and compared.saved(by_count)[0] > 0 else None,
    )


def tolerable_cost_ms(found: RecordedScript, compared: Comparison) -> float:
    """How much more standstill may be worth fewer rebalances."""
    all_ms = sum(found.script.partitions.values()) * (found.closing_ms - found.opening_ms)
    return max(TOLERABLE_SHARE_OF_STOPPED * compared.today.stopped_ms, TOLERABLE_SHARE_OF_ALL * all_ms)


def outcome_json(compared: Comparison, it: AlternativeOutcome) -> dict[str, Any]:
    """An outcome as JSON: times in milliseconds, standstill in partition-milliseconds."""
    saved_rebalances, saved_ms = compared.saved(it)
    return {
        "setting": it.alternative.label,
        "changes": dict(it.alternative.values),
        "rebalances": it.rebalances,
        "stopped_partition_ms": it.stopped_ms,
        "rebalancing_partition_ms": it.stopped.rebalancing,
        "undetected_partition_ms": it.stopped.undetected,
        "unowned_partition_ms": it.stopped.unowned,
        "deaths": it.deaths,
        "deaths_detected": len(it.detected_ms),
        "detection_median_ms": it.detects_ms,
        "detection_max_ms": it.detects_at_most_ms,
        "saved_rebalances": saved_rebalances,
        "saved_partition_ms": saved_ms,
    }
