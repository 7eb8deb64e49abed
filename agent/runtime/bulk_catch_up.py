"""Where much is to be read before the end is reached, it is read in bulk (`agent.kafka.source.bulk`).

Up to the end as of the start, or up to anything out of the ordinary: from there on the ordinary reader goes on, which
knows what to do with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import KafkaError

from agent.core.record_time import FOLLOWERS
from agent.core.records import RecordBatch
from agent.kafka.source.bulk import BulkReader, BulkUnavailable
from agent.kafka.source.topic import TopicReader

log = logging.getLogger("kshadow")

MIN_RECORDS = 200_000
"""For fewer one client more takes as long as it saves."""

TAKE_S, SILENT_S, MEANWHILE_S = 0.1, 3.0, 0.25
"""How long a run is waited for; after how long without one no more are; how often other things are done."""


class Taker(Protocol):
    """Who gets the records."""

    def take(self, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        """The next of their partition, with the times of those that follow, `FOLLOWERS` unless there are no more;
        whether to go on with it."""

    def next_offset(self, partition: int) -> int:
        """The offset behind the last record that was applied; 0 where none was."""

    def let_go(self, partition: int) -> None:
        """What was read of it and not yet applied comes again."""

    @property
    def wants_no_more(self) -> bool:
        """Whether to read no more of any partition."""


def read_in_bulk(
    reader: TopicReader, conf: Mapping[str, str], taker: Taker, meanwhile: Callable[[], None] = lambda: None
) -> bool:
    """Read what the reader, which is connected, has not read of what was there as it began, if that is much. Whether
    it is worth trying again later: brokers, or the topic, went away meanwhile. `meanwhile` is called now and then."""
    left = {it: bounds for it, bounds in reader.unread.items() if bounds.first < bounds.end}
    if sum(bounds.end - bounds.first for bounds in left.values()) < MIN_RECORDS:
        return False
    try:
        starts = {it: taker.next_offset(it) or bounds.first for it, bounds in left.items()}
        with BulkReader(conf, reader.topic, starts) as bulk:
            reader.leave(left)
            for number in left:
                taker.let_go(number)
                _tell(reader, taker, number)
            is_whole = _read(reader, bulk, {it: bounds.end for it, bounds in left.items()}, taker, meanwhile)
            if not taker.wants_no_more:
                # Before brokers are asked for what follows, which all else that they are asked waits for.
                meanwhile()
    except BulkUnavailable as reason:
        log.info("the topic is not read in bulk: %s", reason)
        return False
    finally:
        reader.take_back(left)
    return not is_whole


def _read(
    reader: TopicReader, bulk: BulkReader, ends: dict[int, int], taker: Taker, meanwhile: Callable[[], None]
) -> bool:
    """Whether all partitions ended, or no more is wanted."""
    log_id = reader.log_id
    heard_s = looked_s = time.monotonic()
    while ends and not bulk.is_over and not taker.wants_no_more:
        packed, now_s = bulk.take(TAKE_S), time.monotonic()
        if now_s - looked_s >= MEANWHILE_S:
            looked_s = now_s
            meanwhile()
            if reader.log_id != log_id:
                # What another log holds is not to be applied, and the reader begins with it by itself.
                return False
        if packed is None or packed.run.partition not in ends:
            # What the client says of no partition counts for no more than nothing.
            if now_s - heard_s >= SILENT_S:
                return False
            continue
        number = packed.run.partition
        is_at_end = packed.run.error == KafkaError._PARTITION_EOF
        is_last = is_at_end or (len(packed) > 0 and packed.offset(len(packed) - 1) + 1 >= ends[number])
        # What follows the last ones that come before an error is not known yet: the reader reads them again.
        count = len(packed) if is_last else len(packed) - FOLLOWERS
        goes_on = True
        if count > 0:
            next_ms = packed.timestamps_ms(count, len(packed))
            goes_on = taker.take(RecordBatch.of_packed(packed, count), next_ms)
            _tell(reader, taker, number)
        if is_at_end and goes_on:
            reader.read_elsewhere(number, packed.run.error_offset)
        if is_last or packed.run.error or not goes_on:
            del ends[number]
        heard_s = time.monotonic()
    return not ends or taker.wants_no_more


def _tell(reader: TopicReader, taker: Taker, partition: int) -> None:
    if offset := taker.next_offset(partition):
        reader.read_elsewhere(partition, offset)
