"""A streaming rollup that is killed again and again over a growing topic: `python -m tests.harness.spark.killed
--kills 20`.

A real broker, the installed command, SIGKILL for all of the job's processes at random moments. The topic gets the
events of a generated history out of order, many twice, while the job runs and while it does not. In the end some come
that are too late, some of them never told before. The rollups must be those of `kshadow history rollup` over the
same events less those, row by row; and every event that came too late must have been set aside, each as often as it
came.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow.dataset as ds
from confluent_kafka import Producer

from agent.core.events.events import Event
from agent.persistence.export.encoded_event import EncodedEvent, encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.spark.bench import KSHADOW
from tests.live.spark_jobs.histories import replayed
from tests.live.spark_jobs.tables import rows_of

TOPIC = "kshadow-history"
WATERMARK_S = 600
JITTER_MS = 300_000
"""How far out of order events come: less than the watermark."""


class Outcome(NamedTuple):
    kills: int
    events: int
    twice: int
    late: int
    rows: int
    missing: int
    unexpected: int
    set_aside: int
    """Of those that came late."""
    otherwise: int
    """Set aside, or not, against expectation: five records are no events, or of no time that can be believed."""

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.unexpected or self.otherwise) and self.set_aside == self.late


class Job:
    """The stream, started as often as it is killed."""

    def __init__(self, servers: str, directory: Path, cores: int, batch: int) -> None:
        self.log = directory / "stream.log"
        self._command = [KSHADOW, "spark", "stream", "--reads", "history-topic", "--history-topic", TOPIC]
        self._command += ["--bootstrap-server", servers, "--master", f"local[{cores}]", "--max-records", str(batch)]
        self._command += ["--out", str(directory / "stream"), "--checkpoint", str(directory / "checkpoint")]
        self._command += ["--watermark", f"{WATERMARK_S}s", "--trigger", "200ms"]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self.process is not None
        for pid in (self.process.pid, *below(self.process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def await_read(self, records: int) -> None:
        """Until so many are read, and what came of them is written."""
        assert self.process is not None
        deadline = time.monotonic() + 300
        while records_read(self.log.parent) < records:
            running = self.process.poll() is None and time.monotonic() < deadline
            assert running, self.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0, self.log.read_text(errors="replace")[-3000:]


def below(root: int) -> list[int]:
    """Every process that a process started, and they in turn."""
    parents: dict[int, list[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                stat = (directory / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(directory.name))
    out, waiting = [], [root]
    while waiting:
        found = parents.get(waiting.pop(), [])
        out += found
        waiting += found
    return out


def play(
    directory: Path,
    *,
    kills: int,
    seed: int,
    cores: int = 2,
    groups: int = 120,
    longest_s: float = 40,
    batch: int = 400,
    say: Callable[[str], None] = print,
) -> Outcome:
    """All of it, below an empty directory; `batch` is the most records of one."""
    dice = random.Random(seed)
    lines = history(directory, seed, groups)
    dice.shuffle(lines)
    withheld, told = lines[:50], lines[50:]
    told.sort(key=lambda line: line.at_ms + dice.uniform(0, JITTER_MS))
    twice = dice.sample(range(len(told)), len(told) // 5)
    places = [*enumerate(told), *((index + 0.5, told[index]) for index in twice)]
    feed = [line for _, line in sorted(places, key=lambda it: it[0])]
    for line in odd():
        feed.insert(dice.randrange(1, len(feed)), line)
    with EmbeddedBroker(fetch_jars()) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        put(producer, feed[:1])
        job = Job(broker.bootstrap_servers, directory, cores, batch)
        with feeding(producer, feed[1:], kills * longest_s) as fed:
            for number in range(1, kills + 1):
                before, began = last_batch(directory), time.monotonic()
                job.start()
                if number % 2:
                    # Every other time not before a batch is done: a slow machine would see none but beginnings.
                    while last_batch(directory) == before and time.monotonic() - began < 120:
                        time.sleep(0.05)
                    time.sleep(dice.uniform(0, 8))
                else:
                    time.sleep(dice.uniform(3, longest_s))
                job.kill()
                moment_s = time.monotonic() - began
                done = f"{len(fed)} events written, batches {before + 1} to {last_batch(directory)} done"
                say(f"kill {number} after {moment_s:.1f} s: {done}")
        end = encode_event(sentinel(), 0)
        put(producer, [end])
        job.start()
        job.await_read(len(feed) + 1)
        # The watermark stands ten minutes before now: all of this is too late, and some of it was told already.
        late = [*withheld, *dice.sample(told, 50)]
        put(producer, late)
        job.await_read(len(feed) + 1 + len(late))
        job.stop()
    sink = ParquetSink(str(directory / "events"))
    sink.write([*told, end])
    roll = [KSHADOW, "history", "rollup", "--history", str(directory / "events"), "--out", str(directory / "rollups")]
    subprocess.run(roll, check=True, stderr=subprocess.DEVNULL)
    return compare(directory, end.at_ms - WATERMARK_S * 1000, kills, len(told), len(twice), late)


def last_batch(directory: Path) -> int:
    """The number of the last batch that is done; -1 before the first."""
    return max((int(it.name) for it in (directory / "checkpoint" / "commits").glob("[0-9]*")), default=-1)


def records_read(directory: Path) -> int:
    """How many records the batches have read that are done."""
    if (batch := last_batch(directory)) < 0:
        return 0
    offsets = json.loads((directory / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[-1])
    return sum(offsets[TOPIC].values())


def compare(
    directory: Path, watermark_ms: int, kills: int, told: int, twice: int, late: Sequence[EncodedEvent]
) -> Outcome:
    batch, stream = rows_of(directory / "rollups", watermark_ms), rows_of(directory / "stream")
    missing = sum((Counter(batch[name]) - stream[name]).total() for name in batch)
    unexpected = sum((Counter(stream[name]) - batch[name]).total() for name in batch)
    aside = ds.dataset(directory / "stream" / "set_aside", format="parquet").to_table(["reason", "body"]).to_pylist()
    found = Counter(row["body"].encode() for row in aside if row["reason"] == "late")
    right = (found & Counter(line.body for line in late)).total()
    others = Counter((row["reason"], row["body"].encode()) for row in aside) - Counter(
        ("late", it.body) for it in late
    )
    expected = Counter((line.type, line.body) for line in odd())
    rows = sum(it.total() for it in batch.values())
    wrong = ((others - expected) + (expected - others)).total()
    return Outcome(kills, told, twice, len(late), rows, missing, unexpected, right, wrong)


def odd() -> list[EncodedEvent]:
    """What is no event, or has no time that could be believed; its `type` here is why it must be set aside."""
    tomorrow = encode_event({**sentinel(), "event_id": "tomorrow", "at_ms": 4_102_444_800_000}, 0)
    long_ago = encode_event({**sentinel(), "event_id": "long ago", "at_ms": -1}, 0)
    return [
        *(
            EncodedEvent(None, "no_event", 1, 0, 0, body)
            for body in (b"{", b"[]", b'{"event_id": "x", "type": 3, "at_ms": 7}')
        ),
        *(line._replace(type="no_time") for line in (tomorrow, long_ago)),
    ]


@contextmanager
def feeding(producer: Producer, lines: Sequence[EncodedEvent], seconds: float) -> Iterator[list[EncodedEvent]]:
    """Write events one after the other, over so long or until the block ends; then all that are left."""
    fed: list[EncodedEvent] = []
    ended = threading.Event()

    def feed() -> None:
        for line in lines:
            put(producer, [line])
            fed.append(line)
            ended.wait(seconds / len(lines))

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield fed
    finally:
        ended.set()
        feeder.join()


def put(producer: Producer, lines: Sequence[EncodedEvent]) -> None:
    for line in lines:
        producer.produce(TOPIC, line.body, line.key)
    assert producer.flush(30) == 0


def history(directory: Path, seed: int, groups: int) -> list[EncodedEvent]:
    """The events of two days that ended the day before yesterday."""
    start = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 4 * 86_400))
    made = directory / "segments"
    generate = [
        KSHADOW,
        "generate",
        "--groups",
        str(groups),
        "--duration",
        "2d",
        "--commit-interval",
        "10m",
        "--start",
        start,
    ]
    subprocess.run([*generate, "--seed", str(seed), "--out", str(made)], check=True, stdout=subprocess.DEVNULL)
    return [encode_event(event, 0) for event in replayed([made])]


def sentinel() -> Event:
    """An event of now, which ends every window of the history."""
    return {
        "schema": 1,
        "event_id": "sentinel",
        "type": "group_created",
        "cluster": None,
        "group": "sentinel",
        "group_type": "classic",
        "at_ms": int(time.time() * 1000),
        "partition": 0,
        "offset": 0,
        "observed": True,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--longest", type=float, default=40, help="seconds until a kill, at most")
    parser.add_argument("--directory", type=Path, required=True)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    came = play(options.directory, kills=options.kills, seed=options.seed, longest_s=options.longest)
    print(came)
    sys.exit(0 if came.is_right else 1)
