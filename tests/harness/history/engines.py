"""Rollups of one machine and of Spark, as histories grow: `python -m tests.harness.history.engines --help`.

Each size is a generated history of some groups over some days, as an agent writes it; both engines roll it up through
the installed command. Printed are CPU seconds of all processes, seconds on the clock (which a busy machine makes
longer), and the most memory at any time (proportional shares); and whether the tables are the same row for row.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow.dataset as ds

from agent.history.tables import ROLLED_UP
from tests.harness.spark.bench import memory_mb
from tests.live.spark_jobs.histories import replayed
from tests.unit.history.histories import START, write

KSHADOW = str(Path(sys.executable).with_name("kshadow"))
LINE = "{:>8} {:>6} {:>10} {:>12} {:<9} {:>9} {:>9} {:>9}  {}"
_TICKS = os.sysconf("SC_CLK_TCK")


class Ran(NamedTuple):
    cpu_s: float
    seconds: float
    mb: float


def run(*arguments: object) -> Ran:
    """Run the command to its end."""
    began = time.monotonic()
    process = subprocess.Popen(
        [KSHADOW, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    cpu: dict[int, float] = {}
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        last = 0.0
        while not ended.wait(0.1):
            cpu.update(cpu_seconds(process.pid))
            if time.monotonic() - last > 0.5:
                last = time.monotonic()
                peak[0] = max(peak[0], sum(memory_mb(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    said = process.communicate()[1]
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{arguments} ended with {process.returncode}:\n{said}")
    return Ran(sum(cpu.values()), time.monotonic() - began, peak[0])


def cpu_seconds(root: int) -> dict[int, float]:
    """Of the process and all below it, each as far as it has come."""
    stats: dict[int, list[str]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                stats[int(directory.name)] = (directory / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    out, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if pid in stats:
            out[pid] = (int(stats[pid][11]) + int(stats[pid][12])) / _TICKS
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["40x7", "500x10", "1500x30"], help="GROUPSxDAYS")
    parser.add_argument("--directory", type=Path, default=Path(".cache/history-engines"))
    parser.add_argument("--keep", action="store_true", help="use histories that are there already")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    print(LINE.format("groups", "days", "events", "rows", "engine", "CPU s", "seconds", "MB", "tables"), flush=True)
    for size in options.sizes:
        groups, days = map(int, size.split("x"))
        root = options.directory.absolute() / size
        events = history(root, groups, days, keep=options.keep)
        ran = run("history", "rollup", "--history", root / "history", "--out", fresh(root / "here"))
        rows = sum(ds.dataset(root / "here" / name, format="parquet").count_rows() for name in ROLLED_UP)
        shown(groups, days, events, rows, "history", ran, "")
        ran = run("history", "report", "--rollups", root / "here", "--out", root / "here.html")
        shown(groups, days, events, rows, "report", ran, "")
        if options.no_spark:
            continue
        ran = run(
            *("spark", "rollup", "--history", root / "history", "--out", fresh(root / "spark")),
            *("--master", options.master),
        )
        differ = differing_rows(root / "here", root / "spark")
        shown(groups, days, events, rows, "spark", ran, f"{differ} DIFFER" if differ else "the same row for row")


def differing_rows(one: Path, other: Path) -> int:
    """How many rows of all tables are not in both; by DuckDB, since millions do not fit as Python's objects."""
    database, count = duckdb.connect(), 0
    database.execute("SET memory_limit = '4GB'")
    for name, columns in ROLLED_UP.items():
        chosen = ", ".join(f'"{column.name}"' for column in columns if column.name != "date")
        tables = [ds.dataset(root / name, format="parquet") for root in (one, other)]
        for here, there in (tables, tables[::-1]):
            relation = database.from_arrow(here).select(chosen).except_(database.from_arrow(there).select(chosen))
            count += len(relation)
        count += abs(tables[0].count_rows() - tables[1].count_rows())
    return count


def history(root: Path, groups: int, days: int, *, keep: bool) -> int:
    """How many events; they are in `root/history` then."""
    if not (keep and (root / "history").is_dir()):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        sized = ("--groups", groups, "--duration", f"{days}d", "--commit-interval", "12h", "--seed", 3)
        run("generate", *sized, "--start", START, "--out", root / "segments")
        write(replayed([root / "segments"]), root / "history")
        shutil.rmtree(root / "segments")
    return int(ds.dataset(root / "history", format="parquet").count_rows())


def fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    return directory


def shown(groups: int, days: int, events: int, rows: int, engine: str, ran: Ran, note: str) -> None:
    numbers = f"{ran.cpu_s:.1f}", f"{ran.seconds:.1f}", f"{ran.mb:,.0f}"
    print(LINE.format(f"{groups:,}", days, f"{events:,}", f"{rows:,}", engine, *numbers, note), flush=True)


if __name__ == "__main__":
    main()
