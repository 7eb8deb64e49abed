"""What happens to a group's clients, and when: the input of a play (`agent.simulation.groups.simulate`).

A client is one process with one consumer in it, known by a name that outlives its member ids. Times are milliseconds
of virtual time, from any origin; steps at one time happen in the order given.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class GroupProtocol(StrEnum):
    """`group.protocol` of a consumer: who assigns, the clients or the broker (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class ClientSettings(Struct, frozen=True):
    """A consumer's settings, in Kafka's names and with the Java client's defaults.

    `assignors` are in order of preference (`partition.assignment.strategy`); KIP-848 uses `remote_assignor` instead.
    `rejoin_delay_ms`: how long the consumer processes records after it hears of a rebalance, before it polls again.
    """

    client_id: str
    topics: frozenset[str]
    client_host: str = "/127.0.0.1"
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    rack: str | None = None
    group_protocol: GroupProtocol = GroupProtocol.CLASSIC
    remote_assignor: str | None = None
    rejoin_delay_ms: int = 0


class BrokerSettings(Struct, frozen=True):
    """A broker's settings, in Kafka's names and with its defaults (4.3).

    `replication_ms` is how long it takes until a record is replicated: an assignment is handed out only then.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    replication_ms: int = 0


class _ClientStep(Struct, frozen=True):
    at_ms: int
    client: str


class _ClientPause(_ClientStep, frozen=True):
    duration_ms: int


class Start(_ClientStep, frozen=True):
    """The client starts and joins; starting it again after an end is a restart of the same client."""

    settings: ClientSettings


class Close(_ClientStep, frozen=True):
    """The client closes in order: a dynamic member says LeaveGroup, a static one says nothing."""


class Kill(_ClientStep, frozen=True):
    """The client dies without a word."""


class Stall(_ClientPause, frozen=True):
    """The client does not poll for so long; its heartbeat thread goes on (`max.poll.interval.ms` counts).

    Before it has joined there is no such thread: then JoinGroup's answer waits, and the session may end.
    """


class Freeze(_ClientPause, frozen=True):
    """The whole process stands still for so long, heartbeats too (a garbage collection, a suspended machine)."""


class CutOff(_ClientPause, frozen=True):
    """The client and its coordinator do not reach each other for so long; it goes on polling, and with its work.

    Of classic groups only.
    """


class Resubscribe(_ClientStep, frozen=True):
    """The client wants other topics from now on."""

    topics: frozenset[str]


class Rejoin(_ClientStep, frozen=True):
    """The client asks to join again though nothing of its changed (`enforceRebalance`)."""


class AdminRemove(_ClientStep, frozen=True):
    """An admin removes the client's member from the group."""


class SetPartitions(Struct, frozen=True):
    """A topic has this many partitions from now on (as the clients' metadata shows it); 0: it is deleted."""

    at_ms: int
    topic: str
    partitions: int


Step = Start | Close | Kill | Stall | Freeze | CutOff | Resubscribe | Rejoin | AdminRemove | SetPartitions


class Script(Struct, frozen=True):
    """A group's whole story: the steps in order of time, and when to stop looking.

    `partitions` is how many each topic has at first. A message takes `latency_ms` each way. `seed` goes into the
    member ids, and so into who is sorted and elected first.
    """

    group: str
    partitions: Mapping[str, int]
    steps: tuple[Step, ...]
    until_ms: int
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    latency_ms: int = 1
    seed: int = 0

    @property
    def protocol(self) -> GroupProtocol:
        """The protocol of all its clients: a group that migrates is not modelled."""
        protocols = {step.settings.group_protocol for step in self.steps if isinstance(step, Start)}
        if len(protocols) > 1:
            raise ValueError(f"group {self.group!r}: expected clients of one protocol, got {sorted(protocols)}")
        return protocols.pop() if protocols else GroupProtocol.CLASSIC
