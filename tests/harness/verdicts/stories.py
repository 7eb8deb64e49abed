"""Rollouts by the simulation: a group that is deployed twice, the second time in one of several ways, as records.

The first deploy is a clean one, so that the second has something to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from agent.core.events.events import Event, event_of
from agent.core.protocol.hashing import OFFSETS_PARTITIONS, partition_for_group
from agent.core.records import RawRecord
from agent.core.shadow.cluster import ClusterMirror
from agent.simulation.generator.group_history import generate_group
from agent.simulation.generator.histories import merge_writes
from agent.simulation.generator.plans import GroupPlan
from agent.simulation.generator.scenario_kinds import Scenario
from agent.simulation.generator.seeded_random import SeededRandom
from agent.simulation.generator.topics import new_topic
from agent.simulation.groups.script import BrokerSettings, ClientSettings, Close, Kill, Script, Start, Step

GROUP = "payments"
START_MS = 1_795_000_000_000
SESSION_MS = 45_000
MINUTE_MS = 60_000
FIRST_MS, SECOND_MS, UNTIL_MS = 5 * MINUTE_MS, 30 * MINUTE_MS, 60 * MINUTE_MS

Clients = Mapping[str, ClientSettings]
Deploy = Callable[[Clients, int, SeededRandom], list[Step]]
"""Steps that replace all clients, from a time on."""


def _pace_ms(random: SeededRandom) -> int:
    return random.integer(12_000, 25_000)


def clean(clients: Clients, at_ms: int, random: SeededRandom) -> list[Step]:
    """One after the other says goodbye, and is back some seconds later."""
    steps: list[Step] = []
    pace_ms = _pace_ms(random)
    for number, (name, settings) in enumerate(clients.items()):
        closes_ms = at_ms + number * pace_ms
        steps += [Close(closes_ms, name), Start(closes_ms + random.integer(2_000, 9_000), name, settings)]
    return steps


def crash_looping(clients: Clients, at_ms: int, random: SeededRandom) -> list[Step]:
    """The new version dies some seconds after it has joined, and is started again with growing pauses."""
    steps: list[Step] = []
    pace_ms = _pace_ms(random)
    for number, (name, settings) in enumerate(clients.items()):
        closes_ms = at_ms + number * pace_ms
        starts_ms = closes_ms + random.integer(2_000, 9_000)
        steps += [Close(closes_ms, name), Start(starts_ms, name, settings)]
        if number % 2:
            continue
        backoff_ms = 10_000
        for _ in range(4):
            dies_ms = starts_ms + random.integer(8_000, 20_000)
            starts_ms = dies_ms + backoff_ms
            steps += [Close(dies_ms, name) if number % 4 else Kill(dies_ms, name), Start(starts_ms, name, settings)]
            backoff_ms *= 2
    return steps


def short_grace(clients: Clients, at_ms: int, random: SeededRandom) -> list[Step]:
    """Old members are killed before they have said goodbye."""
    steps: list[Step] = []
    pace_ms = _pace_ms(random)
    for number, (name, settings) in enumerate(clients.items()):
        dies_ms = at_ms + number * pace_ms
        steps += [Kill(dies_ms, name), Start(dies_ms + random.integer(2_000, 9_000), name, settings)]
    return steps


def lopsided(clients: Clients, at_ms: int, random: SeededRandom) -> list[Step]:
    """The new version assigns by range, over topics of few partitions."""
    new = {name: replace(it, assignors=("range", "roundrobin")) for name, it in clients.items()}
    return clean(new, at_ms, random)


@dataclass(frozen=True)
class Story:
    """A kind of rollout: how it is deployed the second time, and what the verdict on that must be."""

    second: Deploy
    expected: str
    is_static: bool = False
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    topics: tuple[int, ...] = (24,)


STORIES: Mapping[str, Story] = {
    "clean static": Story(clean, "same", is_static=True),
    "clean eager": Story(clean, "same"),
    "crash-looping": Story(crash_looping, "harmful"),
    "short grace period": Story(short_grace, "harmful"),
    "lopsided": Story(lopsided, "worse", assignors=("roundrobin", "range"), topics=(2, 2, 2, 2, 2, 2)),
}
"""The five kinds, by name."""


def records(story: Story, seed: int, apart_ms: int | None = None) -> Iterator[RawRecord]:
    """The topic's records of the group, of 4 to 9 members, deployed twice: the second time `apart_ms` after the first
    was through, or, if that is None, 25 minutes after it began."""
    random = SeededRandom("verdicts", seed)
    members = random.integer(4, 9)
    names = [f"{GROUP}-{number}" for number in range(members)]
    topics = tuple(
        new_topic(f"orders-{chr(ord('a') + at)}", partitions, random) for at, partitions in enumerate(story.topics)
    )
    alike = ClientSettings(
        "", frozenset(it.name for it in topics), session_timeout_ms=SESSION_MS, assignors=story.assignors
    )
    clients = {
        name: replace(
            alike,
            client_id=name,
            client_host=f"/10.0.0.{number + 1}",
            instance_id=name if story.is_static else None,
            rejoin_delay_ms=random.integer(5, 400),
        )
        for number, name in enumerate(names)
    }
    steps: list[Step] = [
        Start(START_MS + random.integer(0, 3_000), name, settings) for name, settings in clients.items()
    ]
    first = clean(clients, START_MS + FIRST_MS, random)
    second_ms = START_MS + SECOND_MS if apart_ms is None else max(it.at_ms for it in first) + apart_ms
    steps += [*first, *story.second(clients, second_ms, random)]
    steps.sort(key=lambda it: it.at_ms)
    until_ms = START_MS + UNTIL_MS
    plan = GroupPlan(
        GROUP, "rolling_deploy", members, topics, story.assignors, story.is_static, SESSION_MS, 5_000, random
    )
    script = Script(
        GROUP,
        {it.name: it.partitions for it in topics},
        tuple(steps),
        until_ms,
        BrokerSettings(replication_ms=2),
        latency_ms=2,
        seed=seed,
    )
    written, _ = generate_group(plan, script, Scenario(tuple(steps)))
    return merge_writes(partition_for_group(GROUP, OFFSETS_PARTITIONS), written, START_MS)


def events(story: Story, seed: int, apart_ms: int | None = None) -> list[Event]:
    """What the mirror makes of them."""
    mirror = ClusterMirror()
    out: list[Event] = []
    for record in records(story, seed, apart_ms):
        out += [event_of(it) for it in mirror.replay(record)]
    return out
