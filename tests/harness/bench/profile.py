"""Where the CPU time of a commit goes, from the client's message to the mirror: live and from files, with and without
what looks at it.

`python -m tests.harness.bench.profile [--rounds N] [--commits N] [--write]` prints a table of nanoseconds of CPU for
each commit, medians of rounds in which the variants take turns; `--write` puts it into docs/performance.md, between
the marks `measured: profile`. CPU time of the reading thread, not wall time: the machine may be shared. Each step is
timed around calls that handle a batch, and without the steps that it calls.

Each variant is a process of its own, the same program as `child`: it does what the agent's reader does, and neither
serves nor watches anything.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from agent.core.diagnosis.cluster import NO_ANALYZERS
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.diagnosis.lag_source import WatchedLags
from agent.core.packed import PackedRun
from agent.core.record_time import Context, Lookahead
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.offsets import CommittedOffsets
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.source import topic
from agent.kafka.source.bulk import BulkReader
from agent.kafka.source.paths import committed_batches_of
from agent.kafka.source.topic import TopicReader
from agent.persistence.cluster_state import ClusterState
from agent.runtime.bulk_catch_up import read_in_bulk
from agent.simulation.whatif.recent_recordings import RecentRecordings
from agent.tools.embedded import fetch_jars
from analyzers.registry import select_analyzers
from tests import ROOT
from tests.harness.bench import bare, load
from tests.harness.bench.frame import FULL, Frame, tell

PAGE = ROOT / "docs" / "performance.md"
MARKS = re.compile(r"(<!-- measured: profile -->\n).*?(<!-- end -->\n)", re.DOTALL)
LOOK_MS = 30_000
"""From look to look at the ends: the agent's default."""

VARIANTS = {
    "bare": "bare loop",
    "live": "live, as the agent",
    "live plain": "… without the compiled part",
    "live lag": "… and lag known",
    "live none": "… no analyzers",
    "files": "files, as `replay`",
    "files none": "… no analyzers",
}
"""What is measured, and the heads of its columns."""

CONSUME = "librdkafka's messages, made and freed"
STEPS: dict[str, tuple[tuple[Any, str], ...]] = {
    CONSUME: ((TopicReader, "_consume"),),
    "runs that were read in bulk": ((BulkReader, "take"), (PackedRun, "columns")),
    "errors among them, positions": ((TopicReader, "poll"),),
    "keys, values, times, partitions": ((topic, "record_batches_of"),),
    "three records wait for what follows": ((RecordBatch, "part"), (RecordBatch, "followed_by")),
    "are times in order": ((RecordBatch, "is_in_time_order"),),
    "commits of known positions": ((CommittedOffsets, "put_known_batch"), (CommittedOffsets, "put_packed")),
    "first commits of positions": ((PartitionMirror, "replay_until_transition"),),
    "group records": ((PartitionMirror, "replay"),),
    "analyzers: group records": ((PartitionDiagnosis, "_observe"),),
    "analyzers: samples of each minute": ((PartitionDiagnosis, "_run_due"), (PartitionDiagnosis, "_sample")),
    "analyzers: looks at lag": ((PartitionDiagnosis, "_look"),),
    "event clock": ((PartitionDiagnosis, "replay_batch"),),
    "counts, recent events": ((ClusterState, "replay_batch"),),
}
"""Each step's functions."""
REST = "the rest"
ALL = "all of the reading thread"
OTHERS = "other threads: librdkafka, and what takes runs from it"


class StepTimer:
    """Nanoseconds of this thread's CPU by step, each without the steps inside it."""

    def __init__(self) -> None:
        self.spent_ns: Counter[str] = Counter()
        self._inner_ns: list[int] = []

    def install(self) -> None:
        """Time the functions of all steps from now on, in this process."""
        for step, places in STEPS.items():
            for owner, name in places:
                found = vars(owner)[name]
                if isinstance(found, cached_property):
                    timed = cached_property(self._timed(step, found.func))
                    timed.__set_name__(owner, name)
                    setattr(owner, name, timed)
                else:
                    setattr(owner, name, self._timed(step, found))

    def _timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            self._inner_ns.append(0)
            began = time.thread_time_ns()
            try:
                return function(*args, **options)
            finally:
                spent = time.thread_time_ns() - began
                self.spent_ns[step] += spent - self._inner_ns.pop()
                if self._inner_ns:
                    self._inner_ns[-1] += spent

        return run


def child(variant: str, source: str, shape: load.Shape) -> dict[str, float]:
    """Read everything, as the variant says: nanoseconds by step for each record."""
    # As the command line does.
    gc.freeze()
    gc.set_threshold(500_000, 50, 100)
    timer = StepTimer()
    timer.install()
    way, *how = variant.split()
    state = ClusterState(NO_ANALYZERS if "none" in how else select_analyzers(None, {}), members=RecentRecordings())
    if "lag" in how:
        state.diagnosis.set_lag_source(_ends(source, shape))
    lookahead, records = Lookahead(), 0

    def apply(batch: RecordBatch) -> None:
        nonlocal records
        records += len(batch)
        for it, context in lookahead.put(batch):
            state.replay_batch(it, context)

    process_ns, thread_ns = time.process_time_ns(), time.thread_time_ns()
    if way == "bare":
        records = bare.read(source)
    elif way == "files":
        for item in committed_batches_of(source):
            assert isinstance(item, RecordBatch), item
            apply(item)
    else:
        conf = {"bootstrap.servers": source}
        with TopicReader(conf) as reader:
            reader.connect()
            if "plain" not in how:
                read_in_bulk(reader, conf, Applying(state))
                records = sum(reader.positions.values())
            while not reader.caught_up:
                for batch in reader.poll():
                    apply(batch)
    for it, context in lookahead.take():
        state.replay_batch(it, context)
    all_ns = time.thread_time_ns() - thread_ns
    others_ns = time.process_time_ns() - process_ns - all_ns
    spent = {**timer.spent_ns, REST: all_ns - timer.spent_ns.total(), ALL: all_ns, OTHERS: others_ns}
    return {step: ns / records for step, ns in spent.items()}


class Applying:
    """What `read_in_bulk` gives the records to."""

    wants_no_more = False

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def take(self, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        """Apply them."""
        self._state.replay_batch(batch, Context(next_ms))
        return True

    def next_offset(self, partition: int) -> int:
        """Where a partition goes on."""
        return self._state.position(partition).next_offset

    def let_go(self, partition: int) -> None:
        """Nothing is held back."""


def _ends(servers: str, shape: load.Shape) -> WatchedLags:
    """As an agent knows them that has looked for as long as the load's commits went on."""
    history = EndOffsetHistory(LOOK_MS)
    end, now_ms = shape.rounds + load.LAG, int(time.time() * 1000)
    ids = load.topic_ids(servers, shape)
    ends = {(name, number): end for name in ids for number in range(shape.topic_partitions)}
    # The load was written a while ago: looks before and after it change nothing.
    for at_ms in range(now_ms - 3_600_000, now_ms, LOOK_MS):
        history.add_high_watermarks(ends, at_ms)
        history.add_topic_ids(ids)
        history.publish(at_ms)
    return WatchedLags(lambda: history.snapshot)


def measured(variant: str, source: str, shape: load.Shape) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "tests.harness.bench.profile", "--child", variant, "--source", source]
    done = subprocess.run(
        [*command, "--shape", json.dumps(dataclasses.asdict(shape))], stdout=subprocess.PIPE, check=True
    )
    spent: dict[str, float] = json.loads(done.stdout)
    return spent


def page_table(rounds: dict[str, list[dict[str, float]]]) -> str:
    """Medians, a row for each step, as Markdown."""
    medians = {
        variant: {step: statistics.median(it.get(step, 0.0) for it in rows) for step in (*STEPS, REST, ALL, OTHERS)}
        for variant, rows in rounds.items()
    }
    lines = ["| ns of CPU a commit | " + " | ".join(VARIANTS.values()) + " |", "|---|" + "---:|" * len(VARIANTS)]
    for step in (*STEPS, REST, ALL, OTHERS):
        cells = (f"{medians[variant][step]:,.0f}" if medians[variant][step] >= 0.5 else "" for variant in VARIANTS)
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write the page where asked to."""
    options = _parser().parse_args()
    if options.child is not None:
        print(json.dumps(child(options.child, options.source, load.Shape(**json.loads(options.shape)))))
        return
    sizes = dataclasses.replace(FULL, commits=options.commits)
    rounds: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory(prefix="kshadow-bench-") as directory:
        frame = Frame(sizes, fetch_jars(progress=tell), Path(directory), [], {})
        with closing(frame):
            broker = frame.loaded()
            for number in range(options.rounds):
                for variant in VARIANTS:
                    source = str(broker.log_dirs[0]) if variant.startswith("files") else broker.bootstrap_servers
                    rounds[variant].append(measured(variant, source, sizes.shape))
                    tell(f"round {number + 1}: {variant}: {rounds[variant][-1][ALL]:.0f} ns")
    table = page_table(rounds)
    print(table)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(MARKS.sub(lambda found: f"{found[1]}{table}{found[2]}", page), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.bench.profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each variant; medians count")
    parser.add_argument("--commits", type=int, default=FULL.commits, help="offset commits to load")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
