"""The topic read once, from its beginning to where it ends now: for a command that asks and is done."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from agent.core.records import RecordBatch
from agent.kafka.source.errors import SourceDenied, SourceUnreachable
from agent.kafka.source.topic import TopicReader


def read_to_end(
    conf: Mapping[str, str],
    *,
    topic: str = "__consumer_offsets",
    partitions: Collection[int] | None = None,
    timeout_s: float = 30.0,
) -> Iterator[RecordBatch]:
    """All runs of the topic up to where it ends at the start, perhaps a few records more.

    For a command that asks once: raises `SourceDenied` at once, `SourceUnreachable` when nothing came for
    `timeout_s`, `SourceMisconfigured`.
    """
    with TopicReader(conf, topic=topic, partitions=partitions) as reader:
        reader.connect(min(timeout_s, 10.0))
        deadline = time.monotonic() + timeout_s
        while not reader.caught_up:
            runs = reader.poll(min(1.0, timeout_s))
            if runs:
                deadline = time.monotonic() + timeout_s
                yield from runs
                continue
            error = reader.last_error
            if isinstance(error, SourceDenied):
                raise error
            if time.monotonic() >= deadline:
                raise error or SourceUnreachable(f"{topic}: expected records or its end, none for {timeout_s} s")
