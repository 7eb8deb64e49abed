"""What becomes of a generated group: one table of all kinds of fates, and the script of each.

Whoever offers, documents or tests fates takes them from `SCENARIO_KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from agent.simulation.generator.seeded_random import SeededRandom
from agent.simulation.groups.script import ClientSettings, Close, Kill, Resubscribe, SetPartitions, Stall, Start, Step

_LONG_MS = 6 * 3_600_000
"""What happens once in a short history happens again after so long."""
_MOST_ROUNDS = 8


class Participants(Struct, frozen=True):
    """Who plays, from when to when (milliseconds), and the topics that they know, by partitions."""

    clients: Mapping[str, ClientSettings]
    topics: Mapping[str, int]
    begins_ms: int
    ends_ms: int
    random: SeededRandom

    def occurrences(self, least: float, most: float) -> Iterator[tuple[int, int]]:
        """One moment a round, between these shares of it, and how long it is until the round's end."""
        duration_ms = self.ends_ms - self.begins_ms
        length = duration_ms // rounds(duration_ms)
        for number in range(rounds(duration_ms)):
            at = self.random.integer(int(least * length), int(most * length))
            yield self.begins_ms + number * length + at, length - at

    def sample_clients(self, share: float) -> list[str]:
        """One client at least, and no more than that share of them."""
        names = list(self.clients)
        first = self.random.integer(0, len(names) - 1)
        count = self.random.integer(1, max(1, int(share * len(names))))
        return (names + names)[first : first + count]

    def starts(self) -> Iterator[Start]:
        """All of them start, one soon after the other."""
        for name, settings in self.clients.items():
            yield Start(self.begins_ms + self.random.integer(0, 3_000), name, settings)


class Scenario(Struct, frozen=True):
    """The steps of a script, in any order; who commits no more, and from when on; when an admin deletes the group."""

    steps: tuple[Step, ...]
    silent_from_ms: Mapping[str, int] = field(default_factory=dict)
    deleted_ms: int | None = None


ScenarioBuilder = Callable[[Participants], Scenario]


class GroupKind(StrEnum):
    """Who is in a group: consumers of either `group.protocol`, or the workers of a Connect cluster."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    CONNECT = "connect"


class ScenarioKind(Struct, frozen=True):
    """A kind of fate: what it is in one line, its share by default, and its story.

    What it needs of its group: its kind, so many members at least, static ids or none (None: as it comes), topics of
    its own (how many, and of how many partitions, for so many members; to a Connect cluster they are connectors and
    their tasks), an assignor. `rebalances` is about how many one round makes of so many members,
    `consuming_share` for which share of the time the group consumes and commits.
    """

    summary: str
    weight: float
    build: ScenarioBuilder | None
    kind: GroupKind = GroupKind.CLASSIC
    least_members: int = 1
    is_static: bool | None = None
    own_topics: Callable[[int], tuple[int, int]] | None = None
    assignors: str | None = None
    rebalances: Callable[[int], int] = lambda members: 2
    consuming_share: float = 1.0


def rounds(duration_ms: int) -> int:
    """How often what happens once in a short history happens in one of this length."""
    return min(1 + duration_ms // _LONG_MS, _MOST_ROUNDS)


def _steady(cast: Participants) -> Scenario:
    return Scenario(tuple(cast.starts()))


def _deploy(cast: Participants) -> Scenario:
    steps: list[Step] = list(cast.starts())
    for at, left in cast.occurrences(0.2, 0.4):
        pace = min(cast.random.integer(10_000, 30_000), left * 3 // 4 // len(cast.clients))
        for number, (name, settings) in enumerate(cast.clients.items()):
            down_ms = max(1, min(cast.random.integer(2_000, 20_000), settings.session_timeout_ms // 2, pace))
            closes = at + number * pace
            steps += [Close(closes, name), Start(closes + down_ms, name, settings)]
    return Scenario(tuple(steps))


def _crash(cast: Participants) -> Scenario:
    steps: list[Step] = list(cast.starts())
    for at, _ in cast.occurrences(0.2, 0.5):
        for name in cast.sample_clients(0.3):
            settings = cast.clients[name]
            dies = at + cast.random.integer(0, 2_000)
            # Either at once, beside what is left of its former self, or after that is gone.
            down_ms = cast.random.integer(3_000, 15_000) + cast.random.integer(0, 1) * settings.session_timeout_ms
            steps += [Kill(dies, name), Start(dies + down_ms, name, settings)]
    return Scenario(tuple(steps))


def _bounce(cast: Participants) -> Scenario:
    steps: list[Step] = list(cast.starts())
    for at, left in cast.occurrences(0.2, 0.4):
        for name in cast.sample_clients(0.3):
            closes = at + cast.random.integer(0, 2_000)
            down_ms = min(cast.random.integer(15_000, 60_000), left // 2)
            steps += [Close(closes, name), Start(closes + down_ms, name, cast.clients[name])]
    return Scenario(tuple(steps))


def _poll_stall(cast: Participants) -> Scenario:
    steps: list[Step] = list(cast.starts())
    for at, left in cast.occurrences(0.2, 0.4):
        for name in cast.sample_clients(0.2):
            too_long = cast.clients[name].max_poll_interval_ms
            steps += [
                Stall(at, name, too_long // 2),  # this one is over in time
                Stall(at + too_long, name, too_long + cast.random.integer(1_000, max(1_000, left // 10))),
            ]
    return Scenario(tuple(steps))


def _storm(cast: Participants) -> Scenario:
    steps: list[Step] = list(cast.starts())
    (victim,) = cast.sample_clients(0)
    settings = cast.clients[victim]
    for at, left in cast.occurrences(0.2, 0.4):
        dies = at
        for _ in range(cast.random.integer(6, 15)):
            starts = dies + cast.random.integer(1_000, 10_000)
            steps += [Kill(dies, victim), Start(starts, victim, settings)]
            dies = starts + min(cast.random.integer(15_000, 60_000), left // 20)
    return Scenario(tuple(steps))


def _scaling(cast: Participants) -> Scenario:
    names = list(cast.clients)
    kept = (len(names) + 1) // 2
    few = replace(cast, clients={name: cast.clients[name] for name in names[:kept]})
    steps: list[Step] = list(few.starts())
    for at, left in cast.occurrences(0.1, 0.3):
        for name in names[kept:]:
            steps.append(Start(at + cast.random.integer(0, 20_000), name, cast.clients[name]))
            steps.append(Close(at + left // 2 + cast.random.integer(0, left // 10), name))
    return Scenario(tuple(steps))


def _resubscribe(cast: Participants) -> Scenario:
    every = frozenset(cast.topics)
    fewer = every - {min(every)}
    clients = {name: replace(settings, topics=fewer) for name, settings in cast.clients.items()}
    steps: list[Step] = list(replace(cast, clients=clients).starts())
    wanted = every
    for at, left in cast.occurrences(0.2, 0.4):
        pace = min(cast.random.integer(0, 5_000), left // 2 // len(clients))
        steps += [Resubscribe(at + number * pace, name, wanted) for number, name in enumerate(clients)]
        wanted = fewer if wanted == every else every
    return Scenario(tuple(steps))


def _growing(cast: Participants) -> Scenario:
    steps: list[Step] = list(cast.starts())
    ((topic, partitions),) = cast.topics.items()
    for at, _ in cast.occurrences(0.2, 0.8):
        partitions += cast.random.integer(1, partitions)
        steps.append(SetPartitions(at, topic, partitions))
    return Scenario(tuple(steps))


def _emptied(cast: Participants) -> Scenario:
    at = cast.begins_ms + (cast.ends_ms - cast.begins_ms) * cast.random.integer(30, 60) // 100
    closes = tuple(Close(at + cast.random.integer(0, 3_000), name) for name in cast.clients)
    return Scenario((*cast.starts(), *closes))


def _deleted(cast: Participants) -> Scenario:
    at = cast.begins_ms + (cast.ends_ms - cast.begins_ms) * cast.random.integer(80, 95) // 100
    return replace(_emptied(cast), deleted_ms=at)


def _stalled(cast: Participants) -> Scenario:
    at = cast.begins_ms + (cast.ends_ms - cast.begins_ms) * cast.random.integer(30, 50) // 100
    return Scenario(tuple(cast.starts()), dict.fromkeys(cast.sample_clients(0.5), at))


SCENARIO_KINDS: Mapping[str, ScenarioKind] = {
    "steady": ScenarioKind("members start and stay", 30, _steady),
    "rolling_deploy": ScenarioKind(
        "all members restart, one by one, with LeaveGroup",
        10,
        _deploy,
        is_static=False,
        rebalances=lambda members: 2 * members,
    ),
    "static_deploy": ScenarioKind("the same with static members (group.instance.id)", 5, _deploy, is_static=True),
    "crash": ScenarioKind("some members crash and join again", 8, _crash, least_members=2, rebalances=lambda _: 3),
    "poll_stall": ScenarioKind(
        "members poll later than max.poll.interval.ms",
        5,
        _poll_stall,
        least_members=2,
        is_static=False,
        rebalances=lambda _: 3,
    ),
    "storm": ScenarioKind(
        "one member crashes again and again", 3, _storm, least_members=2, is_static=False, rebalances=lambda _: 20
    ),
    "scaling": ScenarioKind(
        "half of the members join and leave", 5, _scaling, least_members=2, is_static=False, rebalances=lambda n: n
    ),
    "idle_members": ScenarioKind(
        "there are more members than partitions",
        4,
        _steady,
        least_members=2,
        own_topics=lambda members: (1, max(1, members * 3 // 4)),
    ),
    "skewed": ScenarioKind(
        "range over small topics: half of the members get all",
        4,
        _steady,
        least_members=2,
        own_topics=lambda members: (6, members // 2),
        assignors="range",
    ),
    "resubscribe": ScenarioKind(
        "the members subscribe to one more topic",
        3,
        _resubscribe,
        own_topics=lambda members: (3, members),
        rebalances=lambda members: 1 + members // 2,
    ),
    "growing_topic": ScenarioKind(
        "the topic gets more partitions", 3, _growing, own_topics=lambda members: (1, max(4, members))
    ),
    "emptied": ScenarioKind(
        "all members leave for good; the offsets remain", 3, _emptied, is_static=False, consuming_share=0.45
    ),
    "deleted": ScenarioKind(
        "all members leave, then the group is deleted", 2, _deleted, is_static=False, consuming_share=0.45
    ),
    "simple": ScenarioKind("no members, only commits (assign, not subscribe)", 3, None),
    "stalled_consumer": ScenarioKind("some members stay but stop committing", 2, _stalled, consuming_share=0.75),
    "kip848_steady": ScenarioKind("members start and stay (group.protocol=consumer)", 4, _steady, GroupKind.CONSUMER),
    "kip848_deploy": ScenarioKind(
        "all members restart, one by one (KIP-848)",
        2,
        _deploy,
        GroupKind.CONSUMER,
        is_static=False,
        rebalances=lambda members: 2 * members,
    ),
    "kip848_crash": ScenarioKind(
        "some members crash and join again (KIP-848)",
        2,
        _crash,
        GroupKind.CONSUMER,
        least_members=2,
        is_static=False,
        rebalances=lambda _: 3,
    ),
    "connect_bounce": ScenarioKind(
        "some workers of a Connect cluster restart",
        2,
        _bounce,
        GroupKind.CONNECT,
        least_members=2,
        is_static=False,
        own_topics=lambda members: (3, 2 * members),
        rebalances=lambda _: 4,
        consuming_share=0,
    ),
}
"""Every kind of fate by its name."""
