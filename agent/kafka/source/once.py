"""The topic read once, from its beginning to where it ends now: for a command that asks and is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping

from agent.core.records import RecordBatch
from agent.kafka.source.errors import SourceDenied, SourceUnreachable
from agent.kafka.source.quarantine import PassedOver
from agent.kafka.source.topic import TopicReader


def read_to_end(
    conf: Mapping[str, str],
    *,
    topic: str = "__consumer_offsets",
    partitions: Collection[int] | None = None,
    timeout_s: float = 30.0,
    on_passed_over: Callable[[PassedOver], None] | None = None,
    on_end: Callable[[TopicReader], None] | None = None,
) -> Iterator[RecordBatch]:
    """All runs of the topic up to where it ends at the start, perhaps a few records more.

    For a command that asks once: raises `SourceDenied` at once, `SourceUnreachable` where a partition that has more
    to come gives nothing for `timeout_s`, `SourceMisconfigured`. `on_passed_over` is told of what cannot be read,
    and `on_end` may ask the reader what is held back at the end.
    """
    with TopicReader(conf, topic=topic, partitions=partitions) as reader:
        reader.connect(min(timeout_s, 10.0))
        deadline, missing = time.monotonic() + timeout_s, _missing(reader)
        while not reader.caught_up:
            runs = reader.poll(min(1.0, timeout_s))
            yield from runs
            for notice in reader.take_notices():
                if isinstance(notice, PassedOver) and on_passed_over is not None:
                    on_passed_over(notice)
            # What comes of partitions that were at their end does not help.
            if missing != (missing := _missing(reader)):
                deadline = time.monotonic() + timeout_s
                continue
            error = reader.last_error
            if isinstance(error, SourceDenied):
                raise error
            if time.monotonic() >= deadline:
                raise error or SourceUnreachable(f"{topic}: expected records or its end, none for {timeout_s} s")
        if on_end is not None:
            on_end(reader)


def _missing(reader: TopicReader) -> dict[int, int]:
    """Where the partitions are that have yet to reach their ends."""
    reached = reader.caught_up_partitions
    return {partition: position for partition, position in reader.positions.items() if not reached.get(partition)}
