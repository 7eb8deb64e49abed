"""A load on the offsets topic in real time: generated groups of every fate, each record as its time comes.

`python -m tests.harness.faults.load BOOTSTRAP SEED GROUPS SECONDS COMMIT_INTERVAL_MS SPARED` prints a line of
JSON at the
end. The topic is to stamp records itself as they are appended (LogAppendTime), which is what a coordinator does: then
none is late because this process was.
"""

from __future__ import annotations

import heapq
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from agent.core.records import RawRecord
from agent.kafka.writer.topic import partition_count
from agent.simulation.generator.histories import generate_by_partition
from agent.simulation.generator.settings import GeneratorSettings

TOPIC = "__consumer_offsets"


def make_topic(servers: str, **more: str) -> int:
    """The topic, stamped by the broker; how many partitions it has."""
    count = partition_count({"bootstrap.servers": servers}, create=True)
    admin = AdminClient({"bootstrap.servers": servers, "client.id": "__admin_client"})
    wanted = {"message.timestamp.type": "LogAppendTime", **more}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    return count


@contextmanager
def load(
    servers: str, *, seed: int, groups: int, seconds: float, commit_interval_ms: int, spared: int = -1
) -> Iterator[subprocess.Popen[str]]:
    """The load, in a process of its own, for so long or until the block ends.

    Nothing is written to the partition that is `spared`: where a real group lives. Its coordinator (4.3) loads a
    partition anew whenever it finds what others wrote, and its members would never get through a rebalance.
    """
    arguments = [servers, seed, groups, seconds, commit_interval_ms, spared]
    command = [sys.executable, "-m", "tests.harness.faults.load", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)


def records(settings: GeneratorSettings) -> Iterator[RawRecord]:
    """All partitions' records by time."""
    return heapq.merge(*generate_by_partition(settings), key=lambda record: record.timestamp_ms)


def write(servers: str, settings: GeneratorSettings, spared: int) -> dict[str, float]:
    """Write until all is written; how many, and by how much the latest was late."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "client.id": "__admin_client",
            "linger.ms": "5",
            # As in `agent.kafka.writer.topic`: idempotent it may not be, and what is sent again must not overtake.
            "enable.idempotence": "false",
            "max.in.flight.requests.per.connection": "1",
            "acks": "all",
            "queue.buffering.max.messages": "1000000",
            "message.timeout.ms": "600000",
            "log_level": "2",
        }
    )
    written, latest_s = 0, 0.0
    for record in records(settings):
        if record.partition == spared:
            continue
        wait_s = record.timestamp_ms / 1000 - time.time()
        if wait_s > 0.01:
            producer.poll(0)
            time.sleep(wait_s)
        latest_s = max(latest_s, -wait_s)
        while True:
            try:
                producer.produce(TOPIC, record.value, record.key, record.partition)
                break
            except BufferError:
                producer.poll(0.05)
        written += 1
        if not written % 1000:
            producer.poll(0)
    left = producer.flush(300)
    return {"written": written - left, "left": left, "latest_s": round(latest_s, 3)}


if __name__ == "__main__":
    servers, seed, groups, seconds, interval_ms, spared = sys.argv[1:]
    settings = GeneratorSettings(
        # The groups are played first.
        int((time.time() + 2 + int(groups) / 100) * 1000),
        groups=int(groups),
        duration_ms=int(float(seconds) * 1000),
        commit_interval_ms=int(interval_ms),
        seed=int(seed),
        offsets_partitions=make_topic(servers),
    )
    print(json.dumps(write(servers, settings, int(spared))), flush=True)
