"""Client libraries: how each shows itself in the log, and what is known of how it behaves.

The protocol names no library. What clients write differs, though: the client id that a library makes up, the names of
its assignors, the form of its subscription, its default timeouts, what it puts beside a commit.
`agent.core.protocol.library_recognition` reads these; what nothing tells is `UNKNOWN`, whose row is the cautious one.
`LIBRARIES` is the one table: the inference reads how members of each come, commit and go, and advice names settings
as the library spells them.

To add a library: a row, and the rule that recognizes it. Pure data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field


class StallEnd(StrEnum):
    """What takes a member out of its group whose processing stands still while its process lives."""

    REBALANCE_TIMEOUT = "rebalance_timeout"
    """It leaves by itself when the rebalance timeout that it joined with has passed since its last poll: that is its
    `max.poll.interval.ms`."""
    OWN_LIMIT = "own_limit"
    """It leaves by itself at a limit that is not in the log: the rebalance timeout is something else."""
    SESSION_TIMEOUT = "session_timeout"
    """Its heartbeats are sent by what processes, so its session runs out."""
    NOTHING = "nothing"
    """Nothing: its heartbeats go on. Only a rebalance that it does not join in time takes it out."""


class ClientLibrary(Struct, frozen=True, kw_only=True):
    """What is known of one library, as it comes: applications may do otherwise. Shares are parts of 1."""

    name: str
    stall_end: StallEnd
    commits_on_close_share: float = 0.8
    """How many of its members commit as they close."""
    close_after_commit_ms: int = 60
    """From that commit to the goodbye (LeaveGroup), at the most: milliseconds."""
    commits_apart_share: float = 0.7
    """How many commit apart from poll: the last poll may lie up to an interval before the last commit."""
    leaves_after_stall_share: float = 0.5
    """Of members of KIP-848 groups that were away from poll for too long, how many say so only as they poll again."""
    leaves_on_close: bool = True
    """Whether it says goodbye when it is closed in good order in a classic group; in others all do."""
    may_leave_static: bool = False
    """Whether a static member of a classic group can be told to say goodbye as it is closed (KIP-1092)."""
    session_timeouts_ms: tuple[int, ...] = (45_000, 30_000, 10_000, 6_000)
    """What its session timeout is unless somebody sets it, by its documentation: of several, earlier releases took
    another. Where the log tells none (`--source admin`), these are what it may be."""
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """How it spells settings that have another name in the Java client (`SETTINGS`)."""
    duration: str = "{ms}"
    """How it writes a duration, from milliseconds (`ms`) or seconds (`s`)."""
    cooperative: str | None = None
    """How it names the cooperative-sticky assignor; None: by Java's class."""
    lacks: frozenset[str] = frozenset()
    """What it has nothing for of `STATIC_MEMBERSHIP` and `COOPERATIVE`."""
    measured: str
    """Where the row comes from (docs/accuracy.md has the whole)."""


UNKNOWN: Final = "unknown"

STATIC_MEMBERSHIP: Final = ("group.instance.id",)
COOPERATIVE: Final = ("CooperativeStickyAssignor", "cooperative-sticky", "group.protocol=consumer")
"""Words of advice that a library may have nothing for."""

SETTINGS: Final = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "rebalance.timeout.ms",
    "max.poll.records",
    "group.instance.id",
    "partition.assignment.strategy",
)
"""Settings that advice names. `rebalance.timeout.ms` is the rebalance timeout of JoinGroup, for which the Java client
sends its `max.poll.interval.ms`."""


def _spelled(*names: str) -> Mapping[str, str]:
    """Names in the order of `SETTINGS`; "" where a library has no such setting."""
    return MappingProxyType({java: own for java, own in zip(SETTINGS, names, strict=True) if own})


_JAVA = MappingProxyType({"rebalance.timeout.ms": "max.poll.interval.ms"})
_PYTHON = _spelled(
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "max_poll_interval_ms",
    "max_poll_records",
    "group_instance_id",
    "partition_assignment_strategy",
)

_ROWS = (
    ClientLibrary(
        name=UNKNOWN,
        stall_end=StallEnd.REBALANCE_TIMEOUT,
        may_leave_static=True,
        settings=_JAVA,
        measured="The cautious row: what most libraries have in common.",
    ),
    ClientLibrary(
        name="java",
        session_timeouts_ms=(45_000, 10_000),
        stall_end=StallEnd.REBALANCE_TIMEOUT,
        may_leave_static=True,
        commits_on_close_share=0.97,
        commits_apart_share=0.1,
        leaves_after_stall_share=0.05,
        settings=_JAVA,
        measured="2.8.2 and 4.3.1: of 196 goodbyes 195 within 60 ms of a commit; 10 stalls ended within 0.4 s of the "
        "limit, one under KIP-848 with the next heartbeat.",
    ),
    ClientLibrary(
        name="kafka-streams",
        session_timeouts_ms=(45_000, 10_000),
        stall_end=StallEnd.REBALANCE_TIMEOUT,
        leaves_on_close=False,
        settings=_JAVA,
        measured="4.3.1: no goodbye in 41 departures but of the 2 that stalled.",
    ),
    ClientLibrary(
        name="kafka-connect",
        stall_end=StallEnd.REBALANCE_TIMEOUT,
        settings=MappingProxyType({"max.poll.interval.ms": "rebalance.timeout.ms"}),
        measured="Its documentation: workers commit no offsets of the group.",
    ),
    ClientLibrary(
        name="librdkafka",
        session_timeouts_ms=(45_000, 10_000),
        stall_end=StallEnd.REBALANCE_TIMEOUT,
        commits_on_close_share=0.95,
        leaves_after_stall_share=0.9,
        cooperative="cooperative-sticky",
        settings=_JAVA,
        measured="2.16.1: of 115 goodbyes 110 within 60 ms of a commit; 8 stalls ended up to 0.7 s after the limit, "
        "one under KIP-848 only as the stall did. Its heartbeats end at the limit there: 3 that stalled for longer "
        "were removed a session timeout after it, so the broker's log has that.",
    ),
    ClientLibrary(
        name="sarama",
        session_timeouts_ms=(10_000,),
        stall_end=StallEnd.NOTHING,
        commits_on_close_share=0.85,
        lacks=frozenset(COOPERATIVE),
        duration="{s} * time.Second",
        settings=_spelled(
            "Consumer.Group.Session.Timeout",
            "Consumer.Group.Heartbeat.Interval",
            "Consumer.Group.Rebalance.Timeout",
            "Consumer.Group.Rebalance.Timeout",
            "Consumer.MaxProcessingTime",
            "Consumer.Group.InstanceId",
            "Consumer.Group.Rebalance.GroupStrategies",
        ),
        measured="1.61: of 90 goodbyes 78 within 60 ms of a commit; stalls of 22 s end nothing, those that a join "
        "met were dropped when the rebalance timeout was over.",
    ),
    ClientLibrary(
        name="franz-go",
        session_timeouts_ms=(45_000,),
        stall_end=StallEnd.NOTHING,
        commits_on_close_share=0.85,
        duration="{s} * time.Second",
        cooperative="kgo.CooperativeStickyBalancer()",
        settings=_spelled(
            "kgo.SessionTimeout",
            "kgo.HeartbeatInterval",
            "kgo.RebalanceTimeout",
            "kgo.RebalanceTimeout",
            "kgo.Client.PollRecords",
            "kgo.InstanceID",
            "kgo.Balancers",
        ),
        measured="1.22: of 64 goodbyes 52 within 60 ms of a commit; 4 stalls of 22 s ended nothing.",
    ),
    ClientLibrary(
        name="kafka-go",
        session_timeouts_ms=(30_000,),
        stall_end=StallEnd.NOTHING,
        commits_on_close_share=0.9,
        close_after_commit_ms=550,
        lacks=frozenset((*STATIC_MEMBERSHIP, *COOPERATIVE)),
        duration="{s} * time.Second",
        settings=_spelled(
            "ReaderConfig.SessionTimeout",
            "ReaderConfig.HeartbeatInterval",
            "ReaderConfig.RebalanceTimeout",
            "ReaderConfig.RebalanceTimeout",
            "ReaderConfig.QueueCapacity",
            "",
            "ReaderConfig.GroupBalancers",
        ),
        measured="0.4.51: 57 goodbyes up to 529 ms after a commit, as it waits for its fetches; 4 stalls ended "
        "nothing.",
    ),
    ClientLibrary(
        name="kafkajs",
        session_timeouts_ms=(30_000,),
        stall_end=StallEnd.SESSION_TIMEOUT,
        commits_on_close_share=0.75,
        close_after_commit_ms=550,
        lacks=frozenset((*STATIC_MEMBERSHIP, *COOPERATIVE)),
        settings=_spelled(
            "sessionTimeout",
            "heartbeatInterval",
            "rebalanceTimeout",
            "rebalanceTimeout",
            "maxBytesPerPartition",
            "",
            "partitionAssigners",
        ),
        measured="2.2.4: of 57 goodbyes 44 within 550 ms of a commit, the last after 2.5 s; 4 stalls ended with the "
        "session, as eachMessage sends the heartbeats.",
    ),
    ClientLibrary(
        name="aiokafka",
        session_timeouts_ms=(10_000,),
        stall_end=StallEnd.OWN_LIMIT,
        commits_on_close_share=0.95,
        commits_apart_share=0.9,
        lacks=frozenset(COOPERATIVE),
        settings=MappingProxyType({**_PYTHON, "rebalance.timeout.ms": "rebalance_timeout_ms"}),
        measured="0.14.0: of 64 goodbyes 62 within 60 ms of a commit; 4 stalls ended within 0.2 s of "
        "max_poll_interval_ms, while a task of its own went on committing what did not move.",
    ),
    ClientLibrary(
        name="kafka-python",
        session_timeouts_ms=(45_000, 10_000),
        stall_end=StallEnd.REBALANCE_TIMEOUT,
        settings=_PYTHON,
        measured="Its source: it joins with max_poll_interval_ms, and its heartbeat thread leaves after it.",
    ),
    ClientLibrary(
        name="ruby-kafka",
        session_timeouts_ms=(30_000,),
        stall_end=StallEnd.SESSION_TIMEOUT,
        lacks=frozenset((*STATIC_MEMBERSHIP, *COOPERATIVE)),
        duration="{s}",
        settings=_spelled("session_timeout", "heartbeat_interval", "", "rebalance_timeout", "", "", ""),
        measured="Its source: it sends heartbeats as it processes.",
    ),
    ClientLibrary(
        name="brod",
        session_timeouts_ms=(30_000,),
        stall_end=StallEnd.NOTHING,
        lacks=frozenset((*STATIC_MEMBERSHIP, *COOPERATIVE)),
        duration="{s}",
        settings=_spelled(
            "session_timeout_seconds", "heartbeat_rate_seconds", "", "rebalance_timeout_seconds", "", "", ""
        ),
        measured="Its source: its coordinator is a process of its own, and so are its heartbeats.",
    ),
)
LIBRARIES: Final[Mapping[str, ClientLibrary]] = MappingProxyType({row.name: row for row in _ROWS})


def library_named(name: str) -> ClientLibrary:
    """The row of a library; of a name that is no row, the cautious one."""
    return LIBRARIES.get(name, LIBRARIES[UNKNOWN])


def may_commit_unmoved(library: str, session_ms: int | None, rebalance_ms: int | None) -> bool:
    """Whether a member may leave at a limit of its own, and go on committing what does not move until then: so does
    aiokafka, and perhaps an unknown library that sends one timeout for both, as aiokafka does."""
    is_like_it = library == UNKNOWN and session_ms is not None and session_ms == rebalance_ms
    return is_like_it or library_named(library).stall_end is StallEnd.OWN_LIMIT


def lacks(words: Iterable[str], libraries: Iterable[str]) -> bool:
    """Whether none of these libraries (names, may repeat) has any of what `words` name."""
    names = set(libraries)
    return bool(names) and all(library_named(name).lacks.issuperset(words) for name in names)


def spell_settings(text: str, libraries: Iterable[str]) -> str:
    """Advice that names settings (`SETTINGS`) as members that use these libraries (names, may repeat) spell them; by
    the Java client's names where they are several, or none is known. Sentences about what none of them has are left
    out, but for the first."""
    names = set(libraries)
    first, *rest = text.split(". ")
    kept = [it for it in rest if not is_lacking(it, names)]
    if len(kept) < len(rest):
        text = ". ".join([first, *kept]).removesuffix(".") + "."
    own = library_named(names.pop()).settings if len(names) == 1 else {}
    known = LIBRARIES[UNKNOWN].settings
    return _SETTING.sub(lambda found: own.get(found[0]) or known.get(found[0], found[0]), text)


def spell_line(line: str, libraries: Iterable[str]) -> str:
    """A line of a configuration, `setting=value` or `setting` by the Java client's names and units, as members that
    use these libraries (names, may repeat) write it; as Java's where they are several, or none is known."""
    names = set(libraries)
    row = library_named(names.pop()) if len(names) == 1 else LIBRARIES[UNKNOWN]
    setting, equals, value = line.partition("=")
    if setting not in SETTINGS:
        return line
    if setting.endswith(".ms") and value.isdecimal():
        value = row.duration.format(ms=value, s=f"{int(value) / 1000:g}")
    if value.endswith(".CooperativeStickyAssignor") and row.cooperative is not None:
        value = row.cooperative
    return f"{row.settings.get(setting, setting)}{equals}{value}"


def is_lacking(sentence: str, libraries: Iterable[str]) -> bool:
    """Whether a sentence or a line of a configuration is about what none of these libraries (names) has."""
    libraries = set(libraries)
    return any(word in sentence and lacks([word], libraries) for word in (*STATIC_MEMBERSHIP, *COOPERATIVE))


_SETTING = re.compile("|".join(rf"(?<![\w.]){re.escape(it)}(?![\w.]*\w)" for it in SETTINGS))
