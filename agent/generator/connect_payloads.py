"""What Connect workers say and are given, as the model has it → the bytes that Kafka 4.3's workers write.

The protocol that the group speaks says which version: a worker offers its metadata for each that it supports.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.coordinator.connect import EAGER_PROTOCOL, ConnectState, Mode, Work, WorkerAssignment, as_sent
from agent.wire.payloads import ConnectAssignment, ConnectorTasks, ConnectWorkerState, encode_payload

VERSIONS: Mapping[str, int] = {EAGER_PROTOCOL: 0, Mode.COMPATIBLE: 1, Mode.SESSIONED: 2}
"""By the protocol's name, the version of its payloads."""

_ITSELF = -1
"""Stands among a connector's tasks for the connector."""


def worker_payload(state: ConnectState, version: int) -> bytes:
    """A worker's metadata; from version 1 on with its latest assignment in it."""
    held = None if version == 0 or state.allocation is None else assignment_payload(state.allocation, version)
    return encode_payload(ConnectWorkerState(state.url, state.config_offset, held), version)


def assignment_payload(given: WorkerAssignment, version: int) -> bytes:
    """What a worker is given; version 0 has neither what is revoked nor a delay."""
    payload = ConnectAssignment(
        given.error,
        given.leader,
        given.leader_url,
        given.config_offset,
        _by_connector(as_sent(given.assigned)),
        _by_connector(given.revoked),
        given.delay_ms,
    )
    return encode_payload(payload, version)


def _by_connector(work: Work) -> tuple[ConnectorTasks, ...]:
    tasks: dict[str, list[int]] = {name: [_ITSELF] for name in work.connectors}
    for name, number in work.tasks:
        tasks.setdefault(name, []).append(number)
    return tuple(ConnectorTasks(name, tuple(numbers)) for name, numbers in tasks.items())
