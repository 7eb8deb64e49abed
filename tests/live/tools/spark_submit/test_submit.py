"""Real Spark, with small jobs of its own in place of ours."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.tools.spark_submit.package import Code, build
from tests import ROOT
from tests.live.tools.spark_submit.test_package import isolated
from tests.live.tools.spark_submit.test_running import alive
from tests.unit.cli.running import COMMAND, environment
from tests.waiting import until

START_S = 60

EXECUTORS = """
import json
import sys
from pyspark.sql import SparkSession


def where(batches):
    # On an executor.
    import pyarrow
    import agent.core.wire, agent.core.diagnosis.api, agent.history.tables
    from analyzers.registry import known_analyzers
    assert len(known_analyzers()) > 5
    for batch in batches:
        files = [it.__file__ for it in (agent.core.wire, agent.core.diagnosis.api, agent.history.tables)]
        yield pyarrow.RecordBatch.from_pydict({"file": files})


spark = SparkSession.builder.getOrCreate()
rows = spark.range(1).mapInArrow(where, "file string").collect()
print("kshadow:", json.dumps([it.file for it in rows]), file=sys.stderr)
# Spark copies what comes here until the driver has ended, and not always what came as it did.
print("kshadow:", json.dumps(sys.argv[1:]), flush=True)
spark.stop()
sys.exit(int(json.loads(sys.argv[1])["since"][-1]))
"""


@pytest.mark.thorough  # what the archive holds is seen without executors, too
def test_executors_see_our_code_in_the_archive_alone(tmp_path: Path) -> None:
    """Composed and run by an interpreter and from a directory that know nothing of this tree."""
    python, _ = isolated(tmp_path)
    main = tmp_path / "main.py"
    main.write_text(EXECUTORS)
    code = Code(build(tmp_path / "cache").archive, main)
    program = f"""
import os, sys
sys.path.insert(0, {str(code.archive)!r})
from pathlib import Path
from agent.tools.spark_submit.jobs import Rollup
from agent.tools.spark_submit.command import SubmitSettings, command, environment
from agent.tools.spark_submit.package import Code
from agent.tools.spark_submit.running import run
from agent.tools.spark_submit.spark import find_spark
placing = SubmitSettings(ivy_home=Path("i"), ivy_settings=Path("i"), python=sys.executable, master="local[1]",
                         driver_memory="512m")
spark = find_spark()
code = Code(*map(Path, {tuple(map(str, code))!r}))
job = Rollup(history=('it"s $HOME',), out="o", since="3")
ended = run(command(job, placing, spark, code), {{**os.environ, **environment(placing, spark)}}, code.main, print)
print(*ended.hidden, ended.message, sep="\\n", file=sys.stderr)
sys.exit(ended.code)
"""
    # Python looks at PYTHONPATH for the driver; only Spark's own words may be on it.
    clean = {name: it for name, it in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [python, "-I", "-c", program], capture_output=True, text=True, cwd=tmp_path, env=clean, timeout=START_S * 3
    )
    assert ended.returncode == 3, ended.stdout + ended.stderr
    files, arguments = (json.loads(it.removeprefix("kshadow:")) for it in ended.stdout.splitlines())
    # Spark hands each executor a copy of it.
    assert [it.partition("kshadow.zip/")[2] for it in files] == [
        "agent/core/wire/__init__.py",
        "agent/core/diagnosis/api.py",
        "agent/history/tables.py",
    ]
    assert json.loads(arguments[0])["history"] == ['it"s $HOME']


def test_a_driver_ends_once_its_last_word_was_read() -> None:
    """Spark drops what it has not read by then."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.main", "no job"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert driver.stdout is not None
    with driver.stdout as said:
        select.select([said], [], [], START_S)
        time.sleep(1)
        assert driver.poll() is None
        assert said.read().startswith(b"Error: ")
    assert driver.wait(START_S) == 2


def test_a_directory_that_the_system_does_not_make_is_told_in_one_line(tmp_path: Path) -> None:
    job = {"type": "rollup", "history": [str(tmp_path)], "out": "/proc/none/rollups"}
    ended = subprocess.run(
        [sys.executable, "-m", "spark_jobs.main", json.dumps(job)], cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
        2,
        "Error: /proc/none: No such file or directory",
    ), ended.stderr


STREAM = """
import signal, sys, threading
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
query = spark.readStream.format("rate").load().writeStream.format("noop").start()
print("kshadow: ready", file=sys.stderr, flush=True)
while query.isActive and not asked.is_set():
    query.awaitTermination(0.2)
query.stop()
spark.stop()
print("kshadow: ended in order", file=sys.stderr)
"""
PARENT = """
import json, os, sys
from pathlib import Path
from agent.tools.spark_submit.running import run
command, main = json.loads(sys.argv[1]), Path(sys.argv[2])
print(os.getpid(), flush=True)
ended = run(command, os.environ, main, lambda it: print(it, flush=True))
print(*ended.hidden[-5:], "ended", ended.code)
sys.exit(ended.code)
"""


def started(directory: Path, program: str) -> subprocess.Popen[str]:
    """A parent with Spark below it, once the job has said that it is ready."""
    from agent.tools.spark_submit.spark import find_spark

    main = directory / "main.py"
    main.write_text(program)
    spark = find_spark()
    argv = [str(spark.submit), "--master", "local[1]", "--driver-memory", "512m", str(main)]
    own = {"SPARK_HOME": str(spark.home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, json.dumps(argv), str(main)],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment(), **own, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == str(process.pid)
    assert process.stdout.readline() == "kshadow: ready\n"
    return process


def below(pid: int) -> set[int]:
    """All that a process has started, and what those have."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
    found: set[int] = set()
    new = {pid}
    while new := {it for it, parent in parents.items() if parent in new} - found:
        found |= new
    return found


def test_a_stream_ends_in_order_and_leaves_nothing(tmp_path: Path) -> None:
    """Whatever the signal, the driver gets SIGTERM: test_running.py has the others."""
    process = started(tmp_path, STREAM)
    pids = below(process.pid)
    assert len(pids) >= 3, "the leash, the JVM, the driver"
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=START_S)[0]
    assert (process.returncode, out.splitlines()) == (0, ["kshadow: ended in order", "ended 0"])
    until(lambda: not any(map(alive, pids)))


@pytest.mark.thorough
def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    """test_running.py has it with smaller programs in place of Spark's."""
    process = started(tmp_path, STREAM)
    pids = below(process.pid)
    process.kill()
    process.communicate()
    until(lambda: not any(map(alive, pids)))


def test_a_dry_run_is_pasted_and_runs(tmp_path: Path) -> None:
    """The command reaches the job with what it was told: it is refused by that, not by Spark."""
    (tmp_path / "h").mkdir()
    command = [*COMMAND, "spark", "rollup", "--history", "h", "--out", "it's", "--master", "local[1]", "--dry-run"]
    env = environment(PYTHONPATH=str(ROOT), KSHADOW_CACHE=str(tmp_path / "cache"))
    printed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert (printed.returncode, printed.stderr) == (0, "")
    subprocess.run(["bash", "-n"], input=printed.stdout, text=True, check=True)
    # Where the package's main file would be, one that tells what it was given.
    main = next((tmp_path / "cache").glob("spark/*/main.py"))
    main.write_text(
        "import sys\nfrom agent.tools.spark_submit.jobs import job_of\nprint('kshadow:', job_of(sys.argv[1]).out)\n"
    )
    del env["PYTHONPATH"]
    ran = subprocess.run(["bash", "-c", printed.stdout], capture_output=True, text=True, cwd="/", env=env)
    assert (ran.returncode, ran.stdout) == (0, f"kshadow: {tmp_path}/it's\n"), ran.stderr
