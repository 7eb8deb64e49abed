"""Which groups a cluster has: each group's plan, drawn from the settings and its number alone."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.hashing import partition_for_group
from agent.core.wire.primitives import Uuid
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS, GroupKind, Participants, Scenario
from agent.simulation.generator.seeded_random import SeededRandom, weighted_choice_at
from agent.simulation.generator.settings import GeneratorSettings
from agent.simulation.generator.topics import GeneratedTopic, TopicPool, new_topic
from agent.simulation.groups.connect import ConnectProtocol
from agent.simulation.groups.connect_worker import WorkerSettings
from agent.simulation.groups.script import BrokerSettings, ClientSettings, GroupProtocol, Script

_TEAMS = ("ads", "billing", "checkout", "fraud", "mail", "search", "shipping", "stock")
_SESSIONS = {"45000": 7.0, "30000": 1.0, "10000": 2.0}
_POLLS_MS = (300_000, 120_000, 60_000)
_PACES = {"1": 70.0, "2": 15.0, "0.5": 10.0, "6": 5.0}
"""A group's commit interval, by the usual one."""
_CONNECT_MODES = {"sessioned": 8.0, "compatible": 1.0, "eager": 1.0}
_REMOTE_ASSIGNORS = {"": 7.0, "uniform": 1.0, "range": 2.0}
"""`group.remote.assignor`; mostly it is left to the broker."""
_WORKER_SESSION_MS = 10_000
_STATIC_SHARE = 0.25
_GOLDEN = 0x9E3779B97F4A7C15
"""Its multiples modulo 2^64 fill the range evenly, however many there are: so fates come in their shares."""


class GroupPlan(Struct, frozen=True):
    """A group before its history: who is in it, what it consumes, and what becomes of it."""

    group: str
    scenario_kind: str
    members: int
    topics: tuple[GeneratedTopic, ...]
    assignors: tuple[str, ...]
    is_static: bool
    session_timeout_ms: int
    commit_interval_ms: int
    random: SeededRandom

    @property
    def kind(self) -> GroupKind:
        """Who is in it."""
        return SCENARIO_KINDS[self.scenario_kind].kind

    @property
    def topic_ids(self) -> dict[str, Uuid]:
        """Its topics' ids."""
        return {topic.name: topic.topic_id for topic in self.topics}

    @property
    def clients(self) -> tuple[str, ...]:
        """The names of its clients."""
        return tuple(f"{self.group}-{at}" for at in range(self.members))

    @property
    def partition_count(self) -> int:
        """How many partitions it consumes at first."""
        return sum(topic.partitions for topic in self.topics)


class GroupPlans:
    """All groups of a cluster."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self._settings = settings
        self._topics = TopicPool(settings.topics, *settings.partitions, settings.seed)
        self._first = SeededRandom(settings.seed, "fates").integer(0, (1 << 64) - 1)

    def by_partition(self) -> list[tuple[int, list[int]]]:
        """The partitions of the offsets topic that have groups, in order, and the groups' numbers."""
        settings = self._settings
        numbers: dict[int, list[int]] = {}
        for number in range(settings.groups):
            name = self._name(number, self._fate(number))
            partition = partition_for_group(name, settings.offsets_partitions, settings.group_partitioner)
            numbers.setdefault(partition, []).append(number)
        return sorted(numbers.items())

    def _fate(self, number: int) -> str:
        return weighted_choice_at(self._settings.mix, ((self._first + number * _GOLDEN) % (1 << 64)) / (1 << 64))

    def _name(self, number: int, fate: str) -> str:
        return f"{_TEAMS[number % len(_TEAMS)]}.{fate.replace('_', '-')}-{number:05d}"

    def plan(self, number: int) -> GroupPlan:
        """The group of this number."""
        settings = self._settings
        dice = SeededRandom(settings.seed, "group", number)
        name = self._fate(number)
        fate = SCENARIO_KINDS[name]
        group = self._name(number, name)
        members = max(dice.pareto_integer(*settings.members), fate.least_members)
        if fate.own_topics is None:
            topics = self._topics.choose(dice.integer(1, 3), members, dice)
            members = max(min(members, topics[0].partitions), fate.least_members)
        else:
            count, partitions = fate.own_topics(members)
            topics = tuple(new_topic(f"{group}-{chr(ord('a') + at)}", partitions, dice) for at in range(count))
        assignors = fate.assignors or dice.weighted_choice(settings.assignors)
        is_static = dice.chance(_STATIC_SHARE) if fate.is_static is None else fate.is_static
        interval = max(1, int(settings.commit_interval_ms * float(dice.weighted_choice(_PACES))))
        session_ms = settings.session_timeout_ms or _session_ms(fate.kind, dice)
        return GroupPlan(
            group, name, members, topics, tuple(assignors.split(",")), is_static, session_ms, interval, dice
        )

    def script(self, plan: GroupPlan) -> tuple[Script, Scenario]:
        """The script of a group that has members, and what else there is to its story."""
        settings, dice = self._settings, plan.random
        tell = SCENARIO_KINDS[plan.scenario_kind].build
        assert tell is not None, "only groups with members have a story"
        clients = dict(self._clients(plan))
        counts = {topic.name: topic.partitions for topic in plan.topics}
        begins = settings.start_ms + dice.integer(0, min(10_000, settings.duration_ms // 100))
        story = tell(Participants(clients, counts, begins, settings.until_ms, dice))
        until = settings.until_ms if story.deleted_ms is None else story.deleted_ms
        session_ms = plan.session_timeout_ms
        broker = BrokerSettings(
            replication_ms=2,
            consumer_session_timeout_ms=session_ms,
            consumer_heartbeat_interval_ms=min(5_000, session_ms // 3),
        )
        return Script(plan.group, counts, story.steps, until, broker, latency_ms=2, seed=settings.seed), story

    def _clients(self, plan: GroupPlan) -> Iterator[tuple[str, ClientSettings]]:
        """A group's clients are set up alike, and run on machines of their own."""
        dice = plan.random
        alike = self._worker(plan) if plan.kind is GroupKind.CONNECT else self._consumer(plan)
        for client in plan.clients:
            host = f"10.{dice.integer(0, 255)}.{dice.integer(0, 255)}.{dice.integer(1, 254)}"
            own = replace(
                alike, client_id=client, client_host=f"/{host}", rejoin_delay_ms=dice.pareto_integer(5, 2_000)
            )
            if isinstance(own, WorkerSettings):
                own = replace(own, url=f"http://{host}:8083/")
            yield client, replace(own, instance_id=client) if plan.is_static else own

    def _consumer(self, plan: GroupPlan) -> ClientSettings:
        settings = self._settings
        patience_ms = settings.duration_ms // 6
        polls_ms = next((it for it in _POLLS_MS if it <= patience_ms), patience_ms)
        modern = plan.kind is GroupKind.CONSUMER
        return ClientSettings(
            "",
            frozenset(plan.topic_ids),
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=min(3_000, plan.session_timeout_ms // 3),
            max_poll_interval_ms=polls_ms,
            assignors=plan.assignors,
            group_protocol=GroupProtocol.CONSUMER if modern else GroupProtocol.CLASSIC,
            remote_assignor=(plan.random.weighted_choice(_REMOTE_ASSIGNORS) or None) if modern else None,
        )

    def _worker(self, plan: GroupPlan) -> WorkerSettings:
        return WorkerSettings(
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=min(3_000, plan.session_timeout_ms // 3),
            connect_protocol=ConnectProtocol(plan.random.weighted_choice(_CONNECT_MODES)),
        )


def _session_ms(kind: GroupKind, dice: SeededRandom) -> int:
    """The usual: a KIP-848 group's is the broker's."""
    match kind:
        case GroupKind.CONSUMER:
            return BrokerSettings().consumer_session_timeout_ms
        case GroupKind.CONNECT:
            return _WORKER_SESSION_MS
        case _:
            return int(dice.weighted_choice(_SESSIONS))
