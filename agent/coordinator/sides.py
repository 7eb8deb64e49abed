"""The two protocols of consumers' groups, each as a coordinator and its clients, behind one face for the world."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from agent.coordinator.assignors import SERVER_ASSIGNORS, Slot
from agent.coordinator.classic import ClassicGroup
from agent.coordinator.client import Consumer
from agent.coordinator.connect import ConnectConfig
from agent.coordinator.consumer_group import ConsumerGroup
from agent.coordinator.coordinator import Coordinator
from agent.coordinator.group_client import GroupClient
from agent.coordinator.modern_client import ModernConsumer, ModernPhase
from agent.coordinator.modern_requests import ModernEffect
from agent.coordinator.requests import Effect, Error, Token
from agent.coordinator.script import BrokerSettings, ClientSettings, GroupProtocol, Script
from agent.coordinator.states import GroupState
from agent.coordinator.worker import ConnectWorker, WorkerSettings

AnyEffect = Effect | ModernEffect


class Client(Protocol):
    """A consumer, of whichever protocol; each method gives the requests that it sends."""

    settings: ClientSettings
    member_id: str
    owned: frozenset[Slot]
    down_since: int | None
    failure: Error | None

    def start(self, now: int) -> list[Any]:
        """Subscribe and poll."""

    def close(self, now: int) -> list[Any]:
        """Close in order."""

    def kill(self, now: int) -> list[Any]:
        """Die without a word."""

    def stall(self, for_ms: int, now: int) -> list[Any]:
        """Do not poll for so long."""

    def freeze(self, for_ms: int, now: int) -> list[Any]:
        """Stand still for so long."""

    def resubscribe(self, topics: frozenset[str], now: int) -> list[Any]:
        """Want other topics."""

    def rejoin(self, now: int) -> list[Any]:
        """Ask to join again."""

    def metadata_changed(self, now: int) -> list[Any]:
        """The number of some topic's partitions changed."""

    def wake(self, now: int) -> list[Any]:
        """Do what is due."""

    def answered(self, answer: Any, now: int) -> list[Any]:
        """Take an answer."""

    def skip_heartbeats(self, until: int) -> int | None:
        """Take all heartbeats before `until` for sent: when the last was."""

    @property
    def phase(self) -> StrEnum:
        """Where it stands."""

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""

    @property
    def due(self) -> int | None:
        """When it does something by itself."""

    @property
    def due_but_heartbeats(self) -> int | None:
        """When it does something else than a heartbeat."""


class Side(Protocol):
    """A coordinator of one group, and who talks to it."""

    def client(self, settings: ClientSettings) -> Client:
        """A consumer that is not started yet."""

    def handle(self, request: Any, token: Token, now_ms: int) -> Sequence[AnyEffect]:
        """Take a request."""

    def fire(self, now_ms: int) -> Sequence[AnyEffect]:
        """Let timers fire."""

    def grow(self, topic: str, count: int, now_ms: int) -> Sequence[AnyEffect]:
        """A topic has so many partitions now."""

    def has(self, member_id: str) -> bool:
        """Whether the group has this member."""

    def knows(self, member_id: str) -> bool:
        """Whether the group has this member, or has given it its id."""

    def beating(self, clients: Iterable[Client]) -> dict[str, Client] | None:
        """Members whose heartbeats would do nothing now but put off their deadlines; None where more is under way."""

    def due_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the deadlines of these members left aside."""

    def renew(self, client: Client, sent_ms: int, latency_ms: int) -> None:
        """A heartbeat was sent, arrived and was answered, and nothing else came of it."""

    @property
    def due(self) -> int | None:
        """When the next timer fires."""

    @property
    def member_ids(self) -> Iterable[str]:
        """The members."""


class ClassicSide:
    """Classic groups: the clients assign."""

    def __init__(self, script: Script, partitions: Mapping[str, int], new_id: Callable[[], str]) -> None:
        self.coordinator = Coordinator(script.broker, new_id)
        self._name = script.group
        self._partitions = partitions
        self._changes = 0

    @property
    def group(self) -> ClassicGroup | None:
        """The group, once somebody has joined it."""
        return self.coordinator.groups.get(self._name)

    def client(self, settings: ClientSettings) -> GroupClient:
        """A consumer, or a worker of Connect, that is not started yet."""
        if isinstance(settings, WorkerSettings):
            return ConnectWorker(self._name, settings, self._configuration)
        return Consumer(self._name, settings, self._partitions)

    def _configuration(self) -> ConnectConfig:
        """To Connect's workers the script's topics are connectors, and partitions their tasks."""
        return ConnectConfig(self._changes, {topic: count for topic, count in self._partitions.items() if count})

    def handle(self, request: Any, token: Token, now_ms: int) -> list[Effect]:
        """Take a request."""
        return self.coordinator.handle(request, token, now_ms)

    def fire(self, now_ms: int) -> list[Effect]:
        """Let timers fire."""
        return self.coordinator.fire(now_ms)

    def grow(self, topic: str, count: int, now_ms: int) -> list[Effect]:
        """A topic has so many partitions now: a coordinator of classic groups does not care."""
        self._changes += 1
        return []

    def has(self, member_id: str) -> bool:
        """Whether the group has this member."""
        return self.group is not None and member_id in self.group.members

    def knows(self, member_id: str) -> bool:
        """Whether the group has this member, or has given it its id."""
        return self.has(member_id) or (self.group is not None and member_id in self.group.roster.pending)

    def beating(self, clients: Iterable[Client]) -> dict[str, Client] | None:
        """Members whose heartbeats would do nothing now but put off their deadlines; None where more is under way."""
        group = self.group
        if group is None or group.state is not GroupState.STABLE:
            return None
        out: dict[str, Client] = {}
        for client in clients:
            assert isinstance(client, GroupClient)
            if client.beats_safely and client.member_id in group.members and client.generation == group.generation:
                out[client.member_id] = client
        return out

    def due_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the deadlines of these members left aside."""
        assert self.group is not None
        return self.group.due_without(member_ids)

    def renew(self, client: Client, sent_ms: int, latency_ms: int) -> None:
        """A heartbeat was sent, arrived and was answered, and nothing else came of it."""
        assert self.group is not None
        assert isinstance(client, GroupClient)
        self.group.renew(client.member_id, sent_ms + latency_ms)
        client.heard(sent_ms + 2 * latency_ms)

    @property
    def due(self) -> int | None:
        """When the next timer fires."""
        return self.coordinator.due

    @property
    def member_ids(self) -> Iterable[str]:
        """The members."""
        return () if self.group is None else self.group.members


class ModernSide:
    """KIP-848 groups: the coordinator assigns."""

    def __init__(self, script: Script, partitions: Mapping[str, int], new_id: Callable[[], str]) -> None:
        self.group = ConsumerGroup(script.group, script.broker, new_id, partitions, SERVER_ASSIGNORS)
        """The group, whether anybody has joined it or not."""
        self._name = script.group
        self._new_id = new_id
        self._beats_safely = _is_safe(script.broker)

    def client(self, settings: ClientSettings) -> ModernConsumer:
        """A consumer that is not started yet."""
        return ModernConsumer(self._name, settings, self._new_id)

    def handle(self, request: Any, token: Token, now_ms: int) -> list[ModernEffect]:
        """Take a request."""
        return self.group.handle(request, token, now_ms)

    def fire(self, now_ms: int) -> list[ModernEffect]:
        """Let timers fire."""
        return self.group.fire(now_ms)

    def grow(self, topic: str, count: int, now_ms: int) -> list[ModernEffect]:
        """A topic has so many partitions now."""
        return self.group.grow(topic, count, now_ms)

    def has(self, member_id: str) -> bool:
        """Whether the group has this member."""
        return member_id in self.group.members

    def knows(self, member_id: str) -> bool:
        """Whether the group has this member: its id is its own."""
        return self.has(member_id)

    def beating(self, clients: Iterable[Client]) -> dict[str, Client] | None:
        """Members whose heartbeats would do nothing now but put off their deadlines; None where more is under way."""
        out: dict[str, Client] = {}
        for client in clients:
            assert isinstance(client, ModernConsumer)
            if not client.is_running:
                continue
            if client.phase is not ModernPhase.STABLE and client.down_since is None:
                return None
            if self._beats_safely and client.beats_safely and self.group.is_uneventful(client.member_id):
                out[client.member_id] = client
        return out

    def due_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the deadlines of these members left aside."""
        return self.group.due_without(member_ids)

    def renew(self, client: Client, sent_ms: int, latency_ms: int) -> None:
        """A heartbeat was sent, arrived and was answered, and nothing else came of it."""
        self.group.renew(client.member_id, sent_ms + latency_ms)

    @property
    def due(self) -> int | None:
        """When the next timer fires."""
        return self.group.due

    @property
    def member_ids(self) -> Iterable[str]:
        """The members."""
        return self.group.members

    @property
    def is_settled(self) -> bool:
        """Whether all members have what the target gives them."""
        return self.group.state in (GroupState.STABLE, GroupState.EMPTY)


def _is_safe(broker: BrokerSettings) -> bool:
    return 2 * broker.consumer_heartbeat_interval_ms < broker.consumer_session_timeout_ms


SIDES: Mapping[GroupProtocol, Callable[[Script, Mapping[str, int], Callable[[], str]], Side]] = {
    GroupProtocol.CLASSIC: ClassicSide,
    GroupProtocol.CONSUMER: ModernSide,
}
