"""What needs no tool beside it but Kafka's own: segment files, analyzers, synthetic histories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.common.workers import usable_cores
from agent.tools.embedded import fetch_tools
from tests.harness.bench.frame import Frame
from tests.harness.bench.measure import run
from tests.harness.bench.report import Column, Row, Table
from tests.harness.bench.tools import KSHADOW

COLUMNS = (
    Column("wall_s", "seconds", 2),
    Column("wall_min", "min", 2),
    Column("wall_max", "max", 2),
    Column("cpu_s", "CPU s", 2),
    Column("peak_mb", "peak MB", 0),
)
SEGMENTS = 10
"""How many partitions are read: enough that the dump tool's JVM start does not count for much."""


def segments(frame: Frame) -> Table:
    """Segment files of some partitions, decoded and mirrored, against Kafka's dump tool over the same files."""
    partitions = sorted(frame.loaded().log_dirs[0].glob("__consumer_offsets-*"))[:SEGMENTS]
    files = [segment for partition in partitions for segment in sorted(partition.glob("*.log"))]
    tool = "org.apache.kafka.tools.DumpLogSegments"
    dump = ["java", "-cp", fetch_tools().classpath, tool, "--offsets-decoder", "--files", ",".join(map(str, files))]
    size = sum(file.stat().st_size for file in files) / 1e6
    table = Table("segments", f"Segment files of {len(partitions)} partitions, {size:.0f} MB", COLUMNS)
    replay, decode = "kshadow replay (decode, mirror, analyze)", "kshadow decode (prints each record)"
    frame.take_turns(
        table,
        {
            replay: _running(frame, [*KSHADOW, "replay", *map(str, partitions)]),
            decode: _running(frame, [*KSHADOW, "decode", *map(str, partitions)]),
            "Kafka's dump tool": _running(frame, dump),
        },
    )
    theirs = table.value("Kafka's dump tool", "wall_s")
    table.ratio("the dump tool's time / kshadow replay's", theirs, table.value(replay, "wall_s"), at_least=5)
    table.ratio("the dump tool's time / kshadow decode's", theirs, table.value(decode, "wall_s"), at_least=1)
    return table


def analyzers(frame: Frame) -> Table:
    """All segment files, replayed with every analyzer and with none."""
    log_dir = frame.loaded().log_dirs[0]
    table = Table("analyzers", f"{frame.sizes.commits:,} commits, with and without analyzers", COLUMNS)
    replay = [*KSHADOW, "replay", str(log_dir)]
    every, none = "kshadow replay", "kshadow replay --analyzers none"
    frame.take_turns(table, {every: _running(frame, replay), none: _running(frame, [*replay, "--analyzers", "none"])})
    cpu_s = table.value(none, "cpu_s")
    table.ratio("CPU with all analyzers / with none", table.value(every, "cpu_s"), cpu_s, at_most=1.3)
    return table


def workers(frame: Frame) -> Table:
    """All segment files, read by one process and by one for each processor."""
    log_dir, count = frame.loaded().log_dirs[0], usable_cores()
    table = Table("workers", f"{frame.sizes.commits:,} commits in files, by one process and by {count}", COLUMNS)
    names = {number: f"kshadow replay --analyzers none --workers {number}" for number in (1, count)}
    frame.take_turns(
        table, {name: _running(frame, [*KSHADOW, *name.split()[1:], str(log_dir)]) for name in names.values()}
    )
    alone_s, shared_s = table.value(names[1], "wall_s"), table.value(names[count], "wall_s")
    table.ratio("one process's time / that of all", alone_s, shared_s)
    table.ratio("records a second", frame.sizes.commits, shared_s, at_least=1_500_000)
    return table


def generate(frame: Frame) -> Table:
    """A synthetic history, simulations and segment files included."""
    sizes, output = frame.sizes, frame.directory / "out"
    size = ["--groups", str(sizes.generate_groups), "--records", str(sizes.generate_records)]
    command = [*KSHADOW, "generate", *size, "--force", "--out", str(frame.directory / "history")]
    table = Table("generate", f"A history of {sizes.generate_groups:,} groups", COLUMNS)
    frame.take_turns(table, {"kshadow generate": _running(frame, command)})
    wall_s = table.value("kshadow generate", "wall_s")
    table.number("seconds", wall_s, at_most=10)
    table.ratio("records a second", int(output.read_text().split()[0].replace(",", "")), wall_s)
    return table


def _running(frame: Frame, command: list[str]) -> Callable[[], Row]:
    def measured() -> Row:
        cost = run(command, output=Path(frame.directory, "out"))
        return {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_mb": cost.peak_mb}

    return measured
