"""Commits written into the offsets topic at a steady rate, by a process of its own, with a sentinel among them.

`python -m tests.harness.bench.writing BOOTSTRAP RATE SECONDS GROUPS FIRST TICKS SHAPE`: see `Writer`.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from agent.core.protocol.hashing import partition_for_group
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from tests.harness.bench import load
from tests.harness.bench.tools import SENTINEL, SENTINEL_TOPIC
from tests.waiting import until

TICK_S = 0.02
"""After each so many seconds' commits comes one of the sentinel."""


@dataclass
class Writer:
    """A process that writes `rate` commits a second, and what it tells of them.

    The sentinel's commits are numbered through all writers of one broker, since a tool may count them in the log.
    """

    process: subprocess.Popen[bytes]
    ticks: Path
    first: int
    rate: float = 0.0
    """Commits a second, as written in the end."""
    _times: list[float] = field(default_factory=list)

    @property
    def is_at_work(self) -> bool:
        """Whether it still writes."""
        return self.process.poll() is None

    def last(self) -> int:
        """The number of the sentinel's newest commit."""
        return self.first + len(self._read()) - 1

    def age_s(self, seen: int) -> float:
        """How long ago the sentinel's commit of this number was made."""
        now = time.time()  # before the reading, which takes longer and longer
        times = self._read()
        index = seen - self.first
        if index < 0:
            # Of an earlier writer: at least as old as this one's first.
            index = 0
        return now - times[index] if index < len(times) else 0.0

    def _read(self) -> list[float]:
        if self.ticks.exists():
            self._times = [float(line) for line in self.ticks.read_text().splitlines(keepends=True) if "\n" in line]
        return self._times


@contextmanager
def writing(
    servers: str, shape: load.Shape, groups: int, rate: int, seconds: float, directory: Path, first: int = 1
) -> Iterator[Writer]:
    """Write for so many seconds, or until the block ends."""
    ticks, said = directory / f"ticks-{first}", directory / "writing.json"
    arguments = [servers, rate, seconds, groups, first, ticks, json.dumps(dataclasses.asdict(shape))]
    with said.open("wb") as out:
        command = [sys.executable, "-m", "tests.harness.bench.writing", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=out)
    writer = Writer(process, ticks, first)
    try:
        until(lambda: ticks.exists() or process.poll() is not None)
        yield writer
    finally:
        process.terminate()
        process.wait(30)
        if said.stat().st_size:
            writer.rate = json.loads(said.read_text())["rate"]


def write(
    servers: str, rate: int, seconds: float, groups: int, first: int, ticks: Path, shape: load.Shape
) -> dict[str, float]:
    """Write; how many, and how many a second."""
    ids = load.topic_ids(servers, shape)
    slots = cycle([slot for number in range(groups) for slot in load.slots(number, ids, shape)])
    places = groups * shape.positions
    producer = load.producer(servers)
    sentinel_key, sentinel_at = (
        commit_key(SENTINEL, SENTINEL_TOPIC, 0),
        partition_for_group(SENTINEL, load.PARTITIONS),
    )
    each = max(round(rate * TICK_S), 1)
    written, tick = 0, 0
    began = time.monotonic()
    with ticks.open("w") as out:
        while (due := began + tick * TICK_S) < began + seconds:
            time.sleep(max(due - time.monotonic(), 0))
            now = time.time()
            now_ms = int(now * 1000)
            offset = shape.rounds + written // places
            for slot in islice(slots, each):
                value = commit_value(offset, now_ms, leader_epoch=0, topic_id=slot.topic_id)
                producer.produce(load.TOPIC, value, slot.key, slot.partition, timestamp=now_ms)
            value = commit_value(first + tick, now_ms, leader_epoch=0, topic_id=ids[SENTINEL_TOPIC])
            producer.produce(load.TOPIC, value, sentinel_key, sentinel_at, timestamp=now_ms)
            producer.poll(0)
            out.write(f"{now}\n")
            out.flush()
            written += each + 1
            tick += 1
    lasted = time.monotonic() - began
    if producer.flush(60):
        raise RuntimeError("not all commits were written")
    return {"written": written, "rate": written / lasted}


if __name__ == "__main__":
    servers, rate, seconds, groups, first, ticks, shape = sys.argv[1:]
    done = write(
        servers, int(rate), float(seconds), int(groups), int(first), Path(ticks), load.Shape(**json.loads(shape))
    )
    print(json.dumps(done), flush=True)
