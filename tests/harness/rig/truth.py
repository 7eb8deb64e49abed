"""The truth about each rebalance, read from the broker's log; the ledger decides where the log cannot say.

The rules are those of the capture's `truth.ndjson`: `cause` is what triggered the rebalance (the reason of the
broker's "Preparing to rebalance" line), `causes` all that happened before it completed, `left` and `failed`
members that left or expired, `joined` new dynamic members (static joins are not listed). Members that the
broker dropped because they did not rejoin in time are in `removed` (`rejoin_timeout`).

Beyond the capture's fields: `at_ms`, `prepared_ms` (when the rebalance began), `written` (its assignment
arrived, or it became empty: only then it is in the topic), `departures` (member id → cause) and `departed_ms`
(member id → when the broker saw it go), and `evidence` (member id → `evidence.Evidence.rating`, set by `scoring`:
`none` where the topic cannot show why it went).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.harness.rig.brokerlog import LogEvent
from tests.harness.rig.ledger import Book

CAPTURE_FIELDS = ("group", "kind", "generation", "empty", "cause", "causes", "left", "failed", "joined", "log_time")
FOLLOWUP_MS = 20_000
"""A cooperative member joins again at the poll after it gave up what it lost; some poll slowly."""


@dataclass(slots=True)
class Rebalance:
    """One rebalance of a classic group."""

    group: str
    kind: str
    generation: int = -1
    empty: bool = False
    cause: str = "unknown"
    causes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    log_time: str = ""
    removed: list[str] = field(default_factory=list)
    at_ms: int = 0
    prepared_ms: int = 0
    reason: str = ""
    written: bool = False
    departures: dict[str, str] = field(default_factory=dict)
    departed_ms: dict[str, int] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)

    def form(self) -> dict[str, Any]:
        """As a line of `truth.ndjson`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Departure:
    """A member of a KIP-848, share or streams group that left, was fenced, or expired."""

    group: str
    kind: str
    member: str
    cause: str
    at_ms: int
    log_time: str
    client: str
    evidence: str = ""

    def form(self) -> dict[str, Any]:
        """As a line of `departures.ndjson`."""
        return asdict(self)


@dataclass(slots=True)
class Truth:
    """All that a log tells."""

    rebalances: list[Rebalance] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    static_replaced: list[LogEvent] = field(default_factory=list)


def read_truth(events: Iterable[LogEvent], book: Book) -> Truth:
    """Read a log from its beginning."""
    truth = Truth()
    groups: dict[str, _Classic] = {}
    for event in events:
        if event.kind.startswith("modern") or event.kind == "epoch":
            truth.departures += _modern(event, book)
            continue
        if event.kind == "static_replaced":
            truth.static_replaced.append(event)
        group = groups.setdefault(event.group, _Classic(event.group, book))
        if (done := group.take(event)) is not None:
            truth.rebalances.append(done)
    return truth


class _Classic:
    """One classic group between two completed rebalances."""

    def __init__(self, name: str, book: Book) -> None:
        self._name = name
        self._book = book
        self._current = self._new()
        self._last: Rebalance | None = None
        self._pending: list[str] = []

    def _new(self) -> Rebalance:
        return Rebalance(self._name, self._book.kind(self._name))

    def take(self, event: LogEvent) -> Rebalance | None:
        """Apply one line; the rebalance that it completes, if it does."""
        current = self._current
        match event.kind:
            case "joined" | "joined_at_once":
                current.joined.append(event.member)
                current.causes.append("member_joined")
            case "static_joined":
                current.causes.append("member_joined")
            case "pending":
                self._pending.append(event.member)
            case "pending_gone" if event.member in self._pending:
                self._pending.remove(event.member)
            case "left":
                self._depart(current, event.member, self._leave_cause(event), current.left, event.at_ms)
            case "left_late":
                self._left_late(event)
            case "failed":
                self._depart(current, event.member, "session_timeout", current.failed, event.at_ms)
            case "removed":
                for member in event.removed_members():
                    self._depart(current, member, "rejoin_timeout", current.removed, event.at_ms)
            case "preparing":
                self._prepare(event)
            case "assigned":
                if self._last is not None and self._last.generation == event.generation:
                    self._last.written = True
            case "stabilized" | "empty":
                return self._complete(event)
        return None

    def _depart(self, done: Rebalance, member: str, cause: str, where: list[str], at_ms: int) -> None:
        where.append(member)
        done.departures[member] = cause
        done.departed_ms[member] = at_ms
        done.causes = sorted({*done.causes, cause})

    def _left_late(self, event: LogEvent) -> None:
        # 3.x. Members that leave a stable group begin a rebalance, and that line comes first: so where none has
        # begun since the last was completed, this leave completed it.
        done = self._last if self._last is not None and not self._current.prepared_ms else self._current
        cause = done.departures.get(event.member) or self._leave_cause(event)
        self._depart(done, event.member, cause, done.left, event.at_ms)

    def _leave_cause(self, event: LogEvent) -> str:
        return _stated(event.reason) or self._book.leave_cause(event.group, event.member, event.at_ms)

    def _prepare(self, event: LogEvent) -> None:
        current, reason = self._current, event.reason
        current.prepared_ms, current.reason = event.at_ms, reason
        if reason.startswith("Adding new member"):
            cause = "member_joined"
        elif "on heartbeat expiration" in reason:
            cause = "session_timeout"
        elif found := _REMOVING.match(reason):
            stated = _stated(found[2])
            cause = stated or self._book.leave_cause(event.group, found[1], event.at_ms)
            current.departures[found[1]] = cause
        elif "LeaveGroup" in reason:
            # 4.x says who left first. The reason names them too, but not one removed by its instance id.
            cause = current.departures[current.left[0]] if current.left else "member_left"
        elif reason.startswith("Downgrade group"):
            cause = "protocol_migrated"
        elif "pending sync request expiration" in reason:
            cause = "poll_timeout"
        elif reason.startswith(("Leader ", "Updating metadata for member ", "Updating metadata for static member ")):
            cause = self._rejoin(event)
        elif reason.startswith("Group's selectedProtocol will change"):
            cause = "subscription_changed"
        else:
            cause = "unknown"
        if cause == "member_joined" and (new := reason.split()[3]) in self._pending:
            self._pending.remove(new)
            current.joined.append(new)
        current.cause = cause
        current.causes.append(cause)

    def _rejoin(self, event: LogEvent) -> str:
        for client_reason, cause in _REJOINS:
            if client_reason in event.reason:
                return cause
        words = event.reason.split()
        member = words[1] if words[0] == "Leader" else words[words.index("member") + 1].rstrip(";")
        if explained := self._book.rejoin_cause(event.group, member, event.at_ms):
            return explained
        last = self._last
        soon = last is not None and event.at_ms - last.at_ms < FOLLOWUP_MS
        if soon and self._book.is_cooperative(event.group):
            return "cooperative_followup"
        return "leader_rejoined" if words[0] == "Leader" else "subscription_changed"

    def _complete(self, event: LogEvent) -> Rebalance:
        done = self._current
        # No join phase ends while a member that got an id has yet to come back with it.
        done.joined += self._pending
        done.causes += ["member_joined"] * bool(self._pending)
        self._pending.clear()
        done.generation, done.empty = event.generation, event.kind == "empty"
        done.causes = sorted(set(done.causes) or {"unknown"})
        done.log_time, done.at_ms = event.time_text, event.at_ms
        done.written = done.empty
        self._last, self._current = done, self._new()
        return done


_REMOVING = re.compile(r"Removing member (\S+) on LeaveGroup; client reason: (.*)")
_REJOINS = (
    ("subscription has changed", "subscription_changed"),
    ("cached metadata has changed", "partitions_changed"),
    ("need to revoke partitions and re-join", "cooperative_followup"),
    ("triggered followup rebalance", "cooperative_followup"),  # Kafka Streams
    ("rebalance enforced by user", "leader_rejoined"),
)
_STATED = (
    ("poll timeout has expired", "poll_timeout"),
    ("removed by an admin", "admin_removed"),
    ("being closed", "member_left"),
    ("unsubscribed from all topics", "member_left"),
)


def _stated(reason: str) -> str | None:
    return next((cause for words, cause in _STATED if words in reason), None)


def _modern(event: LogEvent, book: Book) -> Iterator[Departure]:
    match event.kind:
        case "modern_left" | "modern_left_classic":
            cause = _stated(event.reason) or book.leave_cause(event.group, event.member, event.at_ms)
        case "modern_fenced":
            cause = "session_timeout" if "session expired" in event.reason else "poll_timeout"
        case _:
            return
    client = book.client_of(event.group, event.member)
    yield Departure(event.group, book.kind(event.group), event.member, cause, event.at_ms, event.time_text, client)
