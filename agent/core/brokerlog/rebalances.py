"""From the coordinator's lines to what is known of each rebalance, and a witness that tells it to the mirror.

One `BrokerLog` is one broker. A classic group's rebalance begins with "Preparing to rebalance", with the reason,
and ends with "Stabilized" or "is now empty"; who comes and goes in between, or just before it, belongs to it. A
generation whose assignment never arrived is not in the topic: what happened then is told with the next that is. Of
KIP-848, share and streams groups each member that goes has its line.

The log is as trustworthy as who may write to it: a client's reason stands in it as the client sent it.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable

from msgspec import Struct, field

from agent.common.text import truncated
from agent.core.brokerlog.lines import MAX_REASON_CHARACTERS, LogEvent
from agent.core.causes import Cause
from agent.core.inference.external_evidence import RebalanceReport, ReportedDeparture

SOURCE = "broker_log"

KEPT_REBALANCES = 50_000
"""In all groups together; the oldest go first. As many departures from groups of the newer protocols."""

KEPT_CHARACTERS = 1 << 25
"""Of the names of members that went in these, likewise: a line may list thousands, and clients choose names of up to
32,767."""

LONGEST_NAME = 1_000
"""Of groups and members with longer names nothing is kept."""

KEPT_GROUPS = 20_000
KEPT_MEMBERS = 5_000
"""Of one group, at a time."""

TOLERANCE_MS = 5_000
"""How far apart log and record may have one moment: log times may be cut to seconds, clocks are of one host."""

_KEPT_UNWRITTEN = 20
_EPOCH_MS = 10_000
"""How long before the epoch that lacks it a member of a KIP-848, share or streams group can have gone."""


_QUARTER_HOUR_MS = 900_000
_MAX_QUARTER_HOURS = 56
"""No time zone is farther from UTC than 14 hours."""


class LoggedRebalance(Struct):
    """What the log says of one rebalance of a classic group. Times are epoch milliseconds.

    `cause` set it off where a reason is stated; else `first_to_leave` is the member whose unexplained leaving did, or
    `rejoin_cause` what the joining again of a member stands for if the topic shows nothing else. `previous_began_ms`
    is when the latest one before it began of those that gave out an assignment.
    """

    group: str
    previous_began_ms: int | None = None
    began_ms: int | None = None
    quote: str = ""
    cause: Cause | None = None
    first_to_leave: str | None = None
    rejoin_cause: Cause | None = None
    causes: set[Cause] = field(default_factory=set)
    departures: dict[str, ReportedDeparture] = field(default_factory=dict)
    generation: int = -1
    ended_ms: int = 0
    is_written: bool = False
    unwritten: tuple[LoggedRebalance, ...] = ()
    """Those just before it whose assignment never arrived, oldest first."""
    characters: int = 0
    """Of the names of its members that went, once all are known."""

    def add_departure(self, member: str, gone: ReportedDeparture) -> None:
        """A member goes. What was said of it first stays, unless it gave no reason and now there is one."""
        known = self.departures.get(member)
        if known is not None and known.cause is None and gone.cause is not None:
            self.departures[member] = gone._replace(joined_ms=known.joined_ms)
        elif known is None and len(self.departures) < KEPT_MEMBERS:
            self.departures[member] = gone
        if gone.cause is not None:
            self.causes.add(gone.cause)


class _LoggedGroup(Struct):
    current: LoggedRebalance
    last: LoggedRebalance | None = None
    pending: set[str] = field(default_factory=set)
    joined: dict[str, int] = field(default_factory=dict)
    """When members joined for the first time that are there."""
    done: dict[int, deque[LoggedRebalance]] = field(default_factory=dict)
    """By generation: a group that was deleted and made anew has some twice."""
    modern: deque[tuple[str, ReportedDeparture]] = field(default_factory=lambda: deque(maxlen=KEPT_MEMBERS))
    """Members of the newer protocols in the order in which they went; one may come back, and go again."""


class BrokerLog:
    """The lines of one broker, in their order; an `EvidenceSource`."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _LoggedGroup] = OrderedDict()
        self._order: deque[tuple[_LoggedGroup, int]] = deque()
        self._departed: deque[_LoggedGroup] = deque()
        """The groups of all `modern` departures that are kept, in that order."""
        self._characters = 0
        self.answered = 0
        self.time_offsets: Counter[int] = Counter()
        """By so many quarters of an hour records were later than the log has it: a time zone, most likely."""

    # Lines.

    def apply_all(self, events: Iterable[LogEvent]) -> None:
        """Apply lines."""
        for event in events:
            self.apply(event)

    def apply(self, event: LogEvent) -> None:
        """Apply one line."""
        if len(event.group) > LONGEST_NAME or len(event.member) > LONGEST_NAME:
            return
        if event.kind == "unloaded":
            # Another broker goes on with it; what is under way here does not end here.
            self._forget(event.group)
            return
        group = self._groups.get(event.group)
        if group is None:
            group = self._groups[event.group] = _LoggedGroup(LoggedRebalance(event.group))
            if len(self._groups) > KEPT_GROUPS:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(event.group)
        if event.kind.startswith("modern"):
            self._epoch_group(group, event)
        else:
            self._classic(group, event)

    def _epoch_group(self, group: _LoggedGroup, event: LogEvent) -> None:
        if (gone := _modern_departure(event)) is None:
            return
        if len(group.modern) < KEPT_MEMBERS:  # else its oldest goes
            self._departed.append(group)
        group.modern.append((event.member, gone))
        if len(self._departed) > KEPT_REBALANCES:
            self._departed.popleft().modern.popleft()

    def _classic(self, group: _LoggedGroup, event: LogEvent) -> None:
        current = group.current
        match event.kind:
            case "joined" | "joined_at_once" | "static_joined":
                current.causes.add(Cause.MEMBER_JOINED)
                _join(group, event)
            case "pending":
                if len(group.pending) < KEPT_MEMBERS:
                    group.pending.add(event.member)
                    _join(group, event)
            case "pending_gone":
                group.pending.discard(event.member)
                group.joined.pop(event.member, None)
            case "left":
                current.add_departure(event.member, _leave_request(group, event.member, event.reason, event.at_ms))
            case "left_late":
                _left_late(group, event)
            case "failed":
                said = "Member … has failed, removing it from the group"
                group.joined.pop(event.member, None)
                current.add_departure(event.member, ReportedDeparture(Cause.SESSION_TIMEOUT, event.at_ms, said))
            case "removed":
                for member in event.removed_members():
                    said = "removed dynamic members who haven't joined"
                    group.joined.pop(member, None)
                    current.add_departure(member, ReportedDeparture(Cause.REJOIN_TIMEOUT, event.at_ms, said))
            case "preparing":
                _prepare(group, event)
            case "assigned":
                last = group.last
                if last is not None and last.generation == event.generation:
                    last.is_written = True
                    current.previous_began_ms = last.began_ms
            case "stabilized" | "empty":
                self._complete(group, event)

    def _complete(self, group: _LoggedGroup, event: LogEvent) -> None:
        done = group.current
        if group.pending:
            # No join phase ends while a member that got an id has yet to come back with it.
            done.causes.add(Cause.MEMBER_JOINED)
            group.pending.clear()
        done.generation, done.ended_ms = event.generation, event.at_ms
        done.is_written = event.kind == "empty"
        last = group.last
        if last is not None and any(it is last for it in group.done.get(last.generation, ())):
            last.characters = sum(map(len, last.departures))
            self._characters += last.characters
        if last is not None and not last.is_written:
            done.unwritten = (*last.unwritten, last)[-_KEPT_UNWRITTEN:]
            last.unwritten = ()
        # Until its assignment arrives, the one before is what members have.
        group.last, group.current = done, LoggedRebalance(done.group, previous_began_ms=done.previous_began_ms)
        group.done.setdefault(done.generation, deque()).append(done)
        self._order.append((group, done.generation))
        while len(self._order) > KEPT_REBALANCES or self._characters > KEPT_CHARACTERS:
            oldest, generation = self._order.popleft()
            self._characters -= oldest.done[generation].popleft().characters
            if not oldest.done[generation]:
                del oldest.done[generation]

    def _forget(self, name: str) -> None:
        """What follows under this name does not go on from here. What is known of it may yet be asked for."""
        if (group := self._groups.get(name)) is not None:
            group.current, group.last = LoggedRebalance(name), None
            group.pending.clear()
            group.joined.clear()

    # Questions.

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """What this broker said of the rebalance that led to `generation` and whose join phase ended at `end_ms`."""
        known = self._groups.get(group)
        if known is None:
            return None
        done = self._find(known, generation, end_ms)
        departures = _recent_departures(known.modern, end_ms)
        if done is None:
            if not departures:
                return None
            self.answered += 1
            return RebalanceReport(SOURCE, departures=departures)
        self.answered += 1
        rounds = (*done.unwritten, done)
        first = rounds[0]
        for each in rounds:
            departures |= each.departures
        return RebalanceReport(
            SOURCE,
            began_ms=done.began_ms,
            cause=first.cause,
            causes=tuple(sorted(set().union(*(each.causes for each in rounds)))),
            departures=departures,
            quote=first.quote,
            triggered_ms=first.began_ms,
            first_to_leave=first.first_to_leave,
            rejoin_cause=first.rejoin_cause,
            previous_began_ms=first.previous_began_ms,
        )

    def expects_generation(self, group: str, generation: int) -> bool:
        """Whether lines about that generation are likely to come: the group is here, and not that far yet."""
        known = self._groups.get(group)
        return known is not None and known.last is not None and known.last.generation == generation - 1

    def _find(self, group: _LoggedGroup, generation: int, end_ms: int) -> LoggedRebalance | None:
        """The rebalance of that generation that ended then."""
        found = min(group.done.get(generation, ()), key=lambda it: abs(end_ms - it.ended_ms), default=None)
        if found is not None and abs(end_ms - found.ended_ms) > TOLERANCE_MS:
            self._count_time_offset(end_ms - found.ended_ms)
            return None
        return found

    def _count_time_offset(self, away_ms: int) -> None:
        quarters = round(away_ms / _QUARTER_HOUR_MS)
        if abs(away_ms - quarters * _QUARTER_HOUR_MS) <= TOLERANCE_MS and abs(quarters) <= _MAX_QUARTER_HOURS:
            self.time_offsets[quarters] += 1


def _recent_departures(gone: Iterable[tuple[str, ReportedDeparture]], end_ms: int) -> dict[str, ReportedDeparture]:
    """How members last went shortly before."""
    return {member: it for member, it in gone if -TOLERANCE_MS <= end_ms - it.at_ms <= _EPOCH_MS}


def _join(group: _LoggedGroup, event: LogEvent) -> None:
    if len(group.joined) < KEPT_MEMBERS:
        group.joined.setdefault(event.member, event.at_ms)


def _leave_request(group: _LoggedGroup, member: str, words: str, at_ms: int) -> ReportedDeparture:
    """A member asks to leave, in its client's words."""
    said = _clipped(f"left through `LeaveGroup`: {words or 'not provided'}")
    return ReportedDeparture(_stated_cause(words, _LEAVE_REASONS), at_ms, said, group.joined.pop(member, None))


def _left_late(group: _LoggedGroup, event: LogEvent) -> None:
    # 3.x. A member that leaves a stable group begins a rebalance, and that line comes first: so where none has begun
    # since the last was completed, this leave completed it.
    done = group.current
    if done.began_ms is None and group.last is not None:
        done = group.last
    done.add_departure(event.member, _leave_request(group, event.member, event.reason, event.at_ms))


def _prepare(group: _LoggedGroup, event: LogEvent) -> None:
    """A rebalance begins: what set it off, by its reason."""
    current, reason = group.current, event.reason
    if group.last is not None and event.generation < group.last.generation:
        # The group was deleted, or has expired, and was made anew: nothing before it is of its time.
        group.last = current.previous_began_ms = None
    current.began_ms, current.quote = event.at_ms, _clipped(reason)
    if found := _REMOVING.fullmatch(reason):
        first, words = found["member"], found["words"] or "not provided"
        current.add_departure(first, gone := _leave_request(group, first, words, event.at_ms))
        current.cause, current.first_to_leave = gone.cause, first
    elif found := _EXPLICIT.match(reason):
        # 4.x says before who left; one removed by its instance id is not named here.
        first = next(iter(current.departures), found[1].split(", ")[0])
        current.first_to_leave = first
        current.cause = current.departures[first].cause if first in current.departures else None
    elif _REJOINING.match(reason):
        current.cause = _stated_cause(reason, _REJOIN_REASONS)
        current.rejoin_cause = Cause.LEADER_REJOINED if reason[0] in "Ll" else Cause.SUBSCRIPTION_CHANGED
    elif found := _PENDING_SYNC.match(reason):
        current.cause = Cause.REJOIN_TIMEOUT
        for member in re.findall(r"[^\s,\[\](){}]+", found[1].partition("Set")[2] or found[1]):
            current.add_departure(member, ReportedDeparture(Cause.REJOIN_TIMEOUT, event.at_ms, current.quote))
    elif _EXPIRED.fullmatch(reason):
        current.cause = Cause.SESSION_TIMEOUT
    else:
        current.cause = next((cause for words, cause in _PREPARE_REASONS if reason.startswith(words)), None)
    if current.cause is not None:
        current.causes.add(current.cause)


def _modern_departure(event: LogEvent) -> ReportedDeparture | None:
    """How a member of the newer protocols goes; None: it goes for a restart, and is still counted on."""
    match event.kind:
        case "modern_left" | "modern_left_classic":
            cause, said = _stated_cause(event.reason, _LEAVE_REASONS), event.reason or "left the group"
        case "modern_fenced":
            cause, said = _stated_cause(event.reason, _FENCE_REASONS), f"fenced from the group because {event.reason}"
        case _:
            return None
    return ReportedDeparture(cause, event.at_ms, _clipped(said))


def _clipped(text: str) -> str:
    return truncated(text, MAX_REASON_CHARACTERS)


def _stated_cause(words: str, table: tuple[tuple[str, Cause], ...]) -> Cause | None:
    return next((cause for part, cause in table if part in words), None)


# A member's id may hold what a reason says: with more than one of these it is none that can be told.
_TEXT = r"(?:(?! on LeaveGroup| on heartbeat expiration).)"
_REMOVING = re.compile(
    rf"removing member (?P<member>{_TEXT}+) on LeaveGroup(?:; client reason: (?P<words>{_TEXT}*))?",
    re.IGNORECASE | re.DOTALL,
)
_EXPIRED = re.compile(rf"removing member {_TEXT}+ on heartbeat expiration\.?", re.IGNORECASE | re.DOTALL)
_EXPLICIT = re.compile(r"explicit `LeaveGroup` request for \((.*)\) members", re.DOTALL)
_REJOINING = re.compile(r"(?:leader .+ re-joining group|updating metadata for (?:static )?member) ?", re.IGNORECASE)
_PENDING_SYNC = re.compile(r"Removing (.+) on pending sync request expiration", re.DOTALL)

# What the broker says (`GroupCoordinator.scala`, `GroupMetadataManager.java`).
_PREPARE_REASONS = (
    ("Adding new member", Cause.MEMBER_JOINED),
    ("Downgrade group", Cause.PROTOCOL_MIGRATED),
    ("Group's selectedProtocol will change", Cause.SUBSCRIPTION_CHANGED),
)
_FENCE_REASONS = (
    ("session expired", Cause.SESSION_TIMEOUT),
    ("failed to transition from epoch", Cause.REJOIN_TIMEOUT),
    ("failed to join within", Cause.REJOIN_TIMEOUT),
    ("failed to sync within", Cause.REJOIN_TIMEOUT),
)
# What Java clients say (`AbstractCoordinator`, `ConsumerCoordinator`, `StreamThread`, Admin). librdkafka is silent.
_LEAVE_REASONS = (
    ("poll timeout has expired", Cause.POLL_TIMEOUT),
    ("removed by an admin", Cause.ADMIN_REMOVED),
    ("being closed", Cause.MEMBER_LEFT),
    ("unsubscribed from all topics", Cause.MEMBER_LEFT),
)
_REJOIN_REASONS = (
    ("subscription has changed", Cause.SUBSCRIPTION_CHANGED),
    ("cached metadata has changed", Cause.PARTITIONS_CHANGED),
    ("need to revoke partitions and re-join", Cause.COOPERATIVE_FOLLOWUP),
    ("triggered followup rebalance", Cause.COOPERATIVE_FOLLOWUP),
    ("rebalance enforced by user", Cause.LEADER_REJOINED),
)
