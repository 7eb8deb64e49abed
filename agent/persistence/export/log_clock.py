"""Up to when time is known to have passed in a cluster's log, beside its history.

Events say nothing of the quiet after the last of them: whoever sums history up must know for how long nothing
happened. So each writer of history keeps a small file, `<history>/_clock/<name>.json`, which readers of Parquet pass
over. It is written after the events: all of them up to that time are there.

A writer that reads all partitions knows the time of all. Of shards each knows its own partitions: the time of all is
known where every shard of a set has told, up to the least of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from msgspec import Struct

DIRECTORY = "_clock"


class LogClock(Struct, frozen=True):
    """What a writer knows: up to `clock_ms` (epoch milliseconds) all events are there. `shard` is which of how many
    it is; None: it reads all partitions that matter to its history."""

    writer: str
    cluster: str | None
    clock_ms: int
    shard: tuple[int, int] | None = None

    @property
    def file_name(self) -> str:
        """The file below the history, of this writer alone: what it wrote before is replaced."""
        whose = blake2b(repr((self.cluster, self.shard)).encode(), digest_size=6).hexdigest()
        return f"{DIRECTORY}/{self.writer}-{whose}.json"

    def encode(self) -> bytes:
        """What the file holds."""
        return msgspec.json.encode(self)


decode_clock = msgspec.json.Decoder(LogClock).decode
"""What a file holds. Raises `msgspec.MsgspecError` for what is none."""


def known_until(clocks: Iterable[LogClock]) -> dict[str | None, int]:
    """By cluster: up to when time is known to have passed."""
    out: dict[str | None, int] = {}
    shards: dict[tuple[str | None, int], dict[int, int]] = defaultdict(dict)
    for it in clocks:
        if it.shard is None:
            out[it.cluster] = max(out.get(it.cluster, 0), it.clock_ms)
        else:
            index, count = it.shard
            known = shards[it.cluster, count]
            known[index] = max(known.get(index, 0), it.clock_ms)
    for (cluster, count), known in shards.items():
        if len(known) == count:
            out[cluster] = max(out.get(cluster, 0), min(known.values()))
    return out
