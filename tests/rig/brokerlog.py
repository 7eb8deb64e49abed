"""Lines of the group coordinator in a broker's log, of Kafka 3.x and 4.x, to events.

Owns the forms of the lines and nothing of what they mean. Forms differ in punctuation: 3.x names the partition
in parentheses (`group g in state … (__consumer_offsets-4) (reason: …)`) where 4.x has it in the logger's
prefix, and prints removed members as a Scala set. Order differs too: 3.x says that a member left (`left_late`)
after the rebalance that this began, or even completed, and it says of a new dynamic member only that it got an id
(`pending`), not that it came back with it (4.x: `joined`). Log times are taken as UTC: the rig starts its broker so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

_LINE = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [A-Z]+ \[Group(?:Coordinator|MetadataManager)[^\]]*\]:? (.*)"
)
_LOGGER = re.compile(r" \((?:org\.apache\.)?kafka\.coordinator\.[\w.$]+\)$")

# Kind of event, and its line from the beginning. `<name>` becomes a field, `<>` is anything, `<?words>` may be
# missing. A full stop at the end may be missing everywhere: 3.x has none.
_FORMS = (
    (
        "preparing",
        "Preparing to rebalance group <group> in state <state> with old generation <generation>"
        "<?place> (reason: <reason>)",
    ),
    ("stabilized", "Stabilized group <group> generation <generation><?place> with <members> members"),
    ("empty", "Group <group> with generation <generation> is now empty<?place>"),
    (
        "assigned",
        "Assignment received from leader <member> for group <group> for generation <generation>. "
        "The group has <members> members<>",
    ),
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
        "joined_at_once",
        "Dynamic member with unknown member id joins group <group> in state <state>. "
        "Created a new member id <member> and added the member to the group",
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
    (
        "left",
        "[Group <group>] Member <member> has left group through explicit `LeaveGroup` request; "
        "client reason: <reason>",
    ),
    (
        "left_late",
        "Member MemberMetadata(memberId=<member>, <>) has left group <group> through explicit `LeaveGroup`; "
        "client reason: <reason>",
    ),
    ("failed", "Member <member> in group <group> has failed, removing it from the group"),
    ("removed", "Group <group> removed dynamic members who haven't joined: <reason>"),
    ("epoch", "[GroupId <group>]<?member_id> Bumped <?streams>group epoch to <generation> with <>"),
    ("modern_away", "[GroupId <group>] Static member <member> with instance id <instance> temporarily left the <>"),
    ("modern_left", "[GroupId <group>]<?member_id> Member <member> left the <state> group"),
    ("modern_left", "[GroupId <group>] Static member <member> with instance id <instance> left the <state> group"),
    (
        "modern_left_classic",
        "[GroupId <group>] Dynamic member <member> has left group through explicit `LeaveGroup` request; "
        "client reason: <reason>",
    ),
    (
        "modern_left_classic",
        "[GroupId <group>] Static member <member> with instance id <instance> has left group through explicit "
        "`LeaveGroup` request; client reason: <reason>",
    ),
    ("modern_fenced", "[GroupId <group>] Member <member> fenced from the group because <reason>"),
    ("modern_fenced", "[GroupId <group>] Streams member <member> fenced from the group because <reason>"),
    ("deleted", "The following groups were deleted: <reason>. A total of <> offsets were removed"),
)
_FIELDS = {"generation": r"-?\d+", "members": r"\d+", "state": r"\w+", "reason": r".*?"}
_OPTIONAL = {"place": r" \(__consumer_offsets-\d+\)", "member_id": r"\[MemberId \S+\]", "streams": "streams "}


def _compiled(form: str) -> re.Pattern[str]:
    def token(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("?"):
            return f"(?:{_OPTIONAL[name[1:]]})?"
        return f"(?P<{name}>{_FIELDS.get(name, r'[^ ]+?')})" if name else ".*?"

    pieces = re.split(r"(<[?\w]*>)", form)
    return re.compile(
        "".join(re.sub(r"<([?\w]*)>", token, p) if p[:1] == "<" else re.escape(p) for p in pieces) + r"\.?"
    )


_COMPILED = tuple((kind, _compiled(form)) for kind, form in _FORMS)
_MEMBERS = re.compile(r"[^\s,\[\](){}]+")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line about one group. `reason` is what stands there as the reason, or the names of removed members."""

    kind: str
    time: str
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


def parse_log(lines: Iterable[str]) -> Iterator[LogEvent]:
    """The events of a broker's log, in its order; every other line is skipped."""
    for line in lines:
        if (event := parse_line(line)) is not None:
            yield event


def parse_line(line: str) -> LogEvent | None:
    """What one line says, None if it says nothing about a group's membership."""
    match = _LINE.fullmatch(line.rstrip("\n"))
    if match is None:
        return None
    text = _LOGGER.sub("", match[2])
    for kind, form in _COMPILED:
        if (found := form.fullmatch(text)) is not None:
            return _event(kind, match[1], found.groupdict())
    return None


def log_ms(time: str) -> int:
    """Epoch milliseconds of a log time, which is UTC."""
    moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _event(kind: str, time: str, fields: dict[str, str | None]) -> LogEvent:
    return LogEvent(
        kind=kind,
        time=time,
        at_ms=log_ms(time),
        group=fields.get("group") or "",
        member=fields.get("member") or "",
        generation=int(fields.get("generation") or -1),
        reason=fields.get("reason") or "",
        instance=fields.get("instance") or "",
        members=int(fields.get("members") or -1),
        state=fields.get("state") or "",
    )
