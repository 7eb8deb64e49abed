"""What an agent should have told and should know, by the log itself; and what it did tell, and does know.

The truth is one replay of the whole topic, by the same reducer, in this process, with nothing that breaks. It is
compared to the agent's snapshots (by digest, at the very offset and time of each) and to the history topic (by event
id and content).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from agent.core.events.events import event_of
from agent.core.inference.external_evidence import KnownSessions
from agent.core.records import LogId, RecordBatch
from agent.kafka.admin_api.session_settings import fetch_session_settings
from agent.kafka.source.once import read_to_end
from agent.kafka.source.topic import TopicReader
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.envelope import Header, read_header
from agent.persistence.snapshot.topic_store import TopicStore
from analyzers.registry import select_analyzers
from tests.harness.state_digest import digest

Ids = dict[str, str]
"""Events by id, each as canonical JSON."""


@dataclass
class Verdict:
    """How an agent compares to the truth."""

    name: str
    expected: int = 0
    seen: int = 0
    duplicated: int = 0
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    conflicting: list[str] = field(default_factory=list)
    partitions: int = 0
    different: list[int] = field(default_factory=list)
    """Partitions whose state is not that of the replay."""
    records: int = 0
    said: str = ""
    texts: dict[str, list[str]] = field(default_factory=dict)
    """Every event: as it is expected, where it is, and as it was told in other words."""

    def forgive_unexpected(self, told: Iterable[str]) -> None:
        """Events that are right although the log as it is now does not tell them: it did when they were told."""
        self.unexpected = sorted(set(self.unexpected).difference(told))

    @property
    def is_right(self) -> bool:
        """Whether nothing is lost, nothing invented, nothing told in two ways, and the state is as it should be."""
        return self.expected > 0 and not (self.missing or self.unexpected or self.conflicting or self.different)

    def __str__(self) -> str:
        state = f"state equal in {self.partitions - len(self.different)} of {self.partitions} partitions"
        events = (
            f"events expected {self.expected}, seen {self.seen}, duplicated {self.duplicated}, missing"
            f" {len(self.missing)}, unexpected {len(self.unexpected)}, of other content {len(self.conflicting)}"
        )
        said = f"{self.name}: {self.records:,} records; {events}; {state}{'; ' if self.said else ''}{self.said}"
        return "\n".join([said, *self._what_is_wrong()])

    def _what_is_wrong(self) -> Iterator[str]:
        for what in ("missing", "unexpected", "conflicting", "different"):
            if found := getattr(self, what):
                yield f"      {what}: {len(found)}, of them {found[:20]}"
                yield from (f"        {text}" for it in found[:4] for text in self.texts.get(it, ()))


def canonical(event: Mapping[str, object]) -> str:
    """An event as text that is equal where the event is."""
    return json.dumps(event, sort_keys=True, separators=(",", ":"))


def log_of(servers: str) -> tuple[LogId, list[RecordBatch]]:
    """The whole topic as it is now."""
    log_id, runs = stream_of(servers)
    return log_id, list(runs)


def stream_of(servers: str) -> tuple[LogId, Iterator[RecordBatch]]:
    """The same, read as it is taken."""
    conf = {"bootstrap.servers": servers}
    with TopicReader(conf) as reader:
        reader.connect()
        log_id = reader.log_id
    assert log_id is not None
    return log_id, read_to_end(conf)


def sessions_of(servers: str) -> KnownSessions:
    """What the brokers say of sessions, as agents are told it."""
    return KnownSessions(fetch_session_settings({"bootstrap.servers": servers}))


def replayed(
    servers: str,
    log_id: LogId,
    runs: Iterable[RecordBatch],
    headers: Mapping[int | None, Header],
    cluster: str | None = None,
) -> tuple[ClusterState, Ids, int]:
    """The state, the events and how many records the log comes to, as far in offsets and time as snapshots go."""
    state = ClusterState(select_analyzers(), witness=sessions_of(servers), cluster=cluster, log=log_id)
    outputs, records = [], 0
    for run in runs:
        records += len(run)
        header = headers.get(run.partition)
        if header is None:
            continue
        size = sum(1 for offset in run.offsets if offset < header.next_offset)
        if size:
            outputs += state.replay_batch(run.part(0, size))
    for partition, header in headers.items():
        if partition is not None:
            outputs += state.advance(header.clock_ms, [partition])
    events = {it["event_id"]: canonical(it) for it in (event_of(output, cluster) for output in outputs)}
    return state, events, records


def snapshots(directory: Path) -> dict[int | None, bytes]:
    """An agent's snapshots by partition (None: the cluster's)."""
    out: dict[int | None, bytes] = {}
    for path in directory.rglob("*"):
        if path.is_file() and (path.name.startswith("partition-") or path.name.startswith("cluster")):
            blob = path.read_bytes()
            out[read_header(blob)[0].identity.partition] = blob
    return out


def snapshots_in_topic(servers: str, topic: str, cluster_id: str, partitions: int) -> dict[int | None, bytes]:
    """The same of replicas that keep them in a topic."""
    store = TopicStore({"bootstrap.servers": servers}, topic, cluster_id)
    try:
        blobs = store.load([f"partition-{number}" for number in range(partitions)])
    finally:
        store.close()
    return {read_header(blob)[0].identity.partition: blob for blob in blobs.values() if isinstance(blob, bytes)}


def positions(blobs: Mapping[int | None, bytes]) -> dict[int, int]:
    """How far in each partition snapshots go."""
    headers = {partition: read_header(blob)[0] for partition, blob in blobs.items()}
    return {partition: header.next_offset for partition, header in headers.items() if partition is not None}


def told(events: Iterable[Mapping[str, object]]) -> Ids:
    """Events by id, as they were last told."""
    return {str(event["event_id"]): canonical(event) for event in events}


def all_told(servers: str, log: tuple[LogId, Iterable[RecordBatch]], until_ms: int = 0) -> tuple[Ids, Ids]:
    """What the records of a log say, and what they say with the time that passed until then."""
    log_id, runs = log
    state = ClusterState(select_analyzers(), witness=sessions_of(servers), log=log_id)
    outputs = [output for run in runs for output in state.replay_batch(run)]
    least = told(map(event_of, outputs))
    return least, least | told(map(event_of, state.advance(until_ms)))


def decode_errors(log: tuple[LogId, Iterable[RecordBatch]]) -> int:
    """How many records of a log cannot be decoded."""
    log_id, runs = log
    state = ClusterState(log=log_id)
    for run in runs:
        state.replay_batch(run)
    return state.mirror.error_counts().total()


def history(servers: str, topic: str, timeout_s: float = 60.0) -> list[dict[str, object]]:
    """Every event of a history topic, as often as it is there."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "truth", "enable.partition.eof": True, "log_level": 0}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        out: list[dict[str, object]] = []
        at_end: set[int] = set()
        deadline = time.monotonic() + timeout_s
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, f"{topic}: {len(out)} events, then no end"
            for message in consumer.consume(10_000, 0.5):
                if message.error() is not None:
                    at_end.add(message.partition())
                else:
                    out.append(json.loads(message.value()))
        return out
    finally:
        consumer.close()


def judge(
    name: str,
    servers: str,
    blobs: Mapping[int | None, bytes],
    told: Iterable[Mapping[str, object]],
    *,
    log: tuple[LogId, Iterable[RecordBatch]] | None = None,
    cluster: str | None = None,
) -> Verdict:
    """Compare what an agent keeps and has told to what the log says."""
    log_id, runs = log or log_of(servers)
    headers = {partition: read_header(blob)[0] for partition, blob in blobs.items()}
    state, expected, records = replayed(servers, log_id, runs, headers, cluster)
    verdict = Verdict(name, expected=len(expected), records=records)
    seen: dict[str, set[str]] = {}
    count = 0
    for event in told:
        seen.setdefault(str(event["event_id"]), set()).add(canonical(event))
        count += 1
    verdict.seen, verdict.duplicated = len(seen), count - len(seen)
    verdict.texts = {it: [text] for it, text in expected.items()}
    for event_id, texts in seen.items():
        verdict.texts.setdefault(event_id, []).extend(sorted(texts - {expected.get(event_id)}))
    verdict.missing = sorted(expected.keys() - seen.keys())
    verdict.unexpected = sorted(seen.keys() - expected.keys())
    verdict.conflicting = sorted(
        it for it, texts in seen.items() if len(texts) > 1 or (it in expected and expected[it] not in texts)
    )
    kept = ClusterState(select_analyzers(), cluster=cluster, log=log_id)
    for partition, blob in blobs.items():
        if partition is None:
            continue
        kept.restore(partition, blob)
        verdict.partitions += 1
        if partition not in state.partitions or digest(kept, partition) != digest(state, partition):
            verdict.different.append(partition)
    return verdict
