"""How many events a second go to each sink: `python -m tests.harness.bench.export [COUNT]`.

The events of the capture over and over, put in batches of 50 as fast as they can be; the time until all are written,
the processor's time of this process, and the longest that one put took.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from agent.core.events.events import Event
from agent.persistence.export.parquet_sink import ParquetSink
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import Sink
from agent.persistence.export.topic_sink import TopicSink
from agent.runtime.offline import load
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from analyzers.registry import select_analyzers
from tests.unit.persistence.export.made import SEGMENTS

AT_ONCE = 50


def measure(name: str, sink: Sink, events: list[Event], count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kshadow-bench-") as state:
        exports = ExportPipeline([sink], spool=SpoolSettings(Path(state), "c"))
        exports.start()
        slowest_s = 0.0
        began, cpu = time.monotonic(), time.process_time()
        for first in range(0, count, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            batch = [{**events[number % len(events)], "event_id": f"1-{number}-0"} for number in numbers]
            at = time.monotonic()
            exports.put(batch)
            slowest_s = max(slowest_s, time.monotonic() - at)
        put_s = time.monotonic() - began
        through_disk = exports.readings()[0].spool_bytes
        exports.stop(600)
        all_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
        assert exports.readings()[0].events == count
        print(
            f"{name:8} put {count / put_s:8,.0f}/s, written {count / all_s:8,.0f}/s, {1e6 * cpu_s / count:4.0f} µs of"
            f" processor each, slowest put {1000 * slowest_s:.0f} ms, then in the spool {through_disk >> 20} MiB"
        )


def main(count: int) -> None:
    events = load([str(SEGMENTS)], cluster="c", on_problem=print, chosen=select_analyzers()).events()
    with tempfile.TemporaryDirectory(prefix="kshadow-bench-") as files:
        measure("parquet", ParquetSink(files), events, count)
    with EmbeddedBroker(fetch_jars()) as broker:
        measure("topic", TopicSink({"bootstrap.servers": broker.bootstrap_servers}, "history"), events, count)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
