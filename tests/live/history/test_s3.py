"""History and rollups on an object store, read without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import s3fs
from deltalake import write_deltalake

from agent.common.units import DAY_MS, HOUR_MS
from agent.history import opening, rollup
from agent.history.tables import ROLLED_UP
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.filesystems import store_error_text
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.parquet_sink import ParquetSink
from tests import ROOT
from tests.answering import Handler, web_server
from tests.harness.s3 import BUCKET
from tests.unit.cli.running import kshadow
from tests.unit.history.histories import START_MS, events_of, segments, write
from tests.unit.presentation.narrative.test_origins import origin

ROLLUPS = f"s3://{BUCKET}/rollups"
SUM = "SELECT count(*) AS n, sum(rebalances) AS rebalances FROM groups"


@pytest.fixture(scope="module", autouse=True)
def s3() -> Iterator[None]:
    command = [sys.executable, "-m", "tests.harness.s3"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with mock.patch.dict(os.environ, json.loads(process.stdout.readline())):
            yield
        process.stdin.close()


@pytest.fixture
def connects_anew() -> Iterator[None]:
    """fsspec keeps clients of a store, with the endpoint and login that they had."""
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    s3fs.S3FileSystem.clear_instance_cache()


def test_parquet_and_delta_on_s3_are_as_they_are_here(tmp_path: Path) -> None:
    history = write(events_of(segments(tmp_path / "segments")), tmp_path / "history")
    # Quiet hours behind the last event, which only the writers' clock tells of.
    ParquetSink(str(history)).tell_clock(LogClock("agent", None, START_MS + 2 * DAY_MS + DAY_MS // 2))
    s3fs.S3FileSystem().put(str(history), f"{BUCKET}/history", recursive=True)
    here, there = tmp_path / "here", tmp_path / "there"
    for out, source in ((here, history), (there, f"s3a://{BUCKET}/history")):
        done = kshadow("history", "rollup", "--history", source, "--out", out)
        assert (done.exit_code, done.stderr) == (0, "")
    for name in ROLLED_UP:
        table = ds.dataset(here / name, format="parquet", partitioning="hive").to_table()
        for _ in range(2):  # what was replaced still lies there
            write_deltalake(
                f"{ROLLUPS}/{name}",
                table,
                mode="overwrite",
                partition_by=["date"],
                storage_options={"allow_http": "1"},
            )
    answers = [
        kshadow("history", "query", "--rollups", it, "-o", "json", SUM).stdout for it in (here, there, ROLLUPS)
    ]
    assert json.loads(answers[0])[0]["rebalances"] > 0
    assert answers[1:] == answers[:1] * 2


@pytest.mark.usefixtures("connects_anew")
def test_what_an_agent_writes_between_two_listings_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store's client keeps what it has listed, and takes a name that is new for no file."""
    place, dates = f"s3://{BUCKET}/meanwhile", list[list[str] | None]()

    def write_hour(hour: int) -> None:
        group = {"schema": 1, "cluster": None, "group": "g", "group_type": "consumer", "partition": 1, "offset": hour}
        at_ms = START_MS + hour * HOUR_MS + 1
        event = {**group, "event_id": str(hour), "type": "rebalance", "at_ms": at_ms, "members": 2}
        history = write([event], tmp_path / str(hour))
        ParquetSink(str(history)).tell_clock(LogClock("agent", None, at_ms + HOUR_MS))
        agent = s3fs.S3FileSystem(skip_instance_cache=True)
        agent.put(f"{history}/", f"{BUCKET}/meanwhile", recursive=True)

    def dates_of(path: str) -> list[str] | None:
        dates.append(opening.dates_of(path))
        write_hour(3)
        return dates[-1]

    write_hour(0)
    monkeypatch.setattr(rollup, "dates_of", dates_of)
    rollup.roll_up([place], str(tmp_path / "out"), None, None, now_ms=START_MS + DAY_MS, memory_mb=256)
    hours = ds.dataset(tmp_path / "out" / "groups", format="parquet").to_table(filter=ds.field("window") == "1h")
    assert (len(dates), hours["rebalances"].to_pylist()) == (1, [1, 0, 0, 1])


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """S3 of a region where the bucket is not."""

    class Redirection(Handler):
        def do_GET(self) -> None:
            body = b"<Error><Code>PermanentRedirect</Code><Message>Use the\nspecified endpoint.</Message></Error>"
            headers = {"x-amz-bucket-region": "eu-west-1", "Content-Length": str(len(body))}
            self.say(301, b"" if self.command == "HEAD" else body, headers)

        do_HEAD = do_PUT = do_GET

    with web_server(Redirection) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        yield


@pytest.mark.usefixtures("connects_anew", "elsewhere")
def test_a_bucket_of_another_region() -> None:
    """Botocore's words, which name an endpoint that they do not have, and what to set."""
    done = kshadow("timeline", "a", "--from", f"s3://{BUCKET}/history")
    assert done.exit_code == 3
    what_to_do = "the bucket is in eu-west-1: set AWS_REGION and AWS_DEFAULT_REGION to its region\n"
    assert done.stderr.endswith(f"specified endpoint.: {what_to_do}")
    with pytest.raises(SinkDown, match="set AWS_REGION and AWS_DEFAULT_REGION"):
        ParquetSink(f"s3://{BUCKET}/history").tell_clock(LogClock("agent", None, START_MS))
    # delta-rs lets no other thread of a process run while it waits.
    text = "Generic S3 error - Received redirect without LOCATION, this normally indicates …"
    assert store_error_text(OSError(text)).endswith(
        "is in another region: set AWS_REGION and AWS_DEFAULT_REGION to its region"
    )


def test_a_bucket_that_is_not_there_is_told_in_one_line() -> None:
    done = kshadow("history", "query", "--rollups", f"s3://absent/{BUCKET}", SUM)
    assert done.exit_code == 2
    assert "Error: s3://absent/lake/groups: cannot be read: " in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.usefixtures("connects_anew")
@pytest.mark.parametrize("command", [("timeline", "a", "--from"), ("history", "query", "SELECT 1", "--history")])
def test_a_store_that_cannot_be_reached_is_told_in_one_line(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By boto, whose errors are none of the system's, as by delta-rs."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    done = kshadow(*command, f"s3://{BUCKET}/away")
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, line.startswith(f"Error: s3://{BUCKET}/away: cannot be read: ")) == (3, True), done.stderr


@pytest.mark.usefixtures("connects_anew")
def test_a_store_for_which_there_is_no_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    done = kshadow("timeline", "a", "--from", f"s3://{BUCKET}/no-login")
    assert (done.exit_code, done.stderr) == (
        3,
        f"Error: s3://{BUCKET}/no-login: cannot be read: Unable to locate credentials\n",
    )


def test_an_endpoint_without_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio:9000")
    done = kshadow("history", "query", "--history", f"s3://{BUCKET}/history", "SELECT 1")
    said = f"s3://{BUCKET}/history: AWS_ENDPOINT_URL: expected http://HOST:PORT or https://…, got 'minio:9000'"
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_store_that_nobody_knows() -> None:
    done = kshadow("timeline", "a", "--from", "nowhere://lake/history")
    assert done.exit_code == 2
    assert "expected a directory or a URL that fsspec knows: Protocol not known: nowhere" in done.stderr


def test_files_on_s3_whose_columns_differ_are_read_as_here(tmp_path: Path) -> None:
    """Columns that a later file has are read of it, and one that it lacks is told of, not read as nothing."""
    events = events_of(segments(tmp_path / "segments", groups=3, days=1))
    for number, event in enumerate(events):
        if event["type"] == "member_left":
            event["member"] = {**event["member"], "origin": origin("oom_killed")}
        event["at_ms"] += DAY_MS * (number >= len(events) // 2)
    history = write(events, tmp_path / "history")
    first, *later = sorted(history.rglob("*.parquet"))
    pq.write_table(pq.read_table(first, partitioning=None).drop_columns(["origins"]), first)
    s3fs.S3FileSystem().put(str(history), f"{BUCKET}/differing", recursive=True)
    origins = "SELECT count(origins) AS n FROM history"
    places = (history, f"s3://{BUCKET}/differing")
    counts = [json.loads(kshadow("history", "query", "--history", it, "-o", "json", origins).stdout) for it in places]
    assert counts[0] == counts[1] != [{"n": 0}]
    for place, out in zip(places, ("here", "there"), strict=True):
        assert kshadow("history", "rollup", "--history", place, "--out", tmp_path / out).exit_code == 0
    tables = [ds.dataset(tmp_path / it / "causes", format="parquet").to_table() for it in ("here", "there")]
    assert "origin" in tables[0]["kind"].to_pylist()
    assert tables[0].to_pylist() == tables[1].to_pylist()

    pq.write_table(pq.read_table(later[-1], partitioning=None).drop_columns(["stopped_partition_ms"]), later[-1])
    s3fs.S3FileSystem().put(str(later[-1]), f"{BUCKET}/differing/{later[-1].relative_to(history)}")
    for place in (history, f"s3://{BUCKET}/differing"):
        done = kshadow("history", "rollup", "--history", place, "--out", tmp_path / "refused")
        said = (
            f"{place}/{later[-1].relative_to(history)}: not the columns that are read: expected stopped_partition_ms"
        )
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_what_is_not_on_s3_is_told_as_of_what_is_not_here() -> None:
    done = kshadow("history", "query", "--history", f"s3://{BUCKET}/nothing", "FROM history")
    assert done.exit_code == 2
    assert f"Error: s3://{BUCKET}/nothing is not there: expected a table of history" in done.stderr
