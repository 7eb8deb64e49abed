"""What a report tells, as values: the whole fleet in rows, and in full the groups that are worth it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from agent.core.causes import TIMEOUT_CAUSES
from agent.presentation.narrative.events import Event, events_within, is_cost_unknown
from agent.presentation.narrative.explain import Story
from agent.presentation.narrative.findings import severity_rank
from agent.presentation.narrative.words import grouped
from agent.presentation.svg.lanes import Lanes

Form = Mapping[str, Any]

HINT_RANK = severity_rank("info")


class GroupSummary(Struct, frozen=True):
    """One group in the range. `rebalances` and what follows from them are None where nobody was asked.

    `causes` are the times of its rebalances by cause, `departures` are counted by cause, `stopped_ms` is stopped
    partition time without that of `unknown_costs` rebalances, of which it is not known, `findings` are the newest
    event of each that was open at some time. `complete_since_ms` is from
    when on these are all rebalances, None if in the whole range.
    """

    group: str
    group_type: str | None
    state: str | None
    members: int | None
    rebalances: int | None
    causes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    departures: Mapping[str, int] = field(default_factory=dict)
    stopped_ms: int | None = None
    unknown_costs: int = 0
    findings: tuple[Event, ...] = ()
    complete_since_ms: int | None = None

    @property
    def is_partial(self) -> bool:
        """Whether there may have been more than is counted."""
        return self.rebalances is None or self.complete_since_ms is not None

    @property
    def is_cost_partial(self) -> bool:
        """Whether partitions may have stopped for longer than is counted."""
        return self.is_partial or self.unknown_costs > 0

    @property
    def timed_out(self) -> int:
        """Departures that no member chose."""
        return sum(n for cause, n in self.departures.items() if cause in TIMEOUT_CAUSES)

    @property
    def is_noteworthy(self) -> bool:
        """Whether more happened to it than that it began."""
        return bool(self.findings or self.departures or self.stopped_ms or (self.rebalances or 0) > 1)

    def severity_key(self) -> tuple[Any, ...]:
        """The worst first, when sorted by this."""
        # A hint is no trouble by itself: there, what happened decides.
        worst = min([severity_rank(str(it["severity"])) for it in self.findings], default=HINT_RANK)
        return min(worst, HINT_RANK), -self.timed_out, -(self.stopped_ms or 0), -(self.rebalances or 0), self.group


class GroupDetail(Struct, frozen=True):
    """One group in full."""

    summary: GroupSummary
    story: Story
    lanes: Lanes
    description: Form | None
    complete_since_ms: int | None


class ReportOrigin(Struct, frozen=True):
    """How a page came to be: what was read, by which version, when. `title` is its heading, `problems` what was wrong
    with the data."""

    source: str
    version: str
    made_at_ms: int
    title: str | None = None
    problems: tuple[str, ...] = ()


class FleetReport(Struct, frozen=True):
    """All of a page. `groups` are all of them by trouble; `are_groups_named` says that they were named.

    `cluster_findings` are those of no group. `findings_complete_since_ms` is from when on all findings are there,
    None if in the whole range. `are_deleted_listed`: groups that were deleted are among the rows.
    """

    origin: ReportOrigin
    since_ms: int
    until_ms: int
    groups: tuple[GroupSummary, ...]
    details: tuple[GroupDetail, ...]
    are_groups_named: bool
    cluster_findings: tuple[Event, ...] = ()
    findings_complete_since_ms: int | None = None
    are_deleted_listed: bool = True

    @property
    def is_partial(self) -> bool:
        """Whether there may have been more in all groups than is counted."""
        return any(row.is_partial for row in self.groups)

    @property
    def groups_without_history(self) -> int:
        """How many groups were not asked what happened to them."""
        return sum(row.rebalances is None for row in self.groups)

    @property
    def rebalances(self) -> int:
        """How many there were in all groups."""
        return sum(row.rebalances or 0 for row in self.groups)

    @property
    def stopped_ms(self) -> int | None:
        """Stopped partition time of all groups of which it is known; None if it is of none."""
        known = [row.stopped_ms for row in self.groups if row.stopped_ms is not None]
        return sum(known) if known else None

    @property
    def unknown_costs(self) -> int:
        """How many of the rebalances are missing in that."""
        return sum(row.unknown_costs for row in self.groups)

    @property
    def departures(self) -> Counter[str]:
        """Departures of all groups by cause."""
        out: Counter[str] = Counter()
        for row in self.groups:
            out.update(row.departures)
        return out

    @property
    def causes(self) -> dict[str, list[int]]:
        """When all groups rebalanced, by cause, epoch milliseconds."""
        out: dict[str, list[int]] = {}
        for row in self.groups:
            for cause, times in row.causes.items():
                out.setdefault(cause, []).extend(times)
        return out


def summarize_group(
    group: str,
    form: Form | None,
    events: Sequence[Event],
    findings: Sequence[Event],
    since_ms: int | None = None,
    until_ms: int | None = None,
    *,
    is_state_known: bool = True,
    complete_since_ms: int | None = None,
) -> GroupSummary:
    """A row from a group's events (those of the range count), and from its row of `groups` where it still is.

    Where its state is not known, a group without a row may be there all the same. `complete_since_ms` is the row's.
    """
    done = [it for it in events_within(events, since_ms, until_ms) if it["type"] == "rebalance"]
    causes = grouped(done, lambda it: str(it["cause"]))
    stopped = [it["stopped_partition_ms"] for it in done if it["stopped_partition_ms"] is not None]
    return GroupSummary(
        group,
        form["group_type"] if form is not None else events[-1]["group_type"] if events else None,
        form["state"] if form is not None else "Dead" if is_state_known else "not known",
        None if form is None else member_count(form),
        len(done),
        {cause: tuple(it["at_ms"] for it in same) for cause, same in causes.items()},
        Counter(gone["cause"] for it in done for gone in it["left"]),
        sum(stopped) if stopped else None,
        sum(map(is_cost_unknown, done)),
        tuple(findings),
        complete_since_ms,
    )


def member_count(form: Form) -> int | None:
    """How many members a form of `groups` or `describe` has."""
    members = form.get("members")
    return len(members) if isinstance(members, list) else members if isinstance(members, int) else None
