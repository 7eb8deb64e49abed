"""What is looked at before Spark is started, and what is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.kafka.source.errors import SourcePathError
from agent.tools.spark_submit import checks
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.ivy import settings_file
from agent.tools.spark_submit.jobs import Backfill, Job, Report, Rollup
from agent.tools.spark_submit.paths import check_paths, with_absolute_paths
from agent.tools.spark_submit.spark import find_spark
from tests.unit.cli.running import SEGMENTS
from tests.unit.tools.spark_submit.doubles import PLACING, java, release, stream


@pytest.mark.usefixtures("process")
def test_java_of_the_wrong_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(SubmitError, match=f"{home}/bin/java is Java 11, and Spark needs 17: install Java 17"):
        checks.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(home / "bin"), prepend=":")
    with pytest.raises(SubmitError, match="is Java 11"):
        checks.check_java()
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "new", "17.0.1")))
    assert checks.check_java() == f"{tmp_path}/new/bin/java"


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SubmitError, match="Spark runs on Java, and there is no java on PATH: install Java 17"):
        checks.check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SubmitError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        checks.check_java()


def test_the_installed_spark() -> None:
    spark = find_spark()
    assert (spark.version.rpartition(".")[0], spark.scala, spark.has_connector) == ("4.0", "2.13", False)
    assert spark.submit.is_file()


def test_another_spark(tmp_path: Path) -> None:
    home = release(tmp_path / "a", "spark-core_2.13-4.0.0.jar", "spark-sql-kafka-0-10_2.13-4.0.0.jar")
    assert find_spark(home) == (home, "4.0.0", "2.13", True)
    old = release(tmp_path / "b", "spark-core_2.12-3.5.1.jar")
    with pytest.raises(SubmitError, match=rf"{old}: expected Spark 4.0.x, got Spark 3.5.1: install kshadow\[spark\]"):
        find_spark(old)
    for home in (tmp_path / "none", release(tmp_path / "empty")):
        with pytest.raises(SubmitError, match="a Spark release with bin/spark-submit and jars/spark-core_"):
            find_spark(home)


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    # Tests before this one, in the same process, may have imported them, and had a Spark of their own.
    for module in ("pyspark", "pandas", "pyarrow", "duckdb", "matplotlib"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    sys.path_importer_cache.clear()
    with pytest.raises(SubmitError, match=r"pyspark is not installed: install kshadow\[spark\], or set SPARK_HOME"):
        find_spark()
    with pytest.raises(SubmitError, match=r"pandas, pyarrow, duckdb, matplotlib, .*duckdb, matplotlib not"):
        checks.check_modules(Report(rollups="/r", out="/p"), PLACING)
    checks.check_modules(Report(rollups="/r", out="/p"), replace(PLACING, master="yarn", deploy_mode="cluster"))


@pytest.mark.parametrize("job", [Backfill(out="/o"), stream(Path("/s")), Report(rollups="/r", out="/p")])
def test_the_modules_are_there(job: Job) -> None:
    checks.check_modules(job, PLACING)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (Backfill(out="file", paths=(str(SEGMENTS),)), "--out file: expected a directory, or none yet, got a file"),
        (Backfill(out="o", paths=("x.ndjson",)), "--from x.ndjson: expected a .log segment or a directory with some"),
        (Backfill(out="o", archives=("nothing",)), "--archive nothing: expected a file or directory, there is none"),
        (Rollup(out="o", history=("dir", "nothing")), "--history nothing: expected a file or directory"),
        (Rollup(out="file", history=("dir",)), "--out file: expected a directory"),
        (Rollup(out="dir/x", history=("dir",)), "--out dir/x: expected a directory outside of --history dir"),
        (Report(rollups="nothing", out="o"), "--rollups nothing: expected a file or directory"),
        (Report(rollups="dir", out="dir"), "--out dir: expected a file for the page, got a directory"),
        (Report(rollups="dir", out="o", summary="file"), "--summary file: expected a directory"),
        (Report(rollups="dir", out="o", what_if="nothing"), "--whatif nothing: expected a file or directory"),
        (stream(Path("s"), out="file"), "--out file: expected a directory"),
        (stream(Path("s"), checkpoint="file"), "--checkpoint file: expected a directory"),
        (stream(Path("s"), reads="history", history="nothing"), "--history nothing: expected a file or directory"),
    ],
)
def test_places_that_will_not_do(job: Job, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(SubmitError) as error:
        check_paths(job)
    assert said in str(error.value)


def test_paths_without_segments(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "got neither"), (tmp_path / "no", "got nothing")):
        with pytest.raises(SourcePathError, match=said):
            check_paths(Backfill(out="/o", paths=(str(path),)))


def test_places_that_will_do(tmp_path: Path) -> None:
    remote = "s3a://bucket/x"
    check_paths(Backfill(out=str(tmp_path), paths=(str(SEGMENTS),), archives=(remote,)))
    check_paths(Rollup(out=remote, history=(remote,)))
    check_paths(Report(rollups=remote, out=remote, summary=remote, what_if=remote))
    (tmp_path / "history").mkdir()
    check_paths(stream(tmp_path, reads="history", history=str(tmp_path / "history")))
    (tmp_path / "_delta_log").mkdir()
    check_paths(stream(tmp_path, reads="history", history=str(tmp_path)))


def test_local_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = Rollup(history=("a", "/b", "s3a://c"), out="d/../e", since="2026-11-01")
    made = Rollup(history=(f"{tmp_path}/a", "/b", "s3a://c"), out=f"{tmp_path}/e", since="2026-11-01")
    assert with_absolute_paths(job) == made
    assert with_absolute_paths(Report(rollups="r", out="p")) == Report(rollups=f"{tmp_path}/r", out=f"{tmp_path}/p")


def test_where_hadoop_is_configured_paths_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    job = Backfill(out="o", paths=("a",), archives=("/nothing",))
    assert with_absolute_paths(job) == replace_paths(job, f"{tmp_path}/a")
    check_paths(replace_paths(job, str(SEGMENTS)))
    with pytest.raises(SourcePathError, match="got nothing"):
        check_paths(job)


def replace_paths(job: Backfill, path: str) -> Backfill:
    return Backfill(out=job.out, paths=(path,), archives=job.archives)


def test_settings_of_ivy(tmp_path: Path) -> None:
    path = settings_file(tmp_path / "ivy", {})
    text = path.read_text()
    assert "m2compatible" in text
    assert "local" not in text
    assert "root=" not in text
    assert settings_file(tmp_path / "ivy", {}) == path
    assert settings_file(tmp_path / "ivy", {"DEFAULT_ARTIFACT_REPOSITORY": "http://mirror/maven"}) == path
    assert 'root="http://mirror/maven/"' in path.read_text()
    assert [it.name for it in path.parent.iterdir()] == [path.name]
    own = tmp_path / "own.xml"
    own.touch()
    assert settings_file(tmp_path, {"KSHADOW_IVY_SETTINGS": str(own)}) == own
    with pytest.raises(SubmitError, match="KSHADOW_IVY_SETTINGS is /no/such: expected a file, there is none"):
        settings_file(tmp_path, {"KSHADOW_IVY_SETTINGS": "/no/such"})
    with pytest.raises(SubmitError, match=r"cannot write .*--ivy-home names another directory"):
        settings_file(own, {})
