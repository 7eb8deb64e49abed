"""Connect's members as Kafka's workers write them, and as the mirror reads them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from agent.core.protocol.states import GroupState
from agent.core.wire import Record, decode
from agent.core.wire.payloads import ConnectAssignment, ConnectorTasks, ConnectWorkerState, decode_payload
from agent.simulation.generator.images import PAYLOAD_VERSIONS, encode_assignment, encode_worker_state
from agent.simulation.groups.connect import (
    ConnectError,
    ConnectProtocol,
    ConnectWork,
    Task,
    WorkerAssignment,
    WorkerState,
)
from agent.simulation.groups.messages import ClassicGroupImage, ClassicMemberImage
from agent.simulation.groups.script import Close, Kill, Script, SetPartitions
from agent.simulation.groups.simulation import Simulation
from tests.generate.connect_bytes import RECORDED
from tests.unit.simulation.generator.made import encode_image
from tests.unit.simulation.generator.mirroring import Form, mirrored
from tests.unit.simulation.groups.connecting import MINUTE, start

PAYLOADS = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def work_of(rows: tuple[ConnectorTasks, ...] | None) -> ConnectWork:
    """What rows of a payload name; task -1 is the connector itself."""
    named = [(row.connector, number) for row in rows or () for number in row.tasks]
    return ConnectWork(
        tuple(connector for connector, number in named if number == -1),
        tuple(task for task in named if task[1] != -1),
    )


def given_in(data: bytes) -> WorkerAssignment:
    it = decode_payload(ConnectAssignment, data)[1]
    return WorkerAssignment(
        it.leader,
        it.leader_url,
        it.config_offset,
        work_of(it.assignment),
        work_of(it.revoked),
        it.delay,
        ConnectError(it.error),
    )


def state_in(data: bytes) -> WorkerState:
    it = decode_payload(ConnectWorkerState, data)[1]
    return WorkerState(it.url, it.config_offset, None if it.allocation is None else given_in(it.allocation))


def test_what_kafkas_workers_wrote_comes_out_as_it_was() -> None:
    """Of Kafka 4.3.1, of each protocol."""
    assert Counter(row["protocol"] for row in PAYLOADS).keys() == PAYLOAD_VERSIONS.keys()
    for row in PAYLOADS:
        data, version = bytes.fromhex(row["hex"]), PAYLOAD_VERSIONS[row["protocol"]]
        if row["kind"] == "state":
            assert encode_worker_state(state_in(data), version) == data
        else:
            assert encode_assignment(given_in(data), version) == data


def test_the_eager_protocol_has_no_allocation() -> None:
    held = WorkerAssignment("w1", "u1", 3, ConnectWork(("p",)))
    assert decode_payload(ConnectWorkerState, encode_worker_state(WorkerState("u", 3, held), 0)) == (
        0,
        ConnectWorkerState("u", 3),
    )


def test_a_worker_without_an_assignment_has_no_bytes() -> None:
    member = ClassicMemberImage("m", None, "c", "/h", 1, 2, WorkerState("u", 3), ())
    entry = decode(
        *encode_image(ClassicGroupImage("g", 5, 1, "connect", "sessioned", "m", GroupState.STABLE, 4, (member,)))
    )
    assert isinstance(entry, Record)
    assert [it.assignment for it in entry.value.members] == [b""]


# The mirror.


def held(world: Simulation) -> dict[str, dict[str, list[int]]]:
    """By client, what the members hold: the model's workers once they have heard of their assignment."""
    return {name: by_connector(client.held_work) for name, client in world.clients.items() if client.is_running}


def by_connector(work: ConnectWork) -> dict[str, list[int]]:
    units: list[Task] = [*((name, -1) for name in work.connectors), *work.tasks]
    out: dict[str, list[int]] = {}
    for name, number in sorted(units):
        out.setdefault(name, []).append(number)
    return out


def seen(form: Form) -> dict[str, dict[str, list[int]]]:
    return {it["client_id"]: it["assignment"] for it in form["members"]}


@pytest.mark.parametrize("mode", ConnectProtocol)
def test_the_mirror_sees_a_cluster_of_workers(mode: ConnectProtocol) -> None:
    forms: list[Form] = []

    def look(world: Simulation, form: Form | None) -> None:
        assert form is not None
        forms.append(form)

    modes: dict[str, Any] = {"connect_protocol": mode}
    steps = (
        *(start(at, f"w{at}", **modes) for at in (1, 2, 3)),
        Kill(2 * MINUTE, "w2"),
        SetPartitions(3 * MINUTE, "Q", 2),
        start(4 * MINUTE, "w2", **modes),
        start(12 * MINUTE, "w4", **modes),
        Close(15 * MINUTE, "w3"),
    )
    script = Script("connect-cluster", {"P": 7}, steps, 25 * MINUTE)
    world, loaded = mirrored(script, look)
    last = forms[-1]
    # Its first record, before anybody has joined, does not say what it will be.
    assert {form["group_type"] for form in forms if form["generation"]} == {"connect"}
    assert (last["state"], last["protocol"]) == ("Stable", mode if mode is not ConnectProtocol.EAGER else "default")
    assert world.group is not None
    assert (last["generation"], last["leader"]) == (world.group.generation, world.group.leader)
    assert seen(last) == held(world)
    assert sum(map(len, held(world)["w1"].values())) > 0
    assert sorted(number for it in seen(last).values() for number in it.get("P", [])) == [-1, *range(7)]
    assert last["anomalies"] == []
    rebalances = [it for it in loaded.events() if it["type"] == "rebalance"]
    assert len(rebalances) == last["generation"]
