"""Kafka Connect's side of the group protocol: what workers tell each other, and the eager assignor.

Workers are members of a classic group of protocol type `connect`; what is assigned are connectors and their tasks.
The incremental assignor (KIP-415) is in `connect_incremental_assignor.py`, the worker in `connect_worker.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from itertools import chain
from typing import NamedTuple

from msgspec import Struct, field

from agent.core.protocol.assignors.problem import java_sort_key
from agent.core.protocol.hashing import hash_map_order

PROTOCOL_TYPE = "connect"
DEFAULT_MAX_DELAY_MS = 300_000
"""`scheduled.rebalance.max.delay.ms`."""

Task = tuple[str, int]
"""A connector's name and a number of a task of it."""


class ConnectProtocol(StrEnum):
    """`connect.protocol`: the newest protocol that a worker supports (it supports the older ones too)."""

    EAGER = "eager"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"


EAGER_PROTOCOL = "default"
"""The eager protocol's name in JoinGroup; the others go by their modes' names."""

SUPPORTED_PROTOCOLS: Mapping[ConnectProtocol, tuple[str, ...]] = {
    ConnectProtocol.EAGER: (EAGER_PROTOCOL,),
    ConnectProtocol.COMPATIBLE: ("compatible", EAGER_PROTOCOL),
    ConnectProtocol.SESSIONED: ("sessioned", "compatible", EAGER_PROTOCOL),
}
"""The protocols that a worker offers, by preference."""


class ConnectError(IntEnum):
    """The error in an assignment. `CONFIG_MISMATCH`: others have read more of the configuration than the leader."""

    NONE = 0
    CONFIG_MISMATCH = 1


class ConnectWork(NamedTuple):
    """Connectors and tasks, each at most once. The order is that in which a worker holds them."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def union(self, *others: ConnectWork) -> ConnectWork:
        """This, then what the others have more."""
        return ConnectWork._make(tuple(dict.fromkeys(chain(*kind))) for kind in zip(self, *others, strict=True))

    def difference(self, *others: ConnectWork) -> ConnectWork:
        """What none of the others has."""
        taken = [set(chain(*kind)) for kind in zip(NOTHING, *others, strict=True)]
        return ConnectWork._make(
            tuple(unit for unit in units if unit not in gone) for units, gone in zip(self, taken, strict=True)
        )

    def intersection(self, other: ConnectWork) -> ConnectWork:
        """What the other has too."""
        return self.difference(self.difference(other))

    def in_name_order(self) -> ConnectWork:
        """By name and number."""
        return ConnectWork(
            tuple(sorted(self.connectors, key=java_sort_key)), tuple(sorted(self.tasks, key=_task_order))
        )


NOTHING = ConnectWork()


class ConnectConfig(Struct, frozen=True):
    """The configuration topic as far as a worker has read it: the tasks of each connector, by how many."""

    offset: int = 0
    connectors: Mapping[str, int] = field(default_factory=dict)

    def work(self) -> ConnectWork:
        """All that is to run."""
        names = tuple(sorted(self.connectors, key=java_sort_key))
        return ConnectWork(names, tuple((name, number) for name in names for number in range(self.connectors[name])))


class WorkerAssignment(Struct, frozen=True):
    """What a worker is answered.

    Eager: `assigned` is all it is to run. Incremental: what it is to start; it keeps what it has but for `revoked`.
    `delay_ms` later, where that is not 0, it is to join again.
    """

    leader: str
    leader_url: str
    config_offset: int
    assigned: ConnectWork = NOTHING
    revoked: ConnectWork = NOTHING
    delay_ms: int = 0
    error: ConnectError = ConnectError.NONE


class WorkerState(Struct, frozen=True):
    """A worker's metadata. `allocation` is its latest assignment, with all that it holds in `assigned`.

    None where it has had none, and where the eager protocol is spoken.
    """

    url: str
    config_offset: int
    allocation: WorkerAssignment | None = None

    @property
    def work(self) -> ConnectWork:
        """What the worker holds."""
        return NOTHING if self.allocation is None else self.allocation.assigned


class ConnectAssignmentProblem(Struct, frozen=True):
    """What a leader is to assign.

    `members` by id. `config` is what the leader had read when it joined, `latest_config` what it can read by now.
    `last_generation` is the last one whose assignment reached the leader, -1 for none.
    """

    leader: str
    members: Mapping[str, WorkerState]
    config: ConnectConfig
    generation: int
    last_generation: int = -1
    latest_config: ConnectConfig | None = None

    def agreed(self) -> ConnectConfig | None:
        """The configuration to assign by; None where a member has read more of it than the leader can have."""
        newest = max(state.config_offset for state in self.members.values())
        for known in (self.config, self.latest_config):
            if known is not None and known.offset >= newest:
                return known
        return None


ConnectAssignments = dict[str, WorkerAssignment]
"""By member id; every member is in it."""


def eager_assign(problem: ConnectAssignmentProblem) -> ConnectAssignments:
    """`EagerAssignor`: all connectors, then all tasks, in order, one to each worker in turn."""
    config = problem.agreed()
    if config is None:
        return config_mismatch(problem)
    order = sorted(problem.members, key=java_sort_key)
    work = config.work()
    first = len(work.connectors)  # the tasks go on where the connectors end
    shares = {
        member_id: ConnectWork(
            tuple(it for turn, it in enumerate(work.connectors) if turn % len(order) == place),
            tuple(it for turn, it in enumerate(work.tasks, first) if turn % len(order) == place),
        )
        for place, member_id in enumerate(order)
    }
    url = problem.members[problem.leader].url
    return {
        member_id: WorkerAssignment(problem.leader, url, config.offset, shares[member_id])
        for member_id in problem.members
    }


def config_mismatch(problem: ConnectAssignmentProblem) -> ConnectAssignments:
    """The round of a leader that must read on before it can assign."""
    newest = max(state.config_offset for state in problem.members.values())
    url = problem.members[problem.leader].url
    failed = WorkerAssignment(problem.leader, url, newest, error=ConnectError.CONFIG_MISMATCH)
    return dict.fromkeys(problem.members, failed)


def in_wire_order(work: ConnectWork) -> ConnectWork:
    """The order behind the wire, where work travels by connector: its own connectors first, in a hash map's order."""
    tasks: dict[str, list[Task]] = {name: [] for name in hash_map_order(work.connectors)}
    connectors = tuple(tasks)
    for task in work.tasks:
        tasks.setdefault(task[0], []).append(task)
    return ConnectWork(connectors, tuple(task for listed in tasks.values() for task in listed))


def _task_order(task: Task) -> tuple[bytes, int]:
    return java_sort_key(task[0]), task[1]
