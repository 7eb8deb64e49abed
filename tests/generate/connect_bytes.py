"""The bytes of Connect's members: what Kafka's own workers write, live and recorded, and what ours come to.

`python -m tests.generate.connect_bytes` records what the plain tests read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    decode_payload,
    encode_payload,
)
from agent.simulation.generator.images import PAYLOAD_VERSIONS, encode_assignment, encode_worker_state
from tests import ROOT
from tests.generate.kafka_connect.asking import told_by_kafka
from tests.generate.kafka_connect.stories import Cluster, make_story

RECORDED = ROOT / "tests" / "data" / "connect" / "payloads-4.3.1.ndjson"
RECORDED_STORIES = 8


class Both(NamedTuple):
    """A worker's state or assignment as Kafka's worker writes it, and as ours comes out."""

    protocol: str
    kind: str
    theirs: bytes
    ours: bytes


def both(seeds: range) -> Iterator[Both]:
    """Every member's bytes in every round of the stories of these seeds."""
    stories = [make_story(seed) for seed in seeds]
    for story, answers in zip(stories, told_by_kafka(stories), strict=True):
        cluster = Cluster(story)
        for row, answer in zip(story["rounds"], answers, strict=True):
            cluster.play(row)
            protocol, version = row["protocol"], PAYLOAD_VERSIONS[row["protocol"]]
            for name, (state, given) in cluster.payloads.items():
                told = {kind: bytes.fromhex(answer[name][f"{kind}_bytes"]) for kind in ("state", "assignment")}
                yield Both(protocol, "state", told["state"], encode_worker_state(state, version))
                yield Both(protocol, "assignment", told["assignment"], encode_assignment(given, version))


def in_order(it: Both) -> tuple[bytes, bytes]:
    """Theirs and ours with what is revoked in order: it is a set."""
    if it.kind == "assignment":
        return _in_order(it.theirs), _in_order(it.ours)
    return _state_in_order(it.theirs), _state_in_order(it.ours)


def _state_in_order(data: bytes) -> bytes:
    version, state = decode_payload(ConnectWorkerState, data)
    held = None if state.allocation is None else _in_order(state.allocation)
    return encode_payload(replace(state, allocation=held), version)


def _in_order(data: bytes) -> bytes:
    version, given = decode_payload(ConnectAssignment, data)
    revoked = (
        None if given.revoked is None else tuple(sorted(map(_sorted, given.revoked), key=lambda it: it.connector))
    )
    return encode_payload(replace(given, revoked=revoked), version)


def _sorted(it: ConnectorTasks) -> ConnectorTasks:
    return replace(it, tasks=tuple(sorted(it.tasks)))


def record() -> None:
    """Write the file that the plain tests read: each of Kafka's payloads once."""
    rows: dict[str, None] = {}
    for it in both(range(RECORDED_STORIES)):
        row: dict[str, Any] = {"protocol": it.protocol, "kind": it.kind, "hex": it.theirs.hex()}
        rows[json.dumps(row, separators=(",", ":"))] = None
    RECORDED.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    record()
