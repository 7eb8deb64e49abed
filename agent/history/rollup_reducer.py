"""The events of one group, in order → its rollups: one reducer, for the batch job and for the stream. Pure.

Owns what a window's numbers mean. Time comes in on events, and as an argument of `advance`; a window's row is given
out once time has passed its end, and never changes after.

A group is in one phase from each event that shows one until the next: with members (`stable`), without (`empty`), or
None: not there, or not known before its first rebalance. A rebalance tells, when it is over, for how long it
completed and prepared: that time, as far back as the window's beginning and the rebalance before, is taken from the
phase before. So windows that had ended stay as they were given out, whoever reads and in whatever portions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import floor
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from agent.common.units import DAY_MS
from agent.core.causes import Cause
from agent.core.inference.origins import KINDS
from agent.history.tables import WINDOWS

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]
"""Rows, each with the name of its table."""

PAUSE_MS = 600_000
"""Between two episodes of a group's rebalances at least."""

IMBALANCE_UNIT = 0.0001
"""The digits that events have of it."""

MOST_MEMBERS = 2**31 - 1
"""As Kafka counts them."""
MOST_IMBALANCE = 1_000_000
MOST = 2**53
"""Of everything else that is counted, and of sums: what a column of any reader holds. Whoever may write events may
write any number, and one alone would end every rollup; what is more, or negative, is not known."""

Phase = Literal["stable", "empty", "preparing_rebalance", "completing_rebalance"]

PHASES: dict[str, Phase] = {
    "Empty": "empty",
    "PreparingRebalance": "preparing_rebalance",
    "CompletingRebalance": "completing_rebalance",
    "Stable": "stable",
    "Assigning": "stable",
    "Reconciling": "stable",
}
"""Kafka's states, as samples tell them. KIP-848 members work on while a group assigns and reconciles."""

_ORDER = (
    "offsets_deleted",
    "group_deleted",
    "group_created",
    "rebalance",
    "member_left",
    "static_member_replaced",
    "member_joined",
    "assignment_changed",
    "group_emptied",
    "finding",
    "group_sample",
)
"""What one record shows, in the order in which it is taken: a group that is deleted and made anew is there after."""
_PLACES = {kind: place for place, kind in enumerate(_ORDER)}


class Event(Struct, frozen=True):
    """Of a history event what rollups are made of. Fields that are not here are passed over, whatever they hold."""

    event_id: str
    type: str
    at_ms: int
    partition: int | None = None
    offset: int | None = None
    group_type: str | None = None
    observed: bool | None = None
    cause: str | None = None
    members: int | None = None
    sync_ms: int | None = None
    join_ms: int | None = None
    stopped_partition_ms: int | None = None
    imbalance_ratio: float | None = None
    analyzer: str | None = None
    state: str | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    confidence: float | None = None
    """Read for `rank` alone."""
    origins: str | None = None
    """The column of files, as JSON; files of before have none."""
    member: Any = None
    """As the topic has it, with its `origin`."""

    @property
    def is_told_by_looks(self) -> bool:
        """Whether looks showed it, and its id does not say when: an agent that goes on from a snapshot may see what
        it had told already, and tells it again with another time. A group that was there before anybody looked is
        no news."""
        return self.offset is None and self.type not in ("group_created", "group_sample")

    @property
    def origin(self) -> str | None:
        """Of a member that left, the kind of what happened to its pod; None where that is not known."""
        match next(iter(self._origins), None):
            case {"kind": str(kind)} if kind in KINDS:
                return str(kind)
            case _:
                return None

    @property
    def _origins(self) -> list[Any]:
        """Of each member what happened to its pod, as far as files or the topic say."""
        if self.origins is None:
            return [self.member["origin"]] if isinstance(self.member, dict) and "origin" in self.member else []
        try:
            members = msgspec.json.decode(self.origins)
        except (msgspec.DecodeError, RecursionError):
            return []
        return list(members.values()) if isinstance(members, dict) else []

    @property
    def rank(self) -> Rank:
        """Of an event that was told twice the greater is taken."""
        return rank(
            [getattr(self, name) for name in TOLD], self.confidence, sum(it is not None for it in self._origins)
        )

    @property
    def place(self) -> tuple[Any, ...]:
        """What events are sorted by: time, record, then as `_ORDER`."""
        return (
            self.at_ms,
            -1 if self.partition is None else self.partition,
            -1 if self.offset is None else self.offset,
            _PLACES.get(self.type, len(_PLACES)),
            self.event_id,
        )


TOLD = tuple(name for name in Event.__struct_fields__ if name not in ("origins", "member"))
"""What two tellings of an event are compared by, besides origins."""

Rank = tuple[int, int, float, str]


def rank(told: Sequence[Any], confidence: float | None, origins: int) -> Rank:
    """What is preferred where an event was told twice and differently, as after a crash: of which more `origins` are
    known, then more of the values of `TOLD`, then with more confidence, and then either, but always the same."""
    return origins, sum(it is not None for it in told), confidence or 0.0, json.dumps(told)


class Window(Struct):
    """What was counted in a window that is not over yet."""

    start_ms: int
    told: bool = False
    """Whether anything was told of the group in it."""
    phases: dict[Phase, int] = {}
    members_ms: int = 0
    members_unknown_ms: int = 0
    """For how long of its phases members were not known."""
    members_min: int | None = None
    members_max: int | None = None
    imbalance_ms: int = 0
    imbalance_known_ms: int = 0
    imbalance_max: int | None = None
    joins: int = 0
    departures: int = 0
    replacements: int = 0
    gaps: int = 0
    gap_ms: int = 0
    lag_records: list[int] = []
    lag_seconds: list[float] = []
    lag_samples: int = 0
    lag_unknown: int = 0
    causes: dict[tuple[str, str], list[int]] = {}
    """By kind and cause: how many, and what those cost whose cost is known."""
    stopped_unknown: dict[str, int] = {}
    """By cause: rebalances whose cost is not known."""
    join_unknown: int = 0
    sync_unknown: int = 0


class Episode(Struct):
    """Rebalances one after the other."""

    start_ms: int
    end_ms: int
    members_before: int | None
    members_after: int | None = None
    rebalances: int = 0
    joins: int = 0
    departures: int = 0
    left_on_their_own: int = 0
    replacements: int = 0
    stopped_partition_ms: int = 0
    """Of those whose cost is known."""
    stopped_unknown: int = 0


TOLD_AGAIN_MS = DAY_MS
"""What looks showed is told again within this time, or is another event: a snapshot that is older is refused."""

TOLD_KEPT = 20_000
"""Ids of a group at most."""

STATE_VERSION = 4
"""Of what `GroupRollup` and the classes in it hold. See `spark_jobs.streams.state_format` before it is raised."""


class GroupRollup(Struct):
    """What is known of a group, up to `clock_ms`. As a whole the state of the stream's operator."""

    cluster: str | None = None
    group: str | None = None
    group_type: str | None = None
    clock_ms: int | None = None
    phase: Phase | None = None
    phase_since_ms: int = 0
    members: int | None = None
    imbalance: int | None = None
    """In `IMBALANCE_UNIT`s: a sum of floats would depend on the portions in which time came."""
    last_rebalance_ms: int | None = None
    firing: set[str] = set()
    windows: dict[str, Window] = {}
    episode: Episode | None = None
    told: dict[str, int] = {}
    """Of what looks showed (`Event.is_told_by_looks`) by id when it was told last, in order of that."""

    def take(self, events: Iterable[Event]) -> Rows:
        """Apply events that are in order and not before the clock: rows of the windows that they show to be over.

        What looks showed and was told again, at another time, counts as of the first.
        """
        for event in events:
            yield from self.advance(event.at_ms)
            if not (event.is_told_by_looks and self._is_told_again(event)):
                self._apply(event)

    def advance(self, now_ms: int) -> Rows:
        """Let time pass up to `now_ms`: rows of the windows that are over."""
        if self.clock_ms is None:
            self.clock_ms = now_ms
        if now_ms > self.clock_ms:
            for name, length_ms in WINDOWS.items():
                yield from self._pass(name, length_ms, self.clock_ms, now_ms)
            self.clock_ms = now_ms
        if self.episode is not None and now_ms >= self.episode.end_ms + PAUSE_MS:
            yield "episodes", self._episode_row(self.episode)
            self.episode = None
        self._forget(now_ms)

    def skip(self, now_ms: int) -> None:
        """Let time pass without a row, up to the beginning of what counts: how the group stands is kept."""
        self.windows.clear()
        self.clock_ms = now_ms
        # Nothing that comes later may be taken from time that is forgotten.
        self.phase_since_ms = max(self.phase_since_ms, now_ms)
        if self.episode is not None and now_ms >= self.episode.end_ms + PAUSE_MS:
            self.episode = None
        self._forget(now_ms)

    @property
    def stands(self) -> bool:
        """Whether there is anything that later events are taken with."""
        numbers = (self.last_rebalance_ms, self.imbalance)
        return any((self.phase, self.firing, self.episode, self.told)) or numbers != (None, None)

    def next_ms(self) -> int | None:
        """When time gives the next row, if nothing happens before; None: it never does."""
        dues = [window.start_ms + WINDOWS[name] for name, window in self.windows.items() if self._gives(name, window)]
        if self.episode is not None:
            dues.append(self.episode.end_ms + PAUSE_MS)
        if self.phase is not None and self.clock_ms is not None:
            dues += [(self.clock_ms // WINDOWS[name] + 1) * WINDOWS[name] for name in ("1h", "1d")]
        return min(dues, default=None)

    # Time.

    def _pass(self, name: str, length_ms: int, from_ms: int, to_ms: int) -> Rows:
        while from_ms < to_ms:
            start_ms = from_ms // length_ms * length_ms
            end_ms = start_ms + length_ms
            until_ms = min(end_ms, to_ms)
            window = self._window(name, from_ms)
            self._spend(window, until_ms - from_ms)
            if until_ms == end_ms:
                if self._gives(name, window):
                    yield from self._rows(name, window)
                del self.windows[name]
                if self.phase is None and until_ms < to_ms:
                    # Nothing is known: there is no time to spend.
                    from_ms = to_ms // length_ms * length_ms
                    continue
                if name == "5m":
                    # Quiet windows of five minutes have no row.
                    until_ms = max(until_ms, to_ms // length_ms * length_ms)
            from_ms = until_ms

    def _spend(self, window: Window, span_ms: int) -> None:
        if self.phase is None:
            return
        window.phases[self.phase] = window.phases.get(self.phase, 0) + span_ms
        if self.members is None:
            window.members_unknown_ms += span_ms
        else:
            window.members_ms += self.members * span_ms
            window.members_min = self.members if window.members_min is None else min(window.members_min, self.members)
            window.members_max = self.members if window.members_max is None else max(window.members_max, self.members)
        if self.imbalance is not None:
            window.imbalance_ms += self.imbalance * span_ms
            window.imbalance_known_ms += span_ms
            window.imbalance_max = max(window.imbalance_max or 0, self.imbalance)

    def _window(self, name: str, at_ms: int) -> Window:
        start_ms = at_ms // WINDOWS[name] * WINDOWS[name]
        window = self.windows.get(name)
        if window is None:
            window = self.windows[name] = Window(
                start_ms, phases={}, lag_records=[], lag_seconds=[], causes={}, stopped_unknown={}
            )
        assert window.start_ms == start_ms, "a window is given out before the next begins"
        return window

    def _gives(self, name: str, window: Window) -> bool:
        return window.told or (name != "5m" and any(window.phases.values()))

    # Events.

    def _is_told_again(self, event: Event) -> bool:
        """Whether it was told before; from now on it was."""
        known = self.told.pop(event.event_id, None) is not None
        self.told[event.event_id] = event.at_ms
        if len(self.told) > TOLD_KEPT:
            del self.told[next(iter(self.told))]
        return known

    def _forget(self, now_ms: int) -> None:
        """Let go of what will not be told again."""
        while self.told and now_ms - self.told[first := next(iter(self.told))] > TOLD_AGAIN_MS:
            del self.told[first]

    def _apply(self, event: Event) -> None:
        if event.group_type is not None:
            self.group_type = event.group_type
        at_ms = event.at_ms
        windows = [self._window(name, at_ms) for name in WINDOWS]
        for window in windows:
            window.told = True
        match event.type:
            case "group_created":
                self.last_rebalance_ms = None
                if event.observed:
                    self._enter("empty", at_ms, 0)
            case "rebalance":
                self._rebalance(event, windows)
            case "member_joined":
                self._count(windows, "joins")
            case "member_left":
                self._count(windows, "departures")
                if self.episode is not None and event.cause == Cause.MEMBER_LEFT:
                    self.episode.left_on_their_own += 1
                _add(windows, "departure", event.cause or str(Cause.UNKNOWN_DEPARTURE), 0)
                if (origin := event.origin) is not None:
                    _add(windows, "origin", origin, 0)
            case "static_member_replaced":
                self._count(windows, "replacements")
            case "assignment_changed":
                self._spread(event.imbalance_ratio)
            case "group_emptied":
                self._enter("empty", at_ms, 0)
            case "group_deleted":
                self.phase, self.members, self.imbalance, self.last_rebalance_ms = None, None, None, None
            case "finding" if event.analyzer is not None:
                self._finding(event.analyzer, event.state, windows)
            case "group_sample":
                self._sample(event, windows)
            case _:
                pass

    def _enter(self, phase: Phase, at_ms: int, members: int | None) -> None:
        if phase != self.phase:
            self.phase, self.phase_since_ms = phase, at_ms
        self.members = members
        if not members:
            self.imbalance = None

    def _spread(self, ratio: float | None) -> None:
        ratio = _possible(ratio, MOST_IMBALANCE)
        self.imbalance = None if ratio is None else round(ratio / IMBALANCE_UNIT)

    def _rebalance(self, event: Event, windows: list[Window]) -> None:
        at_ms, cause = event.at_ms, event.cause or str(Cause.UNKNOWN)
        cost_ms, members = _possible(event.stopped_partition_ms, MOST), _possible(event.members, MOST_MEMBERS)
        join_ms, sync_ms = _possible(event.join_ms, MOST), _possible(event.sync_ms, MOST)
        for window in windows:
            self._took(window, at_ms, sync_ms or 0, join_ms or 0)
            window.join_unknown += join_ms is None
            window.sync_unknown += sync_ms is None
            if cost_ms is None:
                window.stopped_unknown[cause] = window.stopped_unknown.get(cause, 0) + 1
            if self.last_rebalance_ms is not None:
                window.gaps += 1
                window.gap_ms += at_ms - self.last_rebalance_ms
        _add(windows, "rebalance", cause, cost_ms or 0)
        self.last_rebalance_ms = at_ms
        if self.episode is None:
            self.episode = Episode(at_ms, at_ms, self.members)
        self.episode.end_ms, self.episode.members_after = at_ms, members
        self.episode.rebalances += 1
        self.episode.stopped_partition_ms = min(self.episode.stopped_partition_ms + (cost_ms or 0), MOST)
        self.episode.stopped_unknown += cost_ms is None
        if members is None:
            self.phase, self.members, self.imbalance = None, None, None
        else:
            self._enter("stable" if members else "empty", at_ms, members)
        self.phase_since_ms = at_ms

    def _took(self, window: Window, at_ms: int, sync_ms: int, join_ms: int) -> None:
        """The rebalance that ended now had two phases, of which nothing was told before."""
        if self.phase is None:
            return
        least_ms = max(window.start_ms, self.phase_since_ms)
        synced_ms = max(at_ms - sync_ms, least_ms)
        joined_ms = max(at_ms - sync_ms - join_ms, least_ms)
        self._move(window, "completing_rebalance", at_ms - synced_ms)
        self._move(window, "preparing_rebalance", synced_ms - joined_ms)

    def _move(self, window: Window, phase: Phase, span_ms: int) -> None:
        assert self.phase is not None, "there was a phase before"
        if span_ms:
            window.phases[self.phase] -= span_ms
            window.phases[phase] = window.phases.get(phase, 0) + span_ms

    def _count(self, windows: list[Window], what: str) -> None:
        for it in (*windows, self.episode):
            if it is not None:
                setattr(it, what, getattr(it, what) + 1)

    def _finding(self, analyzer: str, state: str | None, windows: list[Window]) -> None:
        if state != "firing":
            self.firing.discard(analyzer)
        elif analyzer not in self.firing:
            self.firing.add(analyzer)
            _add(windows, "finding", analyzer, 0)

    def _sample(self, event: Event, windows: list[Window]) -> None:
        phase = PHASES.get(event.state or "")
        if phase is not None:
            self._enter(phase, event.at_ms, _possible(event.members, MOST_MEMBERS))
        if event.imbalance_ratio is not None:
            self._spread(event.imbalance_ratio)
        lag_records, lag_seconds = _possible(event.lag_records, MOST), _possible(event.lag_seconds, MOST)
        for window in windows:
            if lag_records is None and lag_seconds is None:
                window.lag_unknown += 1
                continue
            window.lag_samples += 1
            if lag_records is not None:
                window.lag_records.append(lag_records)
            if lag_seconds is not None:
                window.lag_seconds.append(lag_seconds)

    # Rows.

    def _rows(self, name: str, it: Window) -> Rows:
        span = {"window": name, "start_ms": it.start_ms, "end_ms": it.start_ms + WINDOWS[name]}
        head = {**self._group_fields(), **span}
        known_ms = sum(it.phases.values())
        of_kind = {
            kind: [both for (one, _), both in it.causes.items() if one == kind] for kind in ("rebalance", "finding")
        }
        rebalances = sum(count for count, _ in of_kind["rebalance"])
        stopped_unknown = sum(it.stopped_unknown.values())
        yield (
            "groups",
            {
                **head,
                "known_ms": known_ms,
                "stable_ms": it.phases.get("stable", 0),
                "empty_ms": it.phases.get("empty", 0),
                "preparing_rebalance_ms": _known(
                    it.phases.get("preparing_rebalance", 0), rebalances, it.join_unknown
                ),
                "completing_rebalance_ms": _known(
                    it.phases.get("completing_rebalance", 0), rebalances, it.sync_unknown
                ),
                "join_unknown": it.join_unknown,
                "sync_unknown": it.sync_unknown,
                "rebalances": rebalances,
                "joins": it.joins,
                "departures": it.departures,
                "replacements": it.replacements,
                "stopped_partition_ms": _known(
                    sum(cost_ms for _, cost_ms in of_kind["rebalance"]), rebalances, stopped_unknown
                ),
                "stopped_unknown": stopped_unknown,
                "rebalance_gaps": it.gaps,
                "rebalance_gap_ms": it.gap_ms,
                "mean_time_between_rebalances_ms": it.gap_ms / it.gaps if it.gaps else None,
                "members_min": it.members_min,
                "members_max": it.members_max,
                "members_avg": _mean(it.members_ms, known_ms - it.members_unknown_ms),
                "imbalance_max": None if it.imbalance_max is None else _ratio(it.imbalance_max),
                "imbalance_avg": _ratio(it.imbalance_ms / it.imbalance_known_ms) if it.imbalance_known_ms else None,
                "lag_samples": it.lag_samples,
                "lag_unknown": it.lag_unknown,
                **percentiles("lag_records", it.lag_records),
                **percentiles("lag_seconds", it.lag_seconds),
                "findings_opened": sum(count for count, _ in of_kind["finding"]),
            },
        )
        for (kind, cause), (count, cost_ms) in sorted(it.causes.items()):
            unknown = it.stopped_unknown.get(cause, 0) if kind == "rebalance" else None
            cost = {
                "stopped_partition_ms": None if unknown is None else _known(cost_ms, count, unknown),
                "stopped_unknown": unknown,
            }
            yield "causes", {**head, "kind": kind, "cause": cause, "count": count, **cost}

    def _episode_row(self, it: Episode) -> Row:
        counted = msgspec.structs.asdict(it)
        del counted["left_on_their_own"]
        counted["stopped_partition_ms"] = _known(it.stopped_partition_ms, it.rebalances, it.stopped_unknown)
        return {**self._group_fields(), **counted, "kind": episode_kind(it)}

    def _group_fields(self) -> Row:
        return {"cluster": self.cluster, "group": self.group, "group_type": self.group_type}


def episode_kind(it: Episode) -> str:
    """What an episode was. A deploy replaces half of the members at least, and most go of their own accord. Where
    members before it or after it are not known, nobody can say."""
    before, after = it.members_before, it.members_after
    if before is None or after is None:
        return "other"
    replaced = min(it.joins, it.departures) + it.replacements
    own = it.left_on_their_own + it.replacements
    if before and after and 2 * replaced >= before and 2 * own >= it.departures + it.replacements:
        return "deploy"
    if after > before and not it.departures:
        return "scale_out"
    if after < before and not it.joins and it.left_on_their_own == it.departures:
        return "scale_in"
    return "other"


def percentiles(name: str, values: list[Any]) -> Row:
    """Percentiles of samples, by linear interpolation (as Spark's `percentile` and numpy); None without any."""
    values = sorted(values)
    out: Row = {f"{name}_{label}": _percentile(values, share) for label, share in _SHARES.items()}
    out[f"{name}_max"] = float(values[-1]) if values else None
    return out


def _known(sum_of_known: int, rebalances: int, unknown: int) -> int | None:
    """The sum over the rebalances of which something is known; None where it is of none of them."""
    return None if rebalances and unknown == rebalances and not sum_of_known else min(sum_of_known, MOST)


Number = TypeVar("Number", int, float)


def _possible(told: Number | None, most: int) -> Number | None:
    """A number as it was told; None where it cannot be."""
    return told if told is not None and 0 <= told <= most else None


def _mean(of_time: int, known_ms: int) -> float | None:
    return of_time / known_ms if known_ms else None


def _ratio(units: float) -> float:
    return round(units * IMBALANCE_UNIT, 9)


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def _percentile(values: list[Any], share: float) -> float | None:
    if not values:
        return None
    at = share * (len(values) - 1)
    low = floor(at)
    high = min(low + 1, len(values) - 1)
    return float(values[low] + (values[high] - values[low]) * (at - low))


def _add(windows: list[Window], kind: str, cause: str, cost_ms: int) -> None:
    for window in windows:
        both = window.causes.setdefault((kind, cause), [0, 0])
        both[0] += 1
        both[1] = min(both[1] + cost_ms, MOST)
