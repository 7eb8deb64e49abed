"""How the jobs' time and memory grow with records: `make spark-bench`, or `python -m tests.harness.spark.bench
--help`.

Each size: a generated history as segment files, then through the installed command: `kshadow replay` (one process),
the backfill from files, the rollup in batch and as a stream of what came of it, the backfill from a real broker that
holds the same files, and the streaming mirror over it. The events of each are compared with those of `replay`.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.core.events.events import Event
from agent.core.records import RecordBatch
from agent.kafka.source.paths import committed_batches_of
from agent.kafka.source.segments import TOPIC
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.spark.loading import ends_of, give, properties
from tests.live.spark_jobs.histories import difference, replayed, written

LINE = "{:>12} {:<15} {:>8} {:>10} {:>7} {:>9} {:>10}  {}"
SKEWED = 7
"""The partition that has most with `--skew`."""
KSHADOW = str(Path(sys.executable).with_name("kshadow"))


class Ran(NamedTuple):
    seconds: float
    jvm_mb: float
    python_mb: float
    workers_mb: float
    """Of Python's, those of executors: workers, and what forks them."""
    said: str


def run(*arguments: object) -> Ran:
    """Run the command; peak memory of the JVM and, summed, of the Python processes below it (proportional shares)."""
    began = time.monotonic()
    command = [KSHADOW, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peaks, ended = [0.0, 0.0, 0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            for index, mb in enumerate(memory_mb(process.pid)):
                peaks[index] = max(peaks[index], mb)

    watcher = threading.Thread(target=watch)
    watcher.start()
    said = process.communicate()[1]
    seconds = time.monotonic() - began
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    return Ran(seconds, *peaks, said)


def memory_mb(root: int) -> tuple[float, float, float]:
    """Of the process and all below it: the JVM's, the others', and of these Spark's workers'."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                head, tail = (directory / "stat").read_text().rsplit(")", 1)
            except OSError:
                continue
            names[int(directory.name)] = head.split("(", 1)[1]
            children.setdefault(int(tail.split()[1]), []).append(int(directory.name))
    java = other = workers = 0.0
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        mb = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
        if names.get(pid) == "java":
            java += mb
        else:
            other += mb
            workers += mb if b"pyspark.daemon" in command else 0.0
    return java, other, workers


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Of the power of the size by which the time grows, by least squares over logarithms."""
    xs, ys = [math.log(it) for it in sizes], [math.log(it) for it in seconds]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 2.5, 5, 10])
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--directory", type=Path, default=Path(".cache/spark-bench"), help="emptied before each size")
    parser.add_argument("--skew", type=float, default=0.0, help="the share of the records that one partition holds")
    parser.add_argument("--skip-topic", action="store_true", help="leave out what needs a broker")
    parser.add_argument("--generate", nargs="*", default=[], help="further options of `kshadow generate`")
    options = parser.parse_args()
    options.directory = options.directory.absolute()
    took: dict[str, dict[float, float]] = {}
    print(f"{options.groups:,} groups, local[{options.cores}]; {os.cpu_count()} cores here", flush=True)
    print(
        LINE.format("records", "step", "seconds", "records/s", "JVM MB", "Python MB", "workers MB", "notes"),
        flush=True,
    )
    for millions in options.millions:
        shutil.rmtree(options.directory, ignore_errors=True)
        options.directory.mkdir(parents=True)
        for step, records, ran, note in one(options, int(millions * 1_000_000)):
            took.setdefault(step, {})[records] = ran.seconds
            rate = f"{records / ran.seconds:,.0f}"
            memory = (f"{it:,.0f}" for it in (ran.jvm_mb, ran.python_mb, ran.workers_mb))
            print(LINE.format(f"{records:,}", step, f"{ran.seconds:.1f}", rate, *memory, note), flush=True)
    if len(options.millions) > 1:
        for step, seconds in took.items():
            power = exponent([*seconds], [*seconds.values()])
            print(f"{step}: time grows with the {power:.2f}th power of the records")


def one(options: argparse.Namespace, wanted: int) -> Iterator[tuple[str, int, Ran, str]]:
    """The steps of one size: name, records, what it took, what came of it."""
    root: Path = options.directory
    history, events = root / "segments", root / "events"
    even = int(wanted * (1 - options.skew))
    made = run(*generate(options, even, 7), "--out", history)
    if options.skew:
        # Groups of their own, as of a topic with one partition, in place of what this partition had.
        run(*generate(options, wanted - even, 8), "--offsets-partitions", 1, "--out", root / "one")
        target = history / f"{TOPIC}-{SKEWED}"
        shutil.rmtree(target, ignore_errors=True)
        (root / "one" / f"{TOPIC}-0").rename(target)
    records = sum(len(it) for it in committed_batches_of(str(history)) if isinstance(it, RecordBatch))
    yield "generate", records, made, ""
    yield "replay", records, run("replay", history), "one process"
    expected = replayed([history])
    master = ("--master", f"local[{options.cores}]")
    ran = run("spark", "backfill", "--from", history, "--out", events, *master)
    yield "backfill files", records, ran, same(expected, events)
    ran = run("spark", "rollup", "--history", events, "--out", root / "rollups", *master)
    yield "rollup", records, ran, f"{len(expected):,} events"
    reads = ("--reads", "history", "--history", events, "--out", root / "stream", "--checkpoint", root / "checkpoint")
    ran = run("spark", "stream", *reads, "--available-now", *master)
    yield "stream rollup", records, ran, f"{len(expected):,} events"
    if options.skip_topic:
        return
    with EmbeddedBroker(fetch_jars(), properties=properties(50)) as broker:
        give(broker, history)
        there = sum(ends_of({"bootstrap.servers": broker.bootstrap_servers}))
        source = ("--bootstrap-server", broker.bootstrap_servers, *master)
        ran = run("spark", "backfill", *source, "--out", root / "from-topic")
        yield "backfill topic", there, ran, same(replayed(broker.log_dirs), root / "from-topic")
        out = ("--out", root / "mirror", "--checkpoint", root / "mirror-checkpoint")
        # The stream ends where the log ends now; members that nobody is make the broker write more, minutes later.
        expected = replayed(broker.log_dirs)
        ran = run("spark", "stream", "--reads", "topic", *source, *out, "--available-now", "--max-records", 1_000_000)
        yield "stream mirror", there, ran, same(expected, root / "mirror")


def generate(options: argparse.Namespace, records: int, seed: int) -> tuple[object, ...]:
    return "generate", "--groups", options.groups, "--records", records, "--seed", seed, *options.generate


def same(expected: Iterable[Event], directory: Path) -> str:
    found = difference(expected, written(directory))
    return f"{found.events:,} events, {'the same as replay' if found.is_none else found}"


if __name__ == "__main__":
    main()
