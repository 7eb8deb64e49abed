"""Snapshots as records of a compacted topic: for agents without a disk, and for those that take over from others.

Under the key `<cluster id>/<name>` stands a head. A snapshot of up to `CHUNK_BYTES` is in it; of a larger one it
says where its chunks are: under `<cluster id>/<name>/<0 or 1>/<number>`. The chunks of the next are written beside
those of the one that is there, then the head, and only then are the old ones deleted; so whoever reads finds the old
one or the new one, whole, and compaction leaves nothing else.

`partition-7` stands in partition 7 modulo the topic's number of partitions, so that whoever takes over one partition
of `__consumer_offsets` reads a part of the topic.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from agent.persistence.snapshot.compacted_topic import CompactedTopic
from agent.persistence.snapshot.store import StoreError, StoreErrorReason, checked_name

CHUNK_BYTES = 900_000
"""Bytes of a record's value: brokers take 1 MiB with all around it unless told otherwise."""

STORE_TIMEOUT_S = 60.0


class Head(Struct, array_like=True, frozen=True):
    """What stands under a snapshot's key: itself, or in how many chunks of which generation it is."""

    size: int
    digest: bytes
    blob: bytes | None
    generation: int = 0
    chunks: int = 0


_HEAD = msgspec.msgpack.Decoder(Head)
_CHUNK = re.compile(r"[01]/\d{1,6}")
_MOST_CHUNKS = 10_000


class _Standing(Struct):
    """What stands in the topic under one name: chunks (`<generation>/<number>`), and which generation of them must
    not be written over (None: none is in use)."""

    chunks: set[str] = field(default_factory=set)
    generation: int | None = None


class TopicStore:
    """A `SnapshotStore` in a topic. Of each name one process may write at a time."""

    def __init__(
        self,
        conf: Mapping[str, str],
        topic: str,
        cluster_id: str,
        *,
        create: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
        timeout_s: float = STORE_TIMEOUT_S,
    ) -> None:
        """`conf` are properties of librdkafka, `bootstrap.servers` at least. `cluster_id`: of the cluster that the
        snapshots are of. `create` makes the topic if it is not there. Raises `StoreError`."""
        self._prefix, self._chunk_bytes, self._timeout_s = f"{cluster_id}/", chunk_bytes, timeout_s
        self._standing: dict[str, _Standing] = {}
        self._topic = CompactedTopic(conf, topic, create=create, timeout_s=timeout_s)
        self._torn = StoreError(
            StoreErrorReason.BROKEN,
            f"topic {topic}: expected all records of one snapshot, some are missing or of another",
        )

    def load(self, names: Iterable[str]) -> dict[str, bytes | StoreError]:
        """The newest of each of these, or why there is none that is whole: reads the partitions that they are in, to
        their ends."""
        left = {checked_name(name) for name in names}
        deadline = time.monotonic() + self._timeout_s
        out: dict[str, bytes | StoreError] = {}
        before: dict[str, dict[str, bytes]] = {}
        while left:
            records = self._read(left, deadline)
            torn = [name for name in left if not _put_together(name, records[name], out)]
            # Chunks may have been compacted away while they were read, after a newer snapshot: then that is there
            # by now. What is torn twice stays so: of two who write under one name, or records were deleted.
            left = {name for name in torn if records[name] != before.get(name)}
            out |= dict.fromkeys(set(torn) - left, self._torn)
            before = records
            if left:
                time.sleep(0.2)
        return out

    def save(self, name: str, blob: bytes) -> None:
        """Write a snapshot in place of the one that is there; returns when all replicas in sync have it."""
        standing = self._standing_of(name)
        digest = blake2b(blob, digest_size=16).digest()
        chunks: dict[str, bytes | None] = {}
        if len(blob) <= self._chunk_bytes:
            head = Head(len(blob), digest, blob)
        else:
            generation = 0 if standing.generation is None else 1 - standing.generation
            starts = range(0, len(blob), self._chunk_bytes)
            chunks = {f"{generation}/{at // self._chunk_bytes}": blob[at : at + self._chunk_bytes] for at in starts}
            head = Head(len(blob), digest, None, generation, len(chunks))
        standing.chunks |= chunks.keys()
        self._write(name, chunks)
        # Where that fails it may be there all the same: then what stands there is read before the next is written.
        del self._standing[name]
        self._write(name, {"": msgspec.msgpack.encode(head)})
        self._standing[name] = standing
        standing.generation = head.generation if chunks else None
        self._write(name, dict.fromkeys(standing.chunks - chunks.keys()))
        standing.chunks &= chunks.keys()

    def missing(self, names: Iterable[str]) -> list[str]:
        """None: a topic that was deleted takes nothing at first, which says that all may be gone."""
        return []

    def delete(self, name: str) -> None:
        """Delete a snapshot, its head first."""
        standing = self._standing_of(name)
        self._write(name, {"": None})
        self._write(name, dict.fromkeys(standing.chunks))
        self._standing[name] = _Standing()

    def close(self) -> None:
        """Let go of the connections."""
        self._topic.close()

    def _standing_of(self, name: str) -> _Standing:
        if checked_name(name) not in self._standing:
            self.load([name])
        return self._standing[name]

    def _partition(self, name: str) -> int:
        number = re.search(r"(\d+)$", name)
        return int(number[1][-9:]) % self._topic.partitions if number else 0

    def _read(self, names: set[str], deadline: float) -> dict[str, dict[str, bytes]]:
        """What stands under the keys of these names, by name and rest of the key (the head's is empty)."""
        out: dict[str, dict[str, bytes]] = {name: {} for name in names}
        for partition, key, value in self._topic.read({self._partition(name) for name in names}, deadline):
            name, _, rest = key.removeprefix(self._prefix).partition("/")
            if not key.startswith(self._prefix) or name not in names or partition != self._partition(name):
                continue
            if value is not None:
                out[name][rest] = value
            else:
                out[name].pop(rest, None)
        for name, records in out.items():
            head = _head(records)
            generation = None if head is None or head.blob is not None else head.generation
            self._standing[name] = _Standing({rest for rest in records if _CHUNK.fullmatch(rest)}, generation)
        return out

    def _write(self, name: str, records: Mapping[str, bytes | None]) -> None:
        """Write records by the rest of their keys."""
        keys = {self._prefix + (f"{name}/{rest}" if rest else name): value for rest, value in records.items()}
        self._topic.write(self._partition(name), keys, f"writing {name}")


def _head(records: Mapping[str, bytes]) -> Head | None:
    try:
        head = _HEAD.decode(records.get("", b""))
    except (msgspec.MsgspecError, ValueError):
        return None
    return head if 0 <= head.chunks <= _MOST_CHUNKS and head.generation in (0, 1) else None


def _put_together(name: str, records: Mapping[str, bytes], out: dict[str, bytes | StoreError]) -> bool:
    """Add a snapshot that is there whole; False if there is one that is not."""
    if "" not in records:
        return True
    head = _head(records)
    if head is None:
        return False
    blob = head.blob
    if blob is None:
        keys = [f"{head.generation}/{number}" for number in range(head.chunks)]
        blob = b"".join(records.get(key, b"") for key in keys)
    if len(blob) != head.size or blake2b(blob, digest_size=16).digest() != head.digest:
        return False
    out[name] = blob
    return True
