"""The two group protocols, each as a coordinator with its clients, behind one interface for the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agent.core.protocol.assignors import SERVER_ASSIGNORS
from agent.core.protocol.states import GroupState
from agent.simulation.groups.classic_client import ClassicClient
from agent.simulation.groups.classic_consumer import ClassicConsumer
from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.connect import ConnectConfig
from agent.simulation.groups.connect_worker import ConnectWorker, WorkerSettings
from agent.simulation.groups.kip848_client import Kip848Consumer, Kip848Phase
from agent.simulation.groups.kip848_coordinator import Kip848Coordinator
from agent.simulation.groups.kip848_messages import Kip848Effect
from agent.simulation.groups.messages import Effect
from agent.simulation.groups.script import ClientSettings, GroupProtocol, Script

AnyEffect = Effect | Kip848Effect
SimulatedClient = ClassicClient | Kip848Consumer


class ClassicModel:
    """A classic group: its clients assign the partitions. `partitions` is shared with the simulation, by topic."""

    def __init__(self, script: Script, partitions: Mapping[str, int], new_id: Callable[[], str]) -> None:
        self.coordinator = ClassicCoordinator(script.group, script.broker, new_id)
        self._name = script.group
        self._partitions = partitions
        self._metadata_changes = 0

    def new_client(self, settings: ClientSettings) -> ClassicClient:
        """A consumer, or a worker of Connect, that is not started yet."""
        if isinstance(settings, WorkerSettings):
            return ConnectWorker(self._name, settings, self._connect_config)
        return ClassicConsumer(self._name, settings, self._partitions)

    def _connect_config(self) -> ConnectConfig:
        """To Connect's workers the script's topics are connectors, and partitions their tasks."""
        connectors = {topic: count for topic, count in self._partitions.items() if count}
        return ConnectConfig(self._metadata_changes, connectors)

    def set_partition_count(self, topic: str, count: int) -> None:
        """The topic has `count` partitions from now on. A classic coordinator does not look at topics."""
        self._metadata_changes += 1

    def clients_only_heartbeating(self, clients: Iterable[SimulatedClient]) -> dict[str, SimulatedClient] | None:
        """The clients whose heartbeats do nothing now but extend their sessions, by member id.

        None while anything else is under way in the group.
        """
        group = self.coordinator.group
        if group is None or group.state is not GroupState.STABLE:
            return None
        return {
            client.member_id: client
            for client in clients
            if isinstance(client, ClassicClient)
            and client.beats_safely
            and client.member_id in group.members
            and client.generation == group.generation
        }


class Kip848Model:
    """A KIP-848 group: the coordinator assigns the partitions. Methods as `ClassicModel` has them."""

    def __init__(self, script: Script, partitions: Mapping[str, int], new_id: Callable[[], str]) -> None:
        self.coordinator = Kip848Coordinator(script.group, script.broker, new_id, partitions, SERVER_ASSIGNORS)
        self.set_partition_count = self.coordinator.set_partition_count
        self._name = script.group
        self._new_id = new_id
        broker = script.broker
        self._beats_safely = 2 * broker.consumer_heartbeat_interval_ms < broker.consumer_session_timeout_ms

    def new_client(self, settings: ClientSettings) -> Kip848Consumer:
        """A consumer that is not started yet."""
        return Kip848Consumer(self._name, settings, self._new_id)

    def clients_only_heartbeating(self, clients: Iterable[SimulatedClient]) -> dict[str, SimulatedClient] | None:
        """The clients whose heartbeats do nothing now but extend their sessions, by member id."""
        running = [client for client in clients if client.is_running]
        if any(it.phase is not Kip848Phase.STABLE and it.not_polling_since_ms is None for it in running):
            return None
        return {
            client.member_id: client
            for client in running
            if self._beats_safely and client.beats_safely and self.coordinator.is_uneventful(client.member_id)
        }


ProtocolModel = ClassicModel | Kip848Model


def protocol_model(script: Script, partitions: Mapping[str, int], new_id: Callable[[], str]) -> ProtocolModel:
    """The model of the protocol that the script's clients speak."""
    model = Kip848Model if script.protocol is GroupProtocol.CONSUMER else ClassicModel
    return model(script, partitions, new_id)
