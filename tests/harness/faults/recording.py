"""Every record of the topic, taken down as it is written: what an agent reads that sees no fault."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, TopicPartition

from agent.core.records import LogId, RecordBatch
from agent.kafka.source.progress import OffsetReset, TopicRecreated
from agent.kafka.source.topic import TopicReader
from tests.live.scenarios.faults import TOPIC
from tests.waiting import until

Log = tuple[LogId, list[RecordBatch]]


class Recording(threading.Thread):
    """Reads along. It is to be level whenever something of the log is taken away: `wait_level`."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="recording", daemon=True)
        self._reader = TopicReader({"bootstrap.servers": servers})
        self._ending = threading.Event()
        self._servers = servers
        self._taken: dict[int, int] = {}
        self.missed: list[str] = []
        self.logs: list[Log] = []
        """One, and one more each time that the topic was made anew."""

    def run(self) -> None:
        self._reader.connect(30)
        assert self._reader.log_id is not None
        self.logs.append((self._reader.log_id, []))
        while not self._ending.is_set():
            runs = self._reader.poll(0.2)
            self.logs[-1][1].extend(runs)
            for notice in self._reader.take_notices():
                if isinstance(notice, TopicRecreated):
                    self.logs.append((notice.after, []))
                elif isinstance(notice, OffsetReset) and notice.offset:
                    self.missed.append(str(notice))
            self._taken = self._reader.positions
        self._reader.close()

    def wait_level(self, timeout_s: float = 60.0) -> None:
        """Until all that was written before is taken down."""
        asking = Consumer({"bootstrap.servers": self._servers, "group.id": "recording", "log_level": 0})
        try:
            count = len(asking.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions)
            ends = {it: asking.get_watermark_offsets(TopicPartition(TOPIC, it), 10)[1] for it in range(count)}
        finally:
            asking.close()
        until(lambda: all(self._taken.get(it, 0) >= at for it, at in ends.items()), timeout_s)

    def finish(self) -> list[Log]:
        """All that was written. Raises `AssertionError` where it missed something."""
        self.wait_level()
        self._ending.set()
        self.join(30)
        assert not self.missed, self.missed
        return self.logs


@contextmanager
def recording(servers: str) -> Iterator[Recording]:
    """One that reads while the block lasts."""
    it = Recording(servers)
    it.start()
    try:
        yield it
    finally:
        it._ending.set()
        it.join(30)
