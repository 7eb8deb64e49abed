"""`kshadow spark` at the prompt, up to where Spark would be started."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from agent.cli.commands.spark import spark as group
from agent.core.inference.session_settings import SessionSetting
from agent.tools.spark_submit.checkpoint import claim
from agent.tools.spark_submit.jobs import SECRETS, Backfill, Diagnosis, Job, Kafka, Report, Rollup, Stream, job_of
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.tools.spark_submit.doubles import WritableFileSystem, java, release, stream

pytestmark = pytest.mark.usefixtures("process")  # every submission asks Java for its version

DAY_MS = 86_400_000
FIRST_MS = 1_793_491_200_000
"""2026-11-01T00:00Z."""


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    # Nothing is started here: to look whether there is a Java is enough.
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "java", "17.0.1")))
    (tmp_path / "h").mkdir()


def spark(*arguments: object, env: dict[str, str] | None = None, config: str | None = None) -> Result:
    cache = {"KSHADOW_CACHE": str(Path.cwd() / "cache")}
    before: list[str] = []
    if config is not None:
        Path("kshadow.yaml").write_text(config)
        before = ["--config", "kshadow.yaml"]
    return kshadow(*before, "spark", *arguments, env={**cache, **(env or {})})


def words(*arguments: object, **more: Any) -> list[str]:
    """The command that a dry run prints, as a shell takes it apart."""
    result = spark(*arguments, "--dry-run", "--no-check", **more)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return shlex.split(result.stdout)


def job(*arguments: object, **more: Any) -> Job:
    return job_of(words(*arguments, **more)[-1])


def refused(*arguments: object, **more: Any) -> str:
    result = spark(*arguments, "--dry-run", **more)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def here(name: str) -> str:
    return str(Path.cwd() / name)


def test_a_backfill_of_files() -> None:
    made = job(
        "backfill",
        "--from",
        SEGMENTS,
        "--out",
        "o",
        "--cluster",
        "eu",
        "--overwrite",
        "--tune",
        "rebalance_storm.window_s=60",
        "--broker-config",
        "group.consumer.session.timeout.ms=10000",
    )
    tuned = Diagnosis(tuned={"rebalance_storm.window_s": "60"}, sessions={"consumer": SessionSetting(10_000)})
    assert made == Backfill(out=here("o"), paths=(str(SEGMENTS),), cluster="eu", diagnosis=tuned, overwrite=True)


def test_a_backfill_of_an_archive() -> None:
    assert job("backfill", "--archive", "h", "--archive", "s3a://b/x", "--out", "o") == Backfill(
        out=here("o"), archives=(here("h"), "s3a://b/x")
    )


def test_where_tables_go_and_as_what() -> None:
    asked = ("rollup", "--history", "h")
    assert job(*asked, "--out", "s3a://b/o", "--format", "delta") == Rollup(
        history=(here("h"),), out="s3a://b/o", format="delta"
    )
    assert job(*asked, "--format", "iceberg", "--table", "lake.kafka.kshadow") == Rollup(
        history=(here("h"),), out="lake.kafka.kshadow", format="iceberg"
    )
    assert job("rollup", "--history", "iceberg:a.b.c", "--out", "file:///o") == Rollup(
        history=("iceberg:a.b.c",), out="file:///o"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "s3a://b/o"), "--out s3a://b/o: expected a directory on this machine"),
        (("--out", "hdfs:///o"), "--format delta (or iceberg, with --table) has one"),
        ((), "--out DIR is needed (or KSHADOW_OUT)"),
        (("--format", "iceberg"), "--format iceberg goes with --table CATALOG.DB.PREFIX, and not with --out"),
        (("--format", "iceberg", "--table", "a.b.c", "--out", "o"), "and not with --out"),
        (("--format", "delta", "--table", "a.b.c"), "--table goes with --format iceberg, not with delta"),
        (("--format", "iceberg", "--table", "a.b; DROP"), "expected CATALOG.DB.PREFIX"),
    ],
)
def test_where_tables_cannot_go(arguments: tuple[str, ...], said: str) -> None:
    assert said in " ".join(refused("rollup", "--history", "h", *arguments).split())


def test_a_path_of_this_machine_where_hadoop_says_what_paths_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    said = " ".join(refused("backfill", "--from", SEGMENTS, "--out", "o").split())
    assert f"expected for Parquet a directory on this machine (file://{here('o')})" in said


def test_a_backfill_of_a_topic_with_secrets() -> None:
    arguments = (
        "backfill",
        "--bootstrap-server",
        "b:9092",
        "-X",
        "sasl.password=s3cret",
        "-X",
        "client.id=me",
        "--out",
        "o",
    )
    result = spark(*arguments, "--dry-run", "--no-check")
    assert result.exit_code == 0
    assert "s3cret" not in result.output
    assert result.stderr == f"{SECRETS} must be set where it runs: a JSON object with sasl.password\n"
    properties = {"bootstrap.servers": "b:9092", "client.id": "me"}
    assert job_of(shlex.split(result.stdout)[-1]) == Backfill(out=here("o"), kafka=Kafka(properties=properties))
    said = refused(*arguments, "--deploy-mode", "cluster", "--master", "yarn", "--no-check")
    assert "--deploy-mode cluster: the driver does not see this environment" in said


def test_a_backfill_needs_exactly_one_source() -> None:
    assert "exactly one of --from, --archive, --bootstrap-server is needed; none was given" in refused(
        "backfill", "--out", "o"
    )
    said = refused("backfill", "--out", "o", "--from", SEGMENTS, "--archive", "h")
    assert "--from and --archive were given" in said
    assert "--property goes with --bootstrap-server" in refused(
        "backfill", "--out", "o", "--from", SEGMENTS, "-X", "client.id=x"
    )
    assert job("backfill", "--from", SEGMENTS, "--out", "o", env={"KSHADOW_BOOTSTRAP_SERVER": "b:1"}).kafka is None  # type: ignore[union-attr]


def test_streams() -> None:
    places = ("--out", "o", "--checkpoint", "c")
    kafka = Kafka(properties={"bootstrap.servers": "b:1"})
    made = {"out": here("o"), "checkpoint": here("c")}
    assert job("stream", "--reads", "topic", "--bootstrap-server", "b:1", *places) == Stream(
        reads="topic", kafka=kafka, **made
    )
    more = ("--watermark", "1h", "--trigger", "1500ms", "--available-now", "--max-records", 7, "--events-topic", "e")
    history = ("stream", "--reads", "history-topic", "--history-topic", "t", "--bootstrap-server", "b:1", *places)
    assert job(*history, *more) == Stream(
        reads="history-topic",
        kafka=kafka,
        history_topic="t",
        events_topic="e",
        watermark_s=3600,
        trigger_s=1.5,
        available_now=True,
        most_records=7,
        **made,
    )
    late = job(*history, "--watermark", "1500ms")
    assert isinstance(late, Stream)
    assert late.watermark_s == 2, "whole seconds, and no event that is to be counted is too late"
    files = ("stream", "--reads", "history", "--history", "h", *places)
    assert job(*files) == Stream(reads="history", history=here("h"), **made)
    to_a_topic = job(*files, "--events-topic", "e", "--bootstrap-server", "b:1")
    assert to_a_topic == Stream(reads="history", history=here("h"), kafka=kafka, events_topic="e", **made)
    assert not list(Path.cwd().glob("[oc]")), "a dry run claims nothing"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--reads topic", "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)"),
        ("--reads history --history h --events-topic e", "--bootstrap-server is needed"),
        ("--reads history", "--reads history needs --history"),
        ("--reads history-topic --bootstrap-server b:1", "--reads history-topic needs --history-topic"),
        ("--reads topic --bootstrap-server b:1 --history h", "--history goes with --reads history"),
        ("--reads history --history h --history-topic t", "--history-topic goes with --reads history-topic"),
        ("--reads history --history h --tune a.b=1", "--tune goes with --reads topic"),
        (
            "--reads history --history h --broker-config group.share.session.timeout.ms=1",
            "--broker-config goes with --reads topic",
        ),
        ("--reads history --history iceberg:c.d.p", "a stream reads a directory of Parquet or a Delta table"),
        ("--reads history --history h --watermark 10", "a duration (500ms, 30s"),
        ("--reads history --history h --trigger 1ms", "expected at least 100ms"),
    ],
)
def test_streams_that_make_no_sense(arguments: str, said: str) -> None:
    assert said in refused("stream", *arguments.split(), "--out", "o", "--checkpoint", "c")


def test_a_rollup() -> None:
    days = ("--since", "2026-11-01", "--until", "2026-11-02")
    assert job("rollup", "--history", "h", "--history", "s3a://h", "--out", "o", *days) == Rollup(
        history=(here("h"), "s3a://h"), out=here("o"), since="2026-11-01", until="2026-11-02"
    )
    assert job("rollup", "--history", "h", "--out", "o", "--since", "2026-11-01T23:59-01:00").since == "2026-11-02"  # type: ignore[union-attr]
    today, days_ago = datetime.now(UTC).date(), job("rollup", "--history", "h", "--out", "o", "--until", "2d")
    assert isinstance(days_ago, Rollup)
    # Midnight may come in between.
    assert days_ago.until in {(today - timedelta(days=it)).isoformat() for it in (1, 2)}
    for wrong in ("2026-02-30", "20261101", "today", "99999999w"):
        said = refused("rollup", "--history", "h", "--out", "o", "--since", wrong)
        assert f"expected a day (2026-11-21), or a time or a duration before now, got '{wrong}'" in said
    said = refused("rollup", "--history", "h", "--out", "o", "--since", "2026-11-02", "--until", "2026-11-01")
    assert "--since is later than --until" in said


def test_a_report() -> None:
    paths = ("report", "--rollups", "h", "--out", "p.html")
    assert job(*paths) == Report(rollups=here("h"), out=here("p.html"))
    ranges = ("--before", "2026-11-01..2026-11-02", "--after", "2026-11-03T12:00..2026-11-03T13:00")
    more = ("--since", "2026-11-01", "--until", "2026-11-02", "--timezone", "Europe/Berlin", "--top", 3)
    noon_ms = FIRST_MS + 2 * DAY_MS + DAY_MS // 2
    assert job(*paths, *ranges, *more, "--summary", "s", "--whatif", "h") == Report(
        rollups=here("h"),
        out=here("p.html"),
        summary=here("s"),
        since_ms=FIRST_MS,
        until_ms=FIRST_MS + DAY_MS,
        before=(FIRST_MS, FIRST_MS + 2 * DAY_MS),
        after=(noon_ms, noon_ms + DAY_MS // 24),
        time_zone="Europe/Berlin",
        what_if=here("h"),
        most_groups=3,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--before 2026-11-01..2026-11-02", "--before and --after go together"),
        ("--before 2026-11-01", "expected two times or days (2026-11-01..2026-11-07; UTC unless told)"),
        ("--before 3d..2d", "two times or days"),
        ("--before x..y", "got 'x'"),
        ("--after 2026-11-03..2026-11-01", "the range ends before it begins"),
        ("--timezone Mars/Olympus", "expected a time zone (UTC, Europe/Berlin), got 'Mars/Olympus'"),
        ("--timezone /etc/passwd", "a time zone"),
        ("--since 2026-11-03 --until 2026-11-01", "ends before it begins"),
        ("--driver-memory 2", "expected a size (512m, 2g), got '2'"),
        ("--conf spark", "expected a setting of Spark as KEY=VALUE"),
        ("--packages x", "expected GROUP:ARTIFACT:VERSION, got 'x'"),
    ],
)
def test_reports_that_make_no_sense(arguments: str, said: str) -> None:
    assert said in refused("report", "--rollups", "h", "--out", "p.html", *arguments.split())


def test_how_it_runs() -> None:
    rollup = ("rollup", "--history", "h", "--out", "o")
    more = ("--master", "spark://m:7077", "--packages", "a:b:1, c:d:2", "--ivy-home", "ivy", "--conf", "spark.a=b c")
    argv = words(*rollup, *more, "--driver-memory", "512m")
    text = " ".join(argv)
    for wanted in ("--master spark://m:7077", "--packages a:b:1,c:d:2", "--driver-memory 512m", "--conf spark.a=b c"):
        assert f" {wanted} " in text
    assert f"spark.jars.ivy={here('ivy')}" in argv
    assert f"spark.jars.ivySettings={here('ivy/kshadow-ivysettings.xml')}" in argv
    assert json.loads(argv[-1])["out"] == "o", "its paths are those of another machine"
    zipped = argv[argv.index("--py-files") + 1]
    assert zipped.startswith(here("cache/spark/code-"))
    assert Path(zipped).is_file()


def test_what_is_printed_is_for_a_shell() -> None:
    result = spark("rollup", "--history", "h", "--out", "it's $HOME `x`", "--dry-run")
    assert result.stderr == ""
    subprocess.run(["bash", "-n"], input=result.stdout, text=True, check=True)
    # The program is `printf`: a shell's own words are seen.
    line = result.stdout.replace(shlex.split(result.stdout)[2], "printf '%s\\n'", 1)
    seen = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.splitlines()
    assert seen[:2] == ["--master", "local[*]"]
    assert job_of(seen[-1]) == Rollup(history=(here("h"),), out=here("it's $HOME `x`"))


def test_the_files_sections() -> None:
    section = "spark:\n  master: yarn\n  conf: {spark.a: 1}\n  trigger: 5s\n  out: x\n"
    config = f"{section}  rollup:\n    history: [a, b]\n    out: o\n"
    argv = words("rollup", config=config)
    assert argv[argv.index("--master") + 1] == "yarn"
    assert "spark.a=1" in argv
    assert job_of(argv[-1]) == Rollup(history=("a", "b"), out="o")
    assert job("report", "--rollups", "r", config=config) == Report(rollups="r", out="x")
    said = refused("rollup", config="spark:\n  mister: yarn\n")
    assert "spark: unknown key 'mister'; did you mean 'master'?" in said
    said = refused("rollup", config="spark:\n  rollup:\n    top: 3\n")
    assert "spark: rollup: unknown key 'top'; known are check, conf, deploy-mode, " in said
    said = refused("rollup", config="spark:\n  rollup: yes\n")
    assert "spark: unknown key 'rollup'" in said


def test_no_java_and_another_spark(tmp_path: Path) -> None:
    rollup = ("rollup", "--history", "h", "--out", "o")
    said = refused(*rollup, env={"JAVA_HOME": str(java(tmp_path / "j", "11.0.2"))})
    assert "is Java 11, and Spark needs 17" in said
    old = release(tmp_path / "s", "spark-core_2.12-3.5.1.jar")
    for more in ({"env": {"SPARK_HOME": str(old)}}, {"env": {"KSHADOW_SPARK_HOME": str(old)}}):
        assert "expected Spark 4.0.x, got Spark 3.5.1" in refused(*rollup, **more)
    assert "expected Spark 4.0.x" in refused(*rollup, "--spark-home", old)
    wrong = "org.apache.spark:spark-sql-kafka-0-10_2.12:4.0.0"
    assert "built for Scala 2.13, got one for 2.12" in refused(*rollup, "--packages", wrong)


def test_places_are_looked_at_before(tmp_path: Path) -> None:
    assert "--history no: expected a file or directory" in refused("rollup", "--history", "no", "--out", "o").replace(
        f"{tmp_path}/", ""
    )
    said = refused("backfill", "--from", "h", "--out", "o")
    assert "expected .log segments, or directories __consumer_offsets-N with some, got neither" in said
    (tmp_path / "c" / "offsets").mkdir(parents=True)
    said = refused("stream", "--reads", "history", "--history", "h", "--out", "o", "--checkpoint", "c")
    assert "got a directory of others" in said


def test_brokers_that_nobody_reaches() -> None:
    result = spark("backfill", "--bootstrap-server", "127.0.0.1:1", "--out", "o")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("Error: ")
    assert "127.0.0.1:1" in result.stderr


def a_spark(home: Path, script: str) -> Path:
    """A release whose spark-submit is a shell script."""
    release(home, "spark-core_2.13-4.0.5.jar", "spark-sql-kafka-0-10_2.13-4.0.0.jar")
    submit = home / "bin" / "spark-submit"
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)
    return home


def test_it_runs_and_gives_the_jobs_code(tmp_path: Path) -> None:
    script = f'echo chatter; echo "kshadow: $SPARK_HOME $SPARK_LOCAL_IP ${SECRETS}" >&2; echo "Error: no"; exit 3'
    home = a_spark(tmp_path / "spark", script)
    source = ("--bootstrap-server", "b:1", "-X", "sasl.password=s3", "--no-check")
    places = ("--out", "o", "--checkpoint", "c")
    result = spark("stream", "--reads", "topic", *source, *places, "--spark-home", home)
    said = f'kshadow: {home} 127.0.0.1 {{"sasl.password": "s3"}}\nError: no\n'
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", said)
    claim(stream(tmp_path, out=f"{tmp_path}/o", checkpoint=f"{tmp_path}/c"), WritableFileSystem())
    changed = spark("stream", "--reads", "topic", *source, *places, "--spark-home", home, "--cluster", "eu")
    assert changed.exit_code == 2
    assert "made with other settings (cluster: none then, eu now)" in changed.stderr


def test_what_spark_said_is_told_where_the_job_said_nothing(tmp_path: Path) -> None:
    home = a_spark(tmp_path / "spark", "printf 'one\\n\\033[31mtwo\\n'; exit 137")
    rollup = ("rollup", "--history", "h", "--out", "o", "--spark-home", home)
    result = spark(*rollup)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "the last 2 lines of Spark (--verbose shows all):\n  one\n  \\u001b[31mtwo\n"
        "Error: spark-submit ended with exit code 137\n"
    )
    verbose = spark(*rollup, "--verbose").stderr.splitlines()
    assert verbose[0].startswith(f"Spark 4.0.5 for Scala 2.13 at {home}; {tmp_path}/java/bin/java; our code in ")
    assert verbose[1:] == ["one", "\\u001b[31mtwo", "Error: spark-submit ended with exit code 137"]


def test_a_spark_that_does_not_start(tmp_path: Path) -> None:
    home = a_spark(tmp_path / "spark", "")
    (home / "bin" / "spark-submit").chmod(0o644)
    said = spark("rollup", "--history", "h", "--out", "o", "--spark-home", home)
    assert said.exit_code == 2
    assert "spark-submit: cannot be run: Permission denied" in said.stderr


@pytest.mark.parametrize("name", ["backfill", "stream", "rollup", "report"])
def test_help_fits_a_terminal_and_its_examples_parse(name: str) -> None:
    help_text = spark(name, "--help").stdout
    wide = [row for row in help_text.splitlines() if len(row) > 80]
    assert not [row for row in wide if not row.strip().startswith("kshadow ")]
    found = re.findall(r"^ +kshadow spark (.*)$", help_text, re.MULTILINE)
    assert found
    for line in found:
        command, *arguments = shlex.split(line)
        assert command == name
        group.commands[command].make_context(command, arguments, parent=click.Context(group))
