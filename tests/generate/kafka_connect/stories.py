"""Random stories of Connect clusters, in the form that `KafkaConnect.java` tells, and our workers playing them."""

from __future__ import annotations

import random
from typing import Any

from agent.simulation.groups.connect import (
    SUPPORTED_PROTOCOLS,
    ConnectConfig,
    ConnectProtocol,
    ConnectWork,
    WorkerAssignment,
    WorkerState,
    in_wire_order,
)
from agent.simulation.groups.connect_worker import ConnectWorker, WorkerSettings
from agent.simulation.groups.messages import (
    ErrorCode,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

Story = dict[str, Any]


def units(work: ConnectWork) -> list[list[Any]]:
    """As Connect writes it: task -1 is the connector itself."""
    return [*([name, -1] for name in work.connectors), *([name, number] for name, number in work.tasks)]


def config_of(row: dict[str, Any]) -> ConnectConfig:
    return ConnectConfig(row["offset"], row["config"])


class Cluster:
    """Workers of ours that play a story's rounds, without a broker between them."""

    def __init__(self, story: Story) -> None:
        self.settings = WorkerSettings(
            url="url",
            connect_protocol=ConnectProtocol(story["mode"]),
            scheduled_rebalance_max_delay_ms=story["max_delay_ms"],
        )
        self.configs: dict[str, ConnectConfig] = {}
        self.workers: dict[str, ConnectWorker] = {}
        self.interrupted: dict[str, JoinGroupResponse | SyncGroupResponse] = {}
        self.payloads: dict[str, tuple[WorkerState, WorkerAssignment]] = {}
        """By worker, what it said of itself in the newest round, and what it was given."""

    def play(self, row: dict[str, Any]) -> dict[str, Any]:
        """One round: everybody joins, the leader assigns, and those that are reached take what they got."""
        now_ms, generation, ids = row["now_ms"], row["generation"], dict(row["members"])
        members = tuple((member_id, None, self.join(name, row)) for name, member_id in ids.items())
        if row["fresh"]:
            self.configs[row["leader"]] = config_of(row)
        given: dict[str, WorkerAssignment] = {}
        for name, member_id in ids.items():
            leader, protocol = ids[row["leader"]], row["protocol"]
            answer = JoinGroupResponse(ErrorCode.NONE, member_id, generation, "connect", protocol, leader, members)
            (request,) = self.workers[name].handle_response(answer, now_ms)
            assert isinstance(request, SyncGroupRequest)
            given |= request.assignments
        for name, member_id in ids.items():
            self.interrupted[name] = SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS)
            if name in row["reached"]:
                asked = self.workers[name].handle_response(
                    SyncGroupResponse(ErrorCode.NONE, given[member_id]), now_ms
                )
                self.interrupted[name] = JoinGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS)
                if not asked:
                    del self.interrupted[name]
        states = {member_id: state for member_id, _, state in members}
        self.payloads = {name: (states[member_id], given[member_id]) for name, member_id in ids.items()}
        return {name: self.outcome(name, given[member_id]) for name, member_id in ids.items()}

    def join(self, name: str, row: dict[str, Any]) -> WorkerState:
        """What the worker says of itself as it joins; what it waited for was overtaken by this round."""
        self.configs[name] = config_of(row["behind"].get(name, row))
        if name not in self.workers:
            self.workers[name] = ConnectWorker("group", self.settings, lambda: self.configs[name])
            start = self.workers[name].start
        else:
            start = self.workers[name].metadata_changed
        worker = self.workers[name]
        asked = start(row["now_ms"])
        if interrupted := self.interrupted.pop(name, None):
            asked = worker.handle_response(interrupted, row["now_ms"])
        (request,) = asked
        assert isinstance(request, JoinGroupRequest)
        (state,) = (offer.metadata for offer in request.protocols if offer.name == row["protocol"])
        assert isinstance(state, WorkerState)
        return state

    def outcome(self, name: str, given: WorkerAssignment) -> dict[str, Any]:
        outcome = {
            "error": given.error,
            "offset": given.config_offset,
            "delay_ms": given.delay_ms,
            "assigned": units(in_wire_order(given.assigned)),
            "revoked": sorted(units(given.revoked)),
        }
        held = units(self.workers[name].held_work)
        return {**outcome, "held": held} if held else outcome


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """What is revoked is a set; to hold nothing is not told; bytes are another matter."""
    return {
        name: {
            key: sorted(value) if key == "revoked" else value
            for key, value in it.items()
            if not key.endswith("_bytes") and (key != "held" or value)
        }
        for name, it in answer.items()
    }


def make_story(seed: int) -> Story:
    """Workers come, go, restart and return late, assignments get lost, the configuration changes."""
    return _Author(random.Random(seed)).story()


class _Author:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_ms = rng.choice((1, 1_000_000))
        self.head = {
            "max_delay_ms": rng.choice((0, 1, 1_000, 60_000, 90_001, 300_000, 300_000)),
            "mode": rng.choice(("sessioned", "sessioned", "sessioned", "compatible", "eager")),
        }
        self.cluster = Cluster(self.head)
        self.protocols = SUPPORTED_PROTOCOLS[ConnectProtocol(self.head["mode"])]
        self.config = {f"c{number}": rng.randrange(8) for number in range(rng.randrange(1, 7))}
        self.offset = 1
        self.older = {"config": dict(self.config), "offset": 1}
        self.started = 0
        self.members: dict[str, str] = {}
        self.gone: list[str] = []
        for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 14))):
            self.join(self.new_worker())
        self.leader = next(iter(self.members))

    def new_worker(self) -> str:
        self.started += 1
        return f"w{self.started}"

    def join(self, name: str) -> None:
        self.members[name] = f"{name}-{self.rng.getrandbits(32):08x}"

    def story(self) -> Story:
        rounds = [self.round(generation) for generation in range(1, self.rng.randrange(4, 16))]
        return {**self.head, "rounds": rounds}

    def round(self, generation: int) -> dict[str, Any]:
        rng = self.rng
        if self.leader not in self.members or rng.random() < 0.05:
            self.leader = rng.choice(list(self.members))
        everybody = list(self.members)
        lag = 0.3 if rng.random() < 0.15 else 0.0
        reached = 0.5 if rng.random() < 0.1 else 1.0  # another rebalance comes between
        row = {
            "now_ms": self.now_ms,
            "generation": generation,
            "protocol": self.protocols[0] if rng.random() < 0.93 else rng.choice(self.protocols),
            "config": dict(self.config),
            "offset": self.offset,
            "behind": {name: self.older for name in everybody if rng.random() < lag},
            "fresh": rng.random() < 0.5,
            "members": list(map(list, self.members.items())),
            "leader": self.leader,
            "reached": [name for name in everybody if rng.random() < reached],
        }
        answer = self.cluster.play(row)
        self.time_passes(answer[self.leader]["delay_ms"])
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            self.event()
        return row

    def time_passes(self, delay_ms: int) -> None:
        steps = (0, 1, 500, delay_ms // 2, delay_ms, delay_ms, delay_ms + 1, 2 * delay_ms)
        self.now_ms += self.rng.choice(steps)

    def event(self) -> None:
        rng, name = self.rng, f"c{self.rng.randrange(8)}"
        match rng.randrange(7):
            case 0 | 1 if len(self.members) > 1:
                self.gone.append(rng.choice(list(self.members)))
                del self.members[self.gone[-1]]
            case 2 | 3:
                self.join(self.new_worker())
            case 4 if self.gone:  # frozen, not dead: it still runs what it had
                self.join(self.gone.pop(rng.randrange(len(self.gone))))
            case 5:
                self.configure({**self.config, name: rng.randrange(8)})
            case 6:
                self.configure({other: count for other, count in self.config.items() if other != name})
            case _:
                pass

    def configure(self, config: dict[str, int]) -> None:
        self.older = {"config": self.config, "offset": self.offset}
        self.config = config
        self.offset += 3
