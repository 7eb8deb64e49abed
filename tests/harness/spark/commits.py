"""Commits under two writers, readers and SIGKILL: `python -m tests.harness.spark.commits [PART…]`, or `make commits`.

- `writers`: two processes, each with a Spark of its own, write 200 batches into one output. Each batch is there once.
- `reads`: readers of four kinds count the rows of all days while these are replaced. Each sees whole days; those that
  pin see one state of all days.
- `kills`: processes are killed within a commit, seen to be within it, and started again. The batch's rows are there.
- `lease`: answers to a holder of a lease on S3 are lost. It holds it on; and where there is no bucket it is told so.
- `sink`: the agent's sink to S3 is killed within uploads. Each event is there, as its spool brings it again.

S3 is moto's server, in this process: it sees each request, and so kills where an upload has begun, or has ended and
was not answered yet. A lease is given up after 3 s here, not 30.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from agent.history.parquet_directory import ParquetDirectory, of_days
from tests import ROOT
from tests.harness.s3 import BUCKET, S3
from tests.waiting import until

DAYS = tuple(f"2026-11-{number:02d}" for number in range(1, 8))
PARTS = ("writers", "reads", "kills", "lease", "sink")


class Line(NamedTuple):
    """What came of one play."""

    part: str
    where: str
    did: str
    wrong: str

    @property
    def is_right(self) -> bool:
        return self.wrong.startswith("0")


# What is written.


def spark_session(form: str) -> Any:
    """A Spark as small as can be, with what a format needs."""
    from pyspark.sql import SparkSession

    from agent.tools.embedded.jars import cache_directory
    from agent.tools.spark_submit.command import (
        CATALOG,
        DELTA,
        DELTA_CATALOG,
        DELTA_EXTENSION,
        DELTA_VERSION,
        EXTENSIONS,
        HADOOP_AWS,
    )
    from agent.tools.spark_submit.ivy import settings_file
    from spark_jobs.session import session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.master": "local[1]",
        "spark.driver.memory": "700m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    if form != "parquet":
        home = cache_directory() / "spark" / "ivy"
        packages = [f"{DELTA}_2.13:{DELTA_VERSION}", *([f"{HADOOP_AWS}:3.4.1"] if form == "delta-s3" else [])]
        conf |= {
            "spark.jars.ivy": str(home),
            "spark.jars.ivySettings": str(settings_file(home)),
            "spark.jars.packages": ",".join(packages),
            EXTENSIONS: DELTA_EXTENSION,
            CATALOG: DELTA_CATALOG,
        }
    if form == "delta-s3":
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }
    SparkSession.builder.config(map=conf).getOrCreate()
    return session("commits")


def write_batches(form: str, out: str, stream: str, first: int, step: int, end: int) -> None:
    """In a process of its own: batches `first`, `first + step`, …, each a row a day; a line for each that is in."""
    from spark_jobs.formats import s3_lease
    from spark_jobs.formats.opening import open_output

    s3_lease.RENEW_S, s3_lease.DEAD_S = 0.5, 3.0
    spark = spark_session(form)
    output = open_output(spark, form.removesuffix("-s3"), out, ("groups",), "stream")
    print("begins", flush=True)
    for batch in range(first, end, step):
        rows = spark.createDataFrame([(day, batch) for day in DAYS], "`date` string, value bigint")
        output.append({"groups": rows}, stream, batch)
        print("wrote", batch, flush=True)


def hold_lease(path: str, missing: str) -> None:
    """In a process of its own: hold a lease, with a line each time that it is found to be held; then ask for one
    where there is no bucket."""
    from spark_jobs.errors import JobError
    from spark_jobs.formats.s3_lease import S3Lease

    spark = spark_session("delta-s3")
    lease = S3Lease(spark, path, "the holder")
    with lease.held(0):
        for number in range(LOOKS):
            lease.check()
            print("wrote", number, flush=True)
    try:
        with S3Lease(spark, missing, "the holder").held(0):
            pass
    except JobError as error:
        print(error, flush=True)


LOOKS = 12


def replace_days(root: str) -> None:
    """In a process of its own, without Spark: all days anew, until it is killed; a line each time."""
    directory = ParquetDirectory(Path(root))
    for number in itertools.count():
        with directory.staging() as staging, directory.lease("the replacing process", wait_s=60) as lease:
            stage(staging, number, rows=200)
            lease.publish(staging, "rollup", of_days(DAYS[0], DAYS[-1]))
        print("wrote", number, flush=True)
        time.sleep(0.2)


def stage(staging: Path, value: int, rows: int = 1, table: str = "") -> None:
    for day in DAYS:
        target = staging / table / f"date={day}" / "part-0.parquet"
        target.parent.mkdir(parents=True)
        pq.write_table(pa.table({"value": pa.array([value] * rows, pa.int64())}), target)


class Writer:
    """Such a process, and all that it starts."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.harness.spark.commits", "--child", *map(str, arguments)]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.said.extend(line.strip() for line in self._process.stdout)

    @property
    def wrote(self) -> list[int]:
        return [int(line.split()[1]) for line in self.said if line.startswith("wrote")]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> int:
        code = self._process.wait()
        self._reader.join()
        return code

    def errors(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]


def values_of(form: str, out: str, s3: S3) -> Counter[tuple[str, int]]:
    """The rows that are there, read by nothing of ours: Delta's log is read here as its protocol says."""
    if form == "parquet":
        table = ds.dataset(f"{out}/groups", format="parquet", partitioning=DAY_PARTS).to_table()
        return Counter(zip(table["date"].to_pylist(), table["value"].to_pylist(), strict=True))
    import json
    from urllib.parse import unquote

    files = s3.files() if form == "delta-s3" else None
    root = f"{out.removeprefix('s3a://')}/groups"
    opened = (lambda name: files.open(f"{root}/{name}")) if files else (lambda name: Path(root, name).open("rb"))  # noqa: SIM115
    logs = files.ls(f"{root}/_delta_log", detail=False) if files else map(str, Path(root, "_delta_log").iterdir())
    live: dict[str, str] = {}
    for log in sorted(
        name.rpartition("/")[2] for name in logs if re.fullmatch(r"\d{20}\.json", name.rpartition("/")[2])
    ):
        with opened(f"_delta_log/{log}") as lines:
            for action in map(json.loads, lines.read().splitlines()):
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]["partitionValues"]["date"]
                elif "remove" in action:
                    live.pop(action["remove"]["path"], None)
    out_rows: Counter[tuple[str, int]] = Counter()
    for name, day in live.items():
        with opened(unquote(name)) as file:
            out_rows.update((day, value) for value in pq.ParquetFile(file).read()["value"].to_pylist())
    return out_rows


DAY_PARTS = ds.partitioning(pa.schema([("date", pa.string())]), flavor="hive")


def compared(form: str, out: str, batches: int, s3: S3) -> str:
    """What is lost and what is there twice."""
    came = values_of(form, out, s3)
    expected = Counter((day, batch) for day in DAYS for batch in range(batches))
    return f"{(expected - came).total()} rows lost, {(came - expected).total()} rows doubled"


# The parts.


def writers(form: str, out: str, batches: int, s3: S3) -> Line:
    both = [Writer("batches", form, out, name, number, 2, batches) for number, name in enumerate("ab")]
    codes = [writer.wait() for writer in both]
    assert codes == [0, 0], "\n".join(writer.errors() for writer in both)
    told = sum(len(writer.wrote) for writer in both)
    return Line("two writers", form, f"{told} batches told as written", wrong_of(compared(form, out, batches, s3)))


def wrong_of(text: str) -> str:
    return f"0: {text}" if all(number == "0" for number in re.findall(r"\d+", text)) else f"WRONG: {text}"


def reads(root: Path, count: int, by_spark: int) -> list[Line]:
    writer = Writer("replace", root)
    while not writer.wrote:
        assert writer.is_running, writer.errors()
        time.sleep(0.1)
    kinds: dict[str, tuple[Callable[[Path], Counter[int]], int]] = {
        "pinned, pyarrow": (_by_pin, count),
        "pandas, by name": (_by_pandas, count),
        "DuckDB, by name": (_by_duckdb, count),
    }
    spark = spark_session("parquet")
    kinds["Spark, pinned"] = (lambda root: _by_spark(spark, root), by_spark)
    lines = []
    for kind, (read, times) in kinds.items():
        before, failed, wrong = len(writer.wrote), Counter[str](), 0
        done = 0
        # Twenty replacements at least, however fast reads are.
        while done < times or len(writer.wrote) - before < 20:
            try:
                seen = read(root)
                by_day_whole = sum(seen.values()) == 200 * len(DAYS) and all(it % 200 == 0 for it in seen.values())
                # Who pins sees one state of all days; who does not sees whole days.
                wrong += not by_day_whole or (len(seen) > 1 and kind.startswith(("pinned", "Spark")))
            except Exception as error:  # noqa: BLE001  # it is what is counted
                failed[type(error).__name__] += 1
            done += 1
        replaced = len(writer.wrote) - before
        bad = f"{wrong} wrong, {failed.total()} exceptions"
        lines.append(Line("reads while replaced", kind, f"{done} reads, {replaced} replacements", wrong_of(bad)))
    writer.kill()
    writer.wait()
    return lines


def _by_pin(root: Path) -> Counter[int]:
    with ParquetDirectory(root).pin() as pin:
        return Counter(value for file in pin.files() for value in pq.read_table(file.path)["value"].to_pylist())


def _by_pandas(root: Path) -> Counter[int]:
    import pandas as pd

    return Counter(pd.read_parquet(root)["value"].tolist())


def _by_duckdb(root: Path) -> Counter[int]:
    import duckdb

    rows = duckdb.sql(f"SELECT value, count(*) FROM read_parquet('{root}/date=*/*.parquet') GROUP BY 1").fetchall()
    return Counter(dict(rows))


def _by_spark(spark: Any, root: Path) -> Counter[int]:
    from pyspark.sql.types import DateType, LongType, StructType

    from spark_jobs.formats.opening import pinned

    schema = StructType().add("value", LongType()).add("date", DateType())
    with pinned([str(root)]) as (path,):
        rows = spark.read.schema(schema).parquet(path)
        return Counter({row["value"]: row["count"] for row in rows.groupBy("value").count().collect()})


def kills_on_disk(out: Path, kills: int, dice: random.Random) -> Line:
    """A process without Spark, since a commit is made without: killed as its staging or its journal is seen."""
    directory, number, inside = ParquetDirectory(out, ("groups",)), 0, Counter[str]()
    out.mkdir(parents=True)
    while inside.total() < kills:
        writer = Writer("plain", out, number)
        wanted = (
            "_journal.json" if dice.random() < 0.7 else f"../.{out.name}.kshadow/staging/*/groups/date=2026-11-07/*"
        )
        skip = dice.randrange(5)
        while writer.is_running:
            if glob(wanted, root_dir=out) and len(writer.wrote) >= skip:
                writer.kill()
                break
        writer.wait()
        left = [it for it in ("_journal.json", f"../.{out.name}.kshadow/staging/*/groups") if glob(it, root_dir=out)]
        # Killed within: it has left its journal, or what it had staged.
        inside.update(left[:1])
        number = max([number - 1, *writer.wrote]) + 1
    final = Writer("plain", out, number, number + 3)
    assert final.wait() == 0, final.errors()
    with directory.lease("the end"):
        pass
    bad = compared("parquet", str(out), number + 3, None)  # type: ignore[arg-type]
    seen = ", ".join(f"{count} with {name}" for name, count in inside.items())
    left_over = sum(1 for it in out.glob("_*/*"))
    return Line(
        "kills within", "parquet", f"{inside.total()} kills ({seen})", wrong_of(f"{bad}, {left_over} left over")
    )


def write_plain(root: str, first: int, end: int | None) -> None:
    """In a process of its own, without Spark: batches from `first` on, each under its label."""
    directory = ParquetDirectory(Path(root), ("groups",))
    for batch in itertools.count(first) if end is None else range(first, end):
        with directory.staging() as staging, directory.lease("kills", wait_s=60) as lease:
            stage(staging, batch, table="groups")
            lease.publish(staging, f"batch-{batch:09d}")
        print("wrote", batch, flush=True)


def kills_on_s3(out: str, kills: int, s3: S3, dice: random.Random) -> Line:
    """Delta's commit is one upload to `_delta_log`: killed before it is stored, or before it is answered."""
    number, inside = 0, Counter[str]()
    while inside.total() < kills:
        writer = Writer("batches", "delta-s3", out, "a", number, 1, 1_000_000)
        when, skip = dice.random() < 0.5, dice.randrange(2)
        killed = threading.Event()

        def kill(
            path: str,
            stored: bool,
            writer: Writer = writer,
            when: bool = when,
            skip: int = skip,
            killed: threading.Event = killed,
        ) -> None:
            if re.search(r"/_delta_log/\d{20}\.json$", path) and stored is when and not killed.is_set():
                if len(writer.wrote) < skip:
                    return
                killed.set()
                writer.kill()
                inside["stored, not answered" if stored else "not stored"] += 1

        s3.on_upload = kill
        assert killed.wait(1200), writer.errors()
        writer.wait()
        s3.on_upload = lambda path, stored: None
        # A stream makes the batch again that it does not know to be done.
        number = max([number - 1, *writer.wrote]) + 1
        print(f"  kill {inside.total()}: {dict(inside)}, at batch {number}", flush=True)
    final = Writer("batches", "delta-s3", out, "a", number, 1, number + 3)
    assert final.wait() == 0, final.errors()
    seen = ", ".join(f"{count} {name}" for name, count in inside.items())
    bad = compared("delta-s3", out, number + 3, s3)
    return Line("kills within", "delta on S3", f"{inside.total()} kills ({seen})", wrong_of(bad))


def lease_on_s3(s3: S3) -> Line:
    """Each third writing of the lease is stored, and its answer lost: the client makes it again, and is refused."""
    name, missing = f"{BUCKET}/held/_lease", "no-such-bucket/_lease"
    writings, lost = itertools.count(1), Counter[str]()

    def loses(path: str) -> bool:
        is_lost = path == f"/{name}" and next(writings) % 3 == 0
        lost["answers"] += is_lost
        return is_lost

    s3.loses_answer = loses
    holder = Writer("lease", f"s3a://{name}", f"s3a://{missing}")
    until(lambda: not holder.is_running, 180)
    s3.loses_answer = lambda path: False
    assert holder.wait() == 0, holder.errors()
    said = f"s3a://{missing}: expected a bucket of that name, there is none"
    bad = f"{LOOKS - len(holder.wrote)} times not held, {int(said not in holder.said)} times not refused"
    return Line("lease", "S3", f"{lost['answers']} answers lost", wrong_of(bad))


def sink_on_s3(state: Path, kills: int, s3: S3, dice: random.Random) -> Line:
    """The agent's sink and its spool (`tests.live.persistence.export.writer`), killed within uploads."""
    first, inside, url = 0, Counter[str](), f"s3://{BUCKET}/agent"
    while inside.total() < kills:
        said, process = [], _sink(url, state, first)
        when, skip = dice.random() < 0.5, dice.randrange(1, 6)
        uploads = itertools.count()
        killed = threading.Event()

        def kill(
            path: str,
            stored: bool,
            process: Any = process,
            when: bool = when,
            skip: int = skip,
            uploads: Iterator[int] = uploads,
            killed: threading.Event = killed,
        ) -> None:
            if path.endswith(".parquet") and stored is when and next(uploads) == skip:
                process.kill()
                killed.set()
                inside["stored, not answered" if stored else "not stored"] += 1

        s3.on_upload = kill
        said = process.communicate(timeout=300)[0].splitlines()
        s3.on_upload = lambda path, stored: None
        assert killed.is_set(), said
        first = max([first, *(int(it.split()[1]) for it in said if it.startswith("promised "))])
    *_, last, left = _sink(url, state, first, 1000).communicate(timeout=300)[0].splitlines()
    assert left == "left 0", left
    total = int(last.split()[1])
    files = s3.files()
    there = Counter(
        number
        for name in files.find(url.removeprefix("s3://"))
        for number in pq.read_table(files.open(name), columns=["offset"])["offset"].to_pylist()
    )
    lost = len(set(range(total)) - there.keys())
    seen = ", ".join(f"{count} {name}" for name, count in inside.items())
    return Line(
        "kills within",
        "the agent's sink on S3",
        f"{inside.total()} kills ({seen}), {total} events, {there.total() - len(there)} twice",
        wrong_of(f"{lost} lost"),
    )


def _sink(url: str, state: Path, first: int, count: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.live.persistence.export.writer", "parquet", url, str(state), str(first)]
    return subprocess.Popen([*command, str(count)], cwd=ROOT, stdout=subprocess.PIPE, text=True)


@contextmanager
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="kshadow-commits-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def play(parts: Iterable[str], formats: Iterable[str], options: argparse.Namespace) -> Iterator[Line]:
    dice = random.Random(options.seed)
    s3 = S3()
    with place() as directory:
        for form in formats if "writers" in parts else ():
            out = f"s3a://{BUCKET}/two" if form == "delta-s3" else str(directory / f"two-{form}")
            yield writers(form, out, options.batches, s3)
        if "reads" in parts:
            yield from reads(directory / "reads", options.reads, options.spark_reads)
        if "kills" in parts:
            if "parquet" in formats:
                yield kills_on_disk(directory / "kills", options.kills, dice)
            if "delta-s3" in formats:
                yield kills_on_s3(f"s3a://{BUCKET}/kills", options.kills, s3, dice)
        if "lease" in parts:
            yield lease_on_s3(s3)
        if "sink" in parts:
            yield sink_on_s3(directory / "state", options.kills, s3, dice)
    s3.close()


def child(kind: str, *arguments: str) -> None:
    match kind:
        case "batches":
            form, out, stream, first, step, end = arguments
            write_batches(form, out, stream, int(first), int(step), int(end))
        case "lease":
            hold_lease(*arguments)
        case "replace":
            replace_days(arguments[0])
        case "plain":
            write_plain(arguments[0], int(arguments[1]), int(arguments[2]) if len(arguments) > 2 else None)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        child(*arguments[1:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--formats", nargs="+", default=("parquet", "delta", "delta-s3"))
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--reads", type=int, default=1000, help="of each kind but Spark's")
    parser.add_argument("--spark-reads", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}\n\n| part | where | did | wrong |\n|---|---|---|---|", flush=True)
    wrong = False
    for line in play(options.parts, options.formats, options):
        wrong |= not line.is_right
        print(f"| {' | '.join(line)} |", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
