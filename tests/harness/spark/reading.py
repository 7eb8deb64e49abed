"""Whether rollups say what the log says, and read no more than they must: heavy proofs, by the installed command.

    python -m tests.harness.spark.reading check --work DIR [--log PATH…]
    python -m tests.harness.spark.reading day --work DIR
    python -m tests.harness.spark.reading files --work DIR

`check`: rollups against sums that pandas makes of what `kshadow replay` prints, which knows nothing of the reducer:
of recorded logs (`--log`), and of two generated histories with KIP-848 groups, whose rebalances have no known cost.
Then a file whose column was renamed. `day`: one day of a year against one day of a week, by the CPU time of all
processes; every day but those that may be read is damaged meanwhile. `files`: 50,000 files of an agent are compacted.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from agent.common.units import DAY_MS
from agent.persistence.export.arrow import HISTORY, date_of, line_to_row, rows_to_arrays
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.parquet_sink import ParquetSink

KSHADOW = str(Path(sys.executable).with_name("kshadow"))
WINDOWS = {"5m": 300_000, "1h": 3_600_000, "1d": 86_400_000}
YEAR_MS = 20_089 * DAY_MS
"""2025-01-01, when the made-up years begin: all of a year must be over."""


def run(*arguments: object, code: int = 0) -> tuple[str, float]:
    """Run the command: what it said, and the CPU seconds of it and all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([KSHADOW, *map(str, arguments)], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        raise SystemExit(f"kshadow {' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def say(text: str) -> None:
    print(text, flush=True)


# Rollups against pandas.


def check(work: Path, logs: list[Path]) -> int:
    for seed in (11, 12):
        generated = work / f"generated-{seed}"
        sized = ["--groups", 60, "--duration", "2d", "--commit-interval", "10m", "--seed", seed]
        mixed = [
            f"--mix={it}" for it in ("steady=4", "rolling_deploy=3", "crash=3", "storm=2", "scaling=2", "emptied")
        ]
        mixed += [
            f"--mix={it}" for it in ("kip848_steady=2", "kip848_deploy=3", "kip848_crash=3", "connect_bounce=2")
        ]
        run("generate", *sized, *mixed, "--start", "2026-07-06T00:00:00Z", "--out", generated)
        logs = [*logs, generated]
    wrong = 0
    for number, log in enumerate(logs):
        wrong += compare(log, work / f"log-{number}")
    return wrong + renamed(work)


def compare(log: Path, work: Path) -> int:
    history, out = work / "history", work / "rollups"
    events = replayed(log)
    run("spark", "backfill", "--from", log, "--out", history)
    (file,) = (history / "_clock").glob("*.json")
    # As if the log had gone on until the day after, with nothing in it: so every window is over, of a short log too.
    clock = json.loads(file.read_bytes())
    clock["clock_ms"] = (clock["clock_ms"] // DAY_MS + 1) * DAY_MS + 1
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(json.dumps(clock))
    run("spark", "rollup", "--history", history, "--out", out)
    wrong = 0
    unknown = events[(events["type"] == "rebalance") & events["stopped_partition_ms"].isna()]
    for name, length_ms in WINDOWS.items():
        expected = dict(sums(events, length_ms, clock["clock_ms"]))
        came = dict(rows(out, name))
        differing = {key for key in expected.keys() | came.keys() if expected.get(key) != came.get(key)}
        wrong += len(differing)
        for key in sorted(differing, key=str)[:5]:
            say(f"  {name} {key}: expected {expected.get(key)}, got {came.get(key)}")
        nulls = sum(value[1] is None for key, value in expected.items() if key[0] == "rebalance")
        say(
            f"{log.name}, windows of {name}: {len(expected)} sums, {nulls} of them null, {len(differing)} differences"
        )
    done = (events["type"] == "rebalance").sum()
    say(f"{log.name}: {done} rebalances, {len(unknown)} without a known cost")
    return wrong


def replayed(log: Path) -> pd.DataFrame:
    done = subprocess.run([KSHADOW, "replay", str(log)], capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return pd.DataFrame(rows, dtype=object)


Sums = Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]
COUNTED = {"member_joined": "joins", "member_left": "departures", "static_member_replaced": "replacements"}


def sums(events: pd.DataFrame, length_ms: int, horizon_ms: int) -> Sums:
    """What windows that are over hold, by pandas: costs by group and cause, gaps, and who came and went."""
    events = events[events["group"].notna()].drop_duplicates("event_id")
    events = events.assign(start_ms=events["at_ms"].astype("int64") // length_ms * length_ms)
    over = events["start_ms"] + length_ms <= horizon_ms
    done = events[events["type"] == "rebalance"].sort_values(["group", "at_ms", "partition", "offset"])
    done = done.assign(cost_ms=pd.to_numeric(done["stopped_partition_ms"]))
    for keys, of_key in done[over.loc[done.index]].groupby(["group", "start_ms", "cause"]):
        yield ("rebalance", *keys), costs(of_key)
    for keys, of_key in done[over.loc[done.index]].groupby(["group", "start_ms"]):
        yield ("group", *keys), costs(of_key)
    for kind, name in COUNTED.items():
        of_kind = events[(events["type"] == kind) & over]
        for keys, of_key in of_kind.groupby(["group", "start_ms"]):
            yield (name, *keys), (len(of_key),)
    # Gaps to the rebalance before; a group that was made or deleted between begins anew.
    moves = events[events["type"].isin(["rebalance", "group_created", "group_deleted"])]
    moves = moves.assign(order=moves["type"].map({"group_deleted": 0, "group_created": 1, "rebalance": 2}))
    moves = moves.sort_values(["group", "at_ms", "partition", "offset", "order"])
    before = moves.groupby("group")[["type", "at_ms"]].shift(1)
    gaps = moves.assign(gap_ms=moves["at_ms"] - before["at_ms"])
    gaps = gaps[(moves["type"] == "rebalance") & (before["type"] == "rebalance") & over.loc[moves.index]]
    for keys, of_key in gaps.groupby(["group", "start_ms"]):
        yield ("gaps", *keys), (len(of_key), int(of_key["gap_ms"].sum()))


def costs(done: pd.DataFrame) -> tuple[int, int | None, int]:
    """Rebalances, what those cost of which it is known (None: of none), and of how many it is not."""
    total = done["cost_ms"].sum(min_count=1)
    return len(done), None if pd.isna(total) else int(total), int(done["cost_ms"].isna().sum())


def rows(out: Path, window: str) -> Sums:
    """The same of the tables."""
    groups, causes = (
        ds.dataset(out / name, format="parquet").to_table(filter=ds.field("window") == window).to_pylist()
        for name in ("groups", "causes")
    )
    for row in causes:
        if row["kind"] == "rebalance" and row["group"] is not None:
            key = (row["group"], row["start_ms"], row["cause"])
            yield ("rebalance", *key), (row["count"], row["stopped_partition_ms"], row["stopped_unknown"])
    for row in groups:
        key = (row["group"], row["start_ms"])
        if row["group"] is None:
            continue
        if row["rebalances"]:
            yield ("group", *key), (row["rebalances"], row["stopped_partition_ms"], row["stopped_unknown"])
        elif (row["stopped_partition_ms"], row["stopped_unknown"]) != (0, 0):
            yield ("nothing happened", *key), (row["stopped_partition_ms"], row["stopped_unknown"])
        for name in COUNTED.values():
            if row[name]:
                yield (name, *key), (row[name],)
        if row["rebalance_gaps"]:
            yield ("gaps", *key), (row["rebalance_gaps"], row["rebalance_gap_ms"])


def renamed(work: Path) -> int:
    history = work / "renamed"
    shutil.rmtree(history, ignore_errors=True)
    shutil.copytree(work / "log-0" / "history", history)
    file = sorted(history.rglob("*.parquet"))[-1]
    table = pq.read_table(file, partitioning=None)
    names = [{"stopped_partition_ms": "stopped_ms"}.get(it, it) for it in table.column_names]
    pq.write_table(table.rename_columns(names), file)
    said, _ = run("spark", "rollup", "--history", history, "--out", work / "renamed-out", code=2)
    say(f"a renamed column: exit code 2: {said.strip().splitlines()[-1]}")
    return int(file.name not in said or "expected stopped_partition_ms int64, got nothing" not in said)


# One day of many.

GROUPS = 200
A_DAY = 12
"""Rebalances of each group."""


def day(work: Path) -> int:
    took = {}
    for days in (7, 365):
        history, out = work / f"history-{days}", work / f"rollups-{days}"
        made_up(history, days)
        said, cpu_s = run("spark", "rollup", "--history", history, "--out", out)
        say(f"{days} days: {cpu_s:.1f} s of CPU for all; {said.strip().splitlines()[-1]}")
        before = counted(out)
        asked = days // 2
        may_be_read = {date(it) for it in range(asked - 1, asked + 3)}
        for directory in history.glob("date=*"):
            if directory.name.removeprefix("date=") not in may_be_read:
                for file in directory.iterdir():
                    file.write_bytes(b"no Parquet")
        one = date(asked)
        runs = []
        for _ in range(3):
            job = ("--history", history, "--out", out, "--since", one, "--until", one)
            said, cpu_s = run("spark", "rollup", *job)
            runs.append(cpu_s)
        took[days] = min(runs)
        after = counted(out)
        same = all(before[name] == after[name] for name in before if name != "standing")
        say(f"{one} of {days} days: {min(runs):.1f} s of CPU (of {len(runs)} runs the least), rows as before: {same}")
        if not same:
            return 1
    ratio = took[365] / took[7]
    say(f"one day of 365 took {ratio:.2f} times one of 7; files of all but {len(may_be_read)} days were no Parquet")
    return int(ratio > 1.3)


def date(number: int) -> str:
    return datetime.fromtimestamp((YEAR_MS + number * DAY_MS) / 1000, UTC).date().isoformat()


def made_up(history: Path, days: int) -> None:
    """A history as an agent writes it: a file a day, and a clock."""
    shutil.rmtree(history, ignore_errors=True)
    sink = ParquetSink(str(history))
    for number in range(days):
        at = [(YEAR_MS + number * DAY_MS + it * DAY_MS // A_DAY, it) for it in range(A_DAY)]
        sink.write([encode_event(rebalance(group, at_ms, it), 0) for at_ms, it in at for group in range(GROUPS)])


def rebalance(group: int, at_ms: int, number: int) -> dict[str, Any]:
    event = {"schema": 1, "event_id": f"{group}-{at_ms}", "type": "rebalance", "cluster": "made-up"}
    event |= {"group": f"group-{group}", "group_type": "consumer" if group % 3 else "classic", "at_ms": at_ms}
    event |= {
        "partition": group % 50,
        "offset": at_ms // 1000,
        "cause": ("member_joined", "session_timeout")[group % 2],
    }
    cost = None if group % 3 else 1_000 * number
    return {
        **event,
        "members": 2 + (group + number) % 5,
        "stopped_partition_ms": cost,
        "sync_ms": cost,
        "join_ms": cost,
    }


def counted(out: Path) -> dict[str, Counter[str]]:
    return {
        it.name: Counter(map(str, ds.dataset(it, format="parquet", partitioning="hive").to_table().to_pylist()))
        for it in sorted(out.iterdir())
        if not it.name.startswith(("_", "."))
    }


# Many files.

FILES = 50_000


def files(work: Path) -> int:
    history = work / "many"
    shutil.rmtree(history, ignore_errors=True)
    events = []
    for number in range(FILES):
        at_ms = YEAR_MS + number * 30 * DAY_MS // FILES
        events += [encode_event(rebalance(number % GROUPS, at_ms + it, number), 0) for it in range(3)]
    table = pa.Table.from_arrays(rows_to_arrays(list(map(line_to_row, events)), HISTORY), schema=HISTORY)
    for number in range(FILES):
        at_ms = events[3 * number].at_ms
        path = history / f"date={date_of(at_ms)}" / f"{at_ms}-{number:016x}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(3 * number, 3), path, compression="none")
    before = Counter(map(str, ds.dataset(history, format="parquet", partitioning="hive").to_table().to_pylist()))
    began = time.monotonic()
    said, cpu_s = run("spark", "compact", "--history", history)
    after = Counter(map(str, ds.dataset(history, format="parquet", partitioning="hive").to_table().to_pylist()))
    most = max(len(list(it.iterdir())) for it in history.glob("date=*"))
    say(said.strip())
    say(
        f"{FILES:,} files of 30 days: at most {most} a day, {before.total():,} rows before, {after.total():,} after,"
        f" {(before - after).total() + (after - before).total()} differ;"
        f" {cpu_s:.0f} s of CPU, {time.monotonic() - began:.0f} s"
    )
    return int(most > 2 or before != after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "day", "files"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--log", type=Path, nargs="*", default=[])
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    wrong = {"check": lambda: check(chosen.work, chosen.log), "day": lambda: day(chosen.work)}.get(
        chosen.what, lambda: files(chosen.work)
    )()
    say("as it should be" if not wrong else f"{wrong} differences")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
