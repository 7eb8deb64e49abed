"""Some members have far more to do than others: by partitions, or by the records that they consume.

Rule: the largest share is `ratio` times a fair one and `excess` partitions above the most even spread, or it consumed
`load_ratio` times a fair share of the last fifteen minutes' records. `analyzers.balance` says what a fair share is.
More members than partitions is not unbalanced: `idle_members` says that.
Known false alarms: `UnbalancedAssignment.false_alarms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from agent.core.protocol.assignors import ASSIGNORS
from agent.core.protocol.states import GroupType
from agent.core.shadow.fairness import largest_even_share, target_or_assignment
from agent.core.shadow.transitions import Transition
from agent.core.shadow.views import GroupView
from agent.core.state_fields import StateFields
from analyzers.api import (
    WINDOW_MS,
    Analyzer,
    Condition,
    GroupContext,
    Sample,
    Settings,
    Severity,
    TopicPartition,
    Verdict,
    setting,
)
from analyzers.balance import (
    STREAMS_PROTOCOL,
    Spread,
    assignment_problem,
    held_partitions,
    load_spread,
    partition_spread,
    settled_from_ms,
)
from analyzers.formatting import count_text, list_text, truncated

WORTHWHILE_REDUCTION = 0.8
"""Another assignor is advised if it makes the largest share smaller than this part of what it is."""

CANDIDATE_ASSIGNORS = ("range", "roundrobin")
"""The assignors that are asked: what the sticky ones give depends on who has what now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbalancedSettings(Settings):
    """Why these: rounds of a cooperative rebalance are over within a minute. One partition more or less matters to
    nobody, and where partitions do not divide evenly it soon makes a ratio of 1.3. Traffic is never as even as counts
    are, and of two members none can have more than twice a fair share: 1.75 is 7 of 8 records. 10,000 records in a
    quarter of an hour are 11 a second. In the first ten minutes a group may work off what waited for it."""

    open_after_s: float = setting(60.0, "seconds that the condition must hold before a finding opens")
    ratio: float = setting(1.5, "largest share of partitions / fair share that is unbalanced", least=1)
    excess: int = setting(2, "partitions by which the largest share must be above the most even spread", least=1)
    load_ratio: float = setting(1.75, "largest share of records / fair share that is unbalanced", least=1)
    min_records: int = setting(
        10_000, "records of the last 15 minutes below which their shares do not matter", least=1
    )
    load_after_s: float = setting(600.0, "seconds of commits that must have been seen before records are judged")


class UnbalancedAssignment(Analyzer):
    """Compares the largest share to a fair one, and asks other assignors what they would give."""

    STATE: ClassVar = StateFields(
        {
            "_condition": Condition | None,
            "_view": GroupView | None,
            "_held": Spread | None,
            "_settles_ms": int,
            "_has_changed": bool,
            "_first_sample_ms": int | None,
            "_looked_ms": int,
        }
    )

    name = "unbalanced_assignment"
    rule = (
        "The member with the most partitions (Connect, Streams: tasks) has at least `ratio` times a fair share and "
        "`excess` more than the most even spread would give it; or, of `min_records` records consumed in the last 15 "
        "minutes, the members' partitions of today carried at least `load_ratio` times a fair share for one of them."
    )
    false_alarms = (
        "A group that works off a backlog of one partition looks skewed until it is done. An assignor of the "
        "application's own may mean it so. Partitions are counted as assigned: those nobody was given are not "
        "known. Silent on share groups, whose partitions have several members; on records of streams groups, whose "
        "tasks are not topics' partitions, and of Connect; and for six minutes after a rebalance of Connect."
    )
    settings_class = UnbalancedSettings
    settings: UnbalancedSettings
    samples = True

    __slots__ = ("_condition", "_first_sample_ms", "_has_changed", "_held", "_looked_ms", "_settles_ms", "_view")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._condition: Condition | None = None
        # The group and its spread of partitions, as of the last change: to make a view costs a decode an offset.
        self._view: GroupView | None = None
        self._held: Spread | None = None
        self._settles_ms = 0
        self._has_changed = False
        self._first_sample_ms: int | None = None
        self._looked_ms = 0

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Look again: shares may have changed."""
        self._has_changed = True

    def sample(self, sample: Sample, group: GroupContext) -> None:
        """Remember since when commits are seen."""
        if self._first_sample_ms is None:
            self._first_sample_ms = sample.at_ms

    def judge(self, group: GroupContext) -> Verdict:
        """Look if the group changed, or if the last look at its records is old."""
        now_ms = group.now_ms
        if self._has_changed or now_ms - self._looked_ms >= WINDOW_MS:
            self._look(group)
            self._has_changed, self._looked_ms = False, now_ms
        if self._condition is None:
            return Verdict()
        if now_ms < self._settles_ms:
            return Verdict(wake_ms=self._settles_ms)
        # Records get old without another sample, while there are any.
        return Verdict(self._condition, self._looked_ms + WINDOW_MS if group.consumed else None)

    def _look(self, group: GroupContext) -> None:
        consumed = self._consumed(group)
        view = self._view
        # What goes by its topic's id may have a name by now.
        may_be_named = view is not None and view.group_type != GroupType.CLASSIC and bool(consumed)
        if self._has_changed or (may_be_named and self._held is not None):
            view = group.view
            self._held = None if view is None or len(view.members) < 2 else partition_spread(view)
        self._view, self._condition = view, None
        if view is not None and self._held is not None:
            case = _GroupSpread(view, self._held, load_spread(view, consumed) if consumed else None, consumed)
            self._condition, self._settles_ms = self._judged(case), settled_from_ms(view)

    def _consumed(self, group: GroupContext) -> Mapping[TopicPartition, int]:
        """The records of the last minutes, if they are enough to judge by."""
        settings, first_ms = self.settings, self._first_sample_ms
        if first_ms is None or group.now_ms - first_ms < settings.load_after_s * 1000:
            return {}
        consumed = group.consumed
        return consumed if sum(consumed.values()) >= settings.min_records else {}

    def _judged(self, case: _GroupSpread) -> Condition | None:
        settings, held, load = self.settings, case.held, case.load
        is_skewed = load is not None and load.ratio >= settings.load_ratio
        if held.ratio >= settings.ratio and held.largest - largest_even_share(held.fair) >= settings.excess:
            # Where records are known to be shared out evenly, numbers of partitions do no harm.
            severity = Severity.WARNING if load is None or is_skewed else Severity.INFO
            return _by_partitions(case, severity)
        if load is not None and is_skewed:
            return _by_records(case, load)
        return None


class _GroupSpread(NamedTuple):
    """A group as it is judged."""

    view: GroupView
    held: Spread
    load: Spread | None
    consumed: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.held.shares.values())

    def largest_of(self, spread: Spread) -> list[str]:
        """The clients with the largest share."""
        return [it.client_id for it in self.view.members if spread.shares[it.member_id] == spread.largest]

    def hottest(self) -> tuple[TopicPartition, int]:
        """The held partition with the most records."""
        slots = (
            (topic, it)
            for member in self.view.members
            for topic, them in target_or_assignment(member).items()
            for it in them
        )
        return max(((slot, self.consumed.get(slot, 0)) for slot in slots), key=lambda it: (it[1], it[0]))

    def others(self, counts: Callable[[TopicPartition], int]) -> dict[str, int]:
        """The largest share that each assignor would leave, `counts` being what a partition counts for; only where
        members choose their assignor."""
        if self.view.group_type != GroupType.CLASSIC or self.view.protocol == STREAMS_PROTOCOL:
            return {}
        held = held_partitions(self.view)
        problem = assignment_problem(self.view, held)
        return {
            name: max(
                sum(counts((topic, held[topic][at])) for topic, at in slots)
                for slots in ASSIGNORS[name](problem).values()
            )
            for name in CANDIDATE_ASSIGNORS
        }

    def numbers(self) -> dict[str, Any]:
        held, load = self.held, self.load
        numbers: dict[str, Any] = {
            "members": len(self.view.members),
            "partitions": self.total,
            "largest": held.largest,
            "fair": round(held.fair, 3),
            "most_even": largest_even_share(held.fair),
            "ratio": round(held.ratio, 3),
            "clients": [truncated(name) for name in self.largest_of(load or held)[:5]],
        }
        if load is not None:
            (topic, number), records = self.hottest()
            numbers |= {
                "records": sum(load.shares.values()),
                "largest_records": load.largest,
                "load_ratio": round(load.ratio, 3),
                "hottest": f"{truncated(topic)}-{number}",
                "hottest_records": records,
            }
        return numbers


def _by_partitions(case: _GroupSpread, severity: Severity) -> Condition:
    held, load, names = case.held, case.load, case.largest_of(case.held)
    thing = "task" if case.view.group_type in (GroupType.CONNECT, GroupType.STREAMS) else "partition"
    summary = (
        f"{list_text(names)} {'holds' if len(names) == 1 else 'hold'} {held.largest}{' each' if names[1:] else ''} "
        f"of "
        f"{count_text(case.total, thing)}, {held.ratio:.2g} times a fair share of {held.fair:.4g} among "
        f"{len(case.view.members)} members"
    )
    if load is not None:
        summary += f"; by records consumed the largest share is {load.ratio:.2g} times a fair one"
    others = case.others(lambda _: 1)
    numbers = case.numbers() | {f"{name}_largest": largest for name, largest in others.items()}
    return Condition(severity, f"{summary}.", _partition_advice(case, others), numbers)


def _partition_advice(case: _GroupSpread, others: Mapping[str, int]) -> str:
    view, now, even = case.view, case.held.largest, largest_even_share(case.held.fair)
    if view.group_type == GroupType.CONNECT:
        return (
            "Connect spreads tasks evenly by itself: see whether scheduled.rebalance.max.delay.ms is long, and "
            "whether all workers have the same version and the same connect.protocol."
        )
    if not others and view.group_type != GroupType.CONSUMER:
        return (
            "Streams leaves tasks where their state is: see num.standby.replicas, max.warmup.replicas and "
            "acceptable.recovery.lag, and give every instance the same num.stream.threads."
        )
    if not others:
        return (
            f"With group.remote.assignor=uniform no member gets more than {even}, where all subscribe to the same "
            "topics."
        )
    best = min(others, key=others.__getitem__)
    if others[best] > now * WORTHWHILE_REDUCTION:
        answers = " and ".join(f"{largest} with {name}" for name, largest in others.items())
        return (
            f"Let all members subscribe to the same topics: another assignor does not help (the largest share would "
            f"be {answers}; at best {even}). What a sticky assignor left over goes if all members restart together."
        )
    return (
        f"Set partition.assignment.strategy to {best} on all members: no member then gets more than {others[best]} "
        f"(with {truncated(view.protocol or 'none')}, as now, {now}); the price is a rolling restart."
    )


def _by_records(case: _GroupSpread, load: Spread) -> Condition:
    total = sum(load.shares.values())
    busiest = next(it for it in case.view.members if load.shares[it.member_id] == load.largest)
    summary = (
        f"{truncated(busiest.client_id)} consumed {load.largest / total:.0%} of {total:,} records in 15 minutes, "
        f"{load.ratio:.2g} times a fair share among {len(case.view.members)} members, with "
        f"{case.held.shares[busiest.member_id]} of {count_text(case.total, 'partition')}."
    )
    others = case.others(lambda slot: case.consumed.get(slot, 0))
    numbers = case.numbers() | {f"{name}_largest_records": largest for name, largest in others.items()}
    return Condition(Severity.WARNING, summary, _record_advice(case, load, others), numbers)


def _record_advice(case: _GroupSpread, load: Spread, others: Mapping[str, int]) -> str:
    (topic, number), records = case.hottest()
    if records >= load.largest * WORTHWHILE_REDUCTION:
        return (
            f"No assignor helps: partition {number} of {truncated(topic)} alone carries "
            f"{records / sum(load.shares.values()):.0%} of the records. Spread its keys over more partitions, or "
            "give the topic more of them."
        )
    best = min(others, key=others.__getitem__, default=None)
    if best is not None and others[best] <= load.largest * WORTHWHILE_REDUCTION:
        return (
            f"Set partition.assignment.strategy to {best} on all members: of the same records the largest share "
            f"would be {others[best] / load.fair:.2g} times a fair one."
        )
    return (
        "Assignors count partitions, not records: give the busy topics more partitions, or consume them with a group "
        "of their own."
    )
