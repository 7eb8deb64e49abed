"""Lines of the group coordinator in a broker's log, of Kafka 2.3 to 4.x, to events.

Owns the forms of the lines, and nothing of what they mean. Forms differ in punctuation: 3.x names the partition
in parentheses (`group g in state … (__consumer_offsets-4) (reason: …)`) where 4.x has it in the logger's
prefix, and prints removed members as a Scala set. Order differs too: 3.x says that a member left (`left_late`)
after the rebalance that this began, or even completed, and it says of a new dynamic member only that it got an id
(`pending`), not that it came back with it (4.x: `joined`).

Layouts differ by deployment: Kafka's own (`[time] LEVEL message (logger)`), Strimzi's (`time LEVEL message (logger)
[thread]`), either behind a container runtime's own time or name, and JSON. So the message is found by the
coordinator's prefix, and the time is the last one before it. A time without an offset is the broker host's local
time: `utc` makes it epoch milliseconds.

Groups, members and reasons are strangers' text: any character may come, and a line may be of any length. A name may
hold what a line about another group says, so a line that can be read in two ways counts as not understood. Against a
line break in a name nothing here helps.
"""

from __future__ import annotations

import json
import re
from calendar import timegm
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

MAX_LINE_CHARACTERS = 8192
"""Longer lines are not matched, except those that list members: a name or reason in them is no real one."""

MAX_REASON_CHARACTERS = 300
_KEPT_EXAMPLES = 5
_SMALLEST_EPOCH_MS = 10**11
"""Smaller numbers are seconds."""
_YEAR_10000_MS = 253_402_300_800_000

_MARKER = re.compile(r"\[Group(?:Coordinator|MetadataManager)[^\]]{0,200}\]:? ")
# How a message in JSON begins, be it alone or behind a time. One with its marker elsewhere is another logger's, and
# the marker is within a name; outside JSON the logger at the end tells.
_MESSAGE = re.compile(r"\W{0,9}(?:\d{4}-|[A-Z]{0,5}\W{0,9}\[Group)")
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?"
)
# Kafka's `(%c)`, with a line number (Connect's pattern) or a thread (Strimzi's) behind it.
_LOGGER = re.compile(r" \(((?:[\w$]{1,200}\.)+[\w$]{1,200})(?::\d+)?\)(?: \[[^\]]*\])?\s*$")
_OUR_LOGGERS = ("kafka.coordinator.group.", "kafka.coordinator.common.")

# Kind of event, if it is one, and its line from the beginning. `<name>` becomes a field, `<=name>` is that field
# again, `<>` is anything, `<?words>` may be missing. A full stop at the end may be missing everywhere: 3.x has none.
_LINE_TEMPLATES = (
    (
        "preparing",
        "Preparing to rebalance group <group> in state <state> with old generation <generation>"
        "<?place> (reason: <reason>)",
    ),
    ("stabilized", "Stabilized group <group> generation <generation><?place><?with>"),
    ("empty", "Group <group> with generation <generation> is now empty<?place>"),
    ("removed", "Group <group> removed dynamic members who haven't joined: <names>"),
    ("unsynced", "Group <group> removed members who haven't sent their sync request<?s>: <names>"),
    (
        "assigned",
        "Assignment received from leader <member> for group <group> for generation <generation>. "
        "The group has <members> members<>",
    ),
    ("assigned", "Assignment received from leader for group <group> for generation <generation><?size>"),
    (
        "joined",
        "Pending dynamic member with id <member> joins group <group> in <state> state. Adding to the group now",
    ),
    (
        "pending",
        "Dynamic member with unknown member id joins group <group> in <state> state. "
        "Created a new member id <member> and request the member to rejoin with this id",
    ),
    ("pending_gone", "Pending member <member> in group <group> has been removed after session timeout expiration"),
    ("pending_gone", "[Group <group>] Pending member <member> has left group through explicit `LeaveGroup` <>"),
    (
        "pending_gone",
        "Pending member with memberId=<member> has left group <group> through explicit `LeaveGroup` request",
    ),
    (
        "joined_at_once",
        "Dynamic member with unknown member id joins group <group> in state <state>. "
        "Created a new member id <member> and added the member to the group",
    ),
    (
        "joined_at_once",
        "Dynamic member with unknown member id joins group <group> in <state> state. "
        "Created a new member id <member> for this member and add to the group",
    ),
    (
        "static_joined",
        "Static member with groupInstanceId=<instance> and unknown member id joins group <group> in <state> state. "
        "Created a new member id <member> for this member and <>",
    ),
    (
        "static_replaced",
        "Static member with groupInstanceId=<instance> and unknown member id joins group <group> in <state> state. "
        "Replacing previously mapped member <member> with this groupInstanceId",
    ),
    ("left", "[Group <group>] Member <member> has left group through explicit `LeaveGroup` request<?client>"),
    (
        "left_late",
        "Member MemberMetadata(memberId=<member>, groupInstanceId=<>) has left group <group> through explicit "
        "`LeaveGroup`<?request><?client>",
    ),
    ("failed", "Member <member> in group <group> has failed, removing it from the group"),
    ("epoch", "[GroupId <group>] Bumped group epoch to <generation><?hash>"),
    ("epoch", "[GroupId <group>][MemberId <member>] Bumped streams group epoch to <generation><?hash>"),
    (
        "modern_away",
        "[GroupId <group>] Static member <member> with instance id <instance> temporarily left the <protocol> group",
    ),
    (
        "modern_away",
        "[GroupId <group>][MemberId <member>] Static member <=member> with instance id <instance> "
        "temporarily left the streams group",
    ),
    ("modern_left", "[GroupId <group>] Member <member> left the <protocol> group"),
    ("modern_left", "[GroupId <group>][MemberId <member>] Member <=member> left the streams group"),
    ("modern_left", "[GroupId <group>] Static member <member> with instance id <instance> left the <protocol> group"),
    (
        "modern_left",
        "[GroupId <group>][MemberId <member>] Static member <=member> with instance id <instance> left the "
        "streams group",
    ),
    (
        "modern_left_classic",
        "[Group<?id> <group>] Dynamic member <member> has left group through explicit `LeaveGroup` request<?client>",
    ),
    (
        "modern_left_classic",
        "[Group<?id> <group>] Static member <member> with instance id <instance> has left group through explicit "
        "`LeaveGroup` request<?client>",
    ),
    ("modern_fenced", "[GroupId <group>] Member <member> fenced from the group because <fence>"),
    ("modern_fenced", "[GroupId <group>] Streams member <member> fenced from the group because <fence>"),
    ("unloaded", "Unloading group metadata for <group> with generation <generation>"),
    ("unloaded", "[GroupId=<group>] Unload<> group metadata for <> <generation>"),
    # Of no interest. A member's id may make them look like one of those above that end in a reason.
    ("", "[GroupId <group>] Static member <member> with instance id <instance> joins the <>"),
    ("", "[GroupId <group>] Static member <member> with instance id <instance> is fenced by <>"),
    ("", "[GroupId <group>] Static member <member> with instance id <instance> cannot join the group <>"),
    ("", "[GroupId <group>] Member <member> joins the <>"),
    ("", "[GroupId <group>] Member <member> new assignment state: <>"),
    ("", "[GroupId <group>] Member <member> updated its subscribed <>"),
    ("", "Member <member> has already been removed from the group"),
)
# Lines that list names may be long: those that begin and end like this.
_LISTS, _LIST_ENDS = "Group ", ("]", ")")

_FIELDS = {
    "generation": r"-?\d{1,10}",
    "members": r"\d{1,10}",
    "state": r"\w+",
    "reason": r".*?",
    "protocol": "consumer|share",
    "names": r"\[.*\]|\w*Set\(.*\)",
    # Word for word: a member's id that ends in "fenced from the group because …" may have any text behind it.
    "fence": r"the member session expired\.?|the classic member failed to join within the rebalance timeout|"
    r"the member failed to sync within timeout|it failed to transition from epoch -?\d+ within \d+ms",
}
_OPTIONAL = {
    "place": r" \(__consumer_offsets-\d+\)",
    "with": r" with (?P<members>\d{1,10}) members",
    "size": r"\. The group has (?P<members>\d{1,10}) members.*",
    "id": "Id",
    "request": " request",
    "client": "; client reason: (?P<reason>.*?)",
    "hash": " with .*",
    "s": "s",
}
# A line with such a word that is of no known form counts, unless nothing here follows from it.
_OF_INTEREST = re.compile(
    r"\bmembers?\b|rebalanc|leavegroup|stabilized|assignment received|is now empty", re.IGNORECASE
)
_OF_NO_INTEREST = re.compile(
    r"requesting the member to rejoin|joins the |new assignment state|updated its |will not trigger|is fenced by|"
    r"failed to join before|had already been unloaded|loaded |cannot (?:up|down)grade|computed |offsets |"
    # Which groups were deleted cannot be read: names may hold ", ". One that is made anew counts from 0.
    r"the topology |groups were deleted",
    re.IGNORECASE,
)
# What ends a group's name that began with `[Group`. Lines of forms that are not here have it, too, and then any text.
_CLOSING = re.compile(r"\](?= |\[MemberId )")
# A list of names has two. With more a group's name may have begun it, in a line that ends in another list.
_BRACKETS, _BRACKET = 2, re.compile(r"[\[\]()]")

_Reading = tuple[str, dict[str, str | None]]
"""The kind of event, empty if it is none that is told, and its fields."""

_OTHER_READING: _Reading = ("", {})


class _LinePattern(NamedTuple):
    kind: str
    beginning: str
    literal: str
    """The longest fixed part of the rest, as `beginning` in lower case: a line without either is not of this form."""
    closings: int
    shortest: re.Pattern[str]
    longest: re.Pattern[str]
    """With names as long as they may be: where it finds what `shortest` finds, there is no other reading."""

    def readings(self, text: str) -> list[_Reading]:
        """None, the only one, or two of several."""
        found = self.shortest.fullmatch(text)
        if found is None:
            return []
        other = self.longest.fullmatch(text)
        is_only = other is not None and other.regs == found.regs
        named = found.groupdict()
        if self.closings:
            is_only = is_only and len(_CLOSING.findall(text)) == self.closings
        elif names := named.get("names"):
            is_only = is_only and len(_BRACKET.findall(names)) == _BRACKETS
        return [(self.kind, named)] if is_only else [(self.kind, named), _OTHER_READING]


def _compile_template(kind: str, form: str) -> _LinePattern:
    def token(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("?"):
            return f"(?:{_OPTIONAL[name[1:]]})?"
        if name.startswith("="):
            return f"(?P={name[1:]})"
        return f"(?P<{name}>{_FIELDS.get(name, '.+?')})" if name else "(.*?)"

    pieces = re.split(r"(<[?=\w]*>)", form)
    beginning, *rest = (piece.lower() for piece in pieces if piece[:1] != "<")
    pattern = "".join(re.sub(r"<([?=\w]*)>", token, p) if p[:1] == "<" else re.escape(p) for p in pieces)
    # Only these may end in several places: what else a form has is there or not.
    longest = pattern.replace(".+?", ".+").replace(".*?", ".*")
    flags = re.IGNORECASE | re.DOTALL
    closings = len(_CLOSING.findall(form)) if form.startswith("[") else 0
    shortest = re.compile(pattern, flags)
    return _LinePattern(kind, beginning, max(rest, key=len), closings, shortest, re.compile(longest, flags))


_LINE_PATTERNS = tuple(_compile_template(*form) for form in _LINE_TEMPLATES)
_MEMBERS = re.compile(r"[^\s,\[\](){}]+")

LocalToEpochMs = Callable[[int], int]
"""Milliseconds since 1970 as the broker host's local clock shows them → epoch milliseconds."""


class LogEvent(Struct, frozen=True):
    """One line about one group. `reason` is what stands there as the reason, or the names of removed members."""

    kind: str
    time_text: str
    at_ms: int
    group: str
    member: str = ""
    generation: int = -1
    reason: str = ""
    instance: str = ""
    members: int = -1
    state: str = ""

    def removed_members(self) -> list[str]:
        """The members of a `removed` line: Java prints `[a, b]`, Scala `Set(a, b)`."""
        inner = re.sub(r"^[A-Za-z]*Set", "", self.reason)
        return _MEMBERS.findall(inner)


class LineReader:
    """Reads lines, and counts those of the coordinator that it does not understand. Never raises for a line."""

    def __init__(self, utc: LocalToEpochMs = lambda local_ms: local_ms) -> None:
        """`utc`: what local times of this log mean; UTC unless told."""
        self._utc = utc
        self.recognized = 0
        self.unrecognized = 0
        self.examples: deque[str] = deque(maxlen=_KEPT_EXAMPLES)
        """The latest lines that were not understood, each cut short."""

    def parse_all(self, lines: Iterable[str]) -> Iterator[LogEvent]:
        """What lines say, in their order; those of others are skipped."""
        for line in lines:
            if (event := self.parse(line)) is not None:
                yield event

    def parse(self, line: str) -> LogEvent | None:
        """What one line says, None if it says nothing about a group's membership."""
        if "[Group" not in line:
            return None
        moment: str | int | None = None
        if line.startswith("{") and (within := _json_fields(line)) is not None:
            line, moment = within
            if _MESSAGE.match(line) is None:
                return None
        marker = _MARKER.search(line)
        if marker is None:
            return None
        text = line[marker.end() :].rstrip("\r\n")
        if (logger := _LOGGER.search(text)) is not None:
            if not logger[1].removeprefix("org.apache.").startswith(_OUR_LOGGERS):
                return None
            text = text[: logger.start()]
        readings = _readings_of(text)
        is_known = any(kind for kind, _ in readings)
        at = self._time_of(line[: marker.start()], moment) if is_known else None
        if at is None or not _agree(readings):
            self._count_unrecognized(text, known=is_known)
            return None
        self.recognized += 1
        kind, named = readings[0]
        return _event(kind, *at, named)

    def _count_unrecognized(self, text: str, *, known: bool) -> None:
        text = text[:MAX_LINE_CHARACTERS]
        if known or (_OF_INTEREST.search(text) and not _OF_NO_INTEREST.search(text)):
            self.unrecognized += 1
            self.examples.append(text[:MAX_REASON_CHARACTERS])

    def _time_of(self, head: str, fallback: str | int | None) -> tuple[str, int] | None:
        """The last time in the text before the message, or that of the JSON around it: as it stands there, and epoch
        milliseconds."""
        times = list(_TIME.finditer(head[-200:]))
        found = times[-1] if times else None
        if found is None and isinstance(fallback, str):
            found = _TIME.search(fallback[:200])
        if found is not None:
            at_ms = self._epoch_ms(found)
            return None if at_ms is None else (found[0], at_ms)
        if isinstance(fallback, int):
            at_ms = fallback * (1000 if fallback < _SMALLEST_EPOCH_MS else 1)
            # JSON has numbers of any size.
            return (str(fallback), at_ms) if 0 <= at_ms < _YEAR_10000_MS else None
        return None

    def _epoch_ms(self, time: re.Match[str]) -> int | None:
        try:
            seconds = timegm(tuple(int(time[number]) for number in range(1, 7)))
            local_ms = seconds * 1000 + int((time[7] or "").ljust(3, "0")[:3])
            return self._utc(local_ms) if time[8] is None else local_ms - _offset_ms(time[8])
        except (ValueError, OverflowError, OSError):
            # No such day, or one beyond what the machine's calendar has.
            return None


def _offset_ms(offset: str) -> int:
    if offset[0] not in "+-":
        return 0
    minutes = int(offset[1:3]) * 60 + int(offset[-2:])
    return (-minutes if offset[0] == "-" else minutes) * 60_000


def _readings_of(text: str) -> list[_Reading]:
    """What a message says by each form that it may have."""
    text = text.removesuffix(".")
    is_list = text.startswith(_LISTS) and text.endswith(_LIST_ENDS)
    if len(text) > MAX_LINE_CHARACTERS and not is_list:
        return []
    low = text.lower()
    out: list[_Reading] = []
    for form in _LINE_PATTERNS:
        if low.startswith(form.beginning) and form.literal in low:
            out += form.readings(text)
    return out


def _agree(readings: list[_Reading]) -> bool:
    """Whether all are events, and of one group and one member."""
    about = {(named.get("group"), named.get("member")) for _, named in readings}
    return len(about) == 1 and all(kind for kind, _ in readings)


def _json_fields(line: str) -> tuple[str, str | int | None] | None:
    """The message of a line in JSON, and its time: log4j's JSON layouts, Elastic's and Logstash's, Docker's files."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    text = next((row[name] for name in ("message", "log", "msg") if isinstance(row.get(name), str)), None)
    if text is None:
        return None
    time = next(
        (
            row[name]
            for name in ("@timestamp", "timestamp", "time", "ts", "timeMillis")
            if isinstance(row.get(name), str | int) and not isinstance(row[name], bool)
        ),
        None,
    )
    instant = row.get("instant")
    if time is None and isinstance(instant, dict):
        seconds, nanos = instant.get("epochSecond"), instant.get("nanoOfSecond", 0)
        if isinstance(seconds, int) and isinstance(nanos, int):
            time = seconds * 1000 + nanos // 1_000_000
    return text, time


def _event(kind: str, time: str, at_ms: int, fields: dict[str, str | None]) -> LogEvent:
    return LogEvent(
        kind=kind,
        time_text=time,
        at_ms=at_ms,
        group=fields.get("group") or "",
        member=fields.get("member") or "",
        generation=int(fields.get("generation") or -1),
        reason=fields.get("reason") or fields.get("names") or fields.get("fence") or "",
        instance=fields.get("instance") or "",
        members=int(fields.get("members") or -1),
        state=fields.get("state") or "",
    )
