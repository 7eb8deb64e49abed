"""`--from DIR` of a directory of history: the same answers as of the records, but for how groups stand."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from agent.cli.text import iso_time
from agent.common.clock import now_ms
from agent.common.units import DAY_MS
from agent.core.events.events import SCHEMA, Event
from agent.core.events.samples import GroupLagTotal, GroupSample, sample_event
from agent.history.engine import database
from agent.history.errors import NO_HISTORY
from agent.history.opening import View, open_tables
from agent.persistence.export.arrow import HISTORY
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.parquet_sink import ParquetSink
from tests.unit.cli.running import kshadow
from tests.unit.history.histories import START_MS, events_of, segments, write


class Place(NamedTuple):
    records: Path
    history: Path
    delta: Path
    group: str
    """The one that rebalanced most."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    where = tmp_path_factory.mktemp("tables")
    records = segments(where / "segments")
    events = events_of(records)
    history = write(events, where / "history")
    write(events[::3], history)  # once more, as an agent that crashed does
    write_deltalake(
        where / "delta", ds.dataset(history, format="parquet", partitioning="hive").to_table(), partition_by=["date"]
    )
    counts: dict[str, int] = {}
    for event in events:
        if event["type"] == "rebalance":
            counts[event["group"]] = counts.get(event["group"], 0) + 1
    return Place(records, history, where / "delta", max(counts, key=lambda group: counts[group]))


def rows(*arguments: object) -> list[dict[str, Any]]:
    done = kshadow(*arguments, "-o", "json")
    assert (done.exit_code, done.stderr) == (0, ""), done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_timeline_is_that_of_the_records(place: Place) -> None:
    expected = rows("timeline", place.group, "--from", place.records)
    assert len(expected) > 10
    assert rows("timeline", place.group, "--from", place.history) == expected
    by_id = {event["event_id"]: event for event in expected}
    assert {event["event_id"]: event for event in rows("timeline", place.group, "--from", place.delta)} == by_id
    first, last = expected[3]["at_ms"], expected[-4]["at_ms"]
    bounds = ("--since", first, "--until", last)
    part = rows("timeline", place.group, "--from", place.history, *bounds)
    assert part == rows("timeline", place.group, "--from", place.records, *bounds)
    assert 0 < len(part) < len(expected)


def test_a_time_after_the_last_that_has_a_date_bounds_nothing(place: Place) -> None:
    asked = ("timeline", place.group, "--from", place.history, "-o", "json")
    assert kshadow(*asked, "--until", 10**16).stdout == kshadow(*asked).stdout != "[]\n"


def test_findings_are_those_that_were_found(place: Place) -> None:
    bounds = ("--since", "2026-07-06")
    assert rows("findings", "--from", place.history, *bounds) == rows("findings", "--from", place.records, *bounds)


def test_a_story_says_what_it_does_not_know(place: Place) -> None:
    of_records = kshadow("explain", place.group, "--from", place.records, "--no-whatif", "-o", "json")
    of_tables = kshadow("explain", place.group, "--from", place.history, "-o", "json")
    assert (of_tables.exit_code, of_tables.stderr) == (0, "")
    expected, story = json.loads(of_records.stdout), json.loads(of_tables.stdout)
    for name in ("rebalances", "joined", "departed"):
        assert story["numbers"].get(name) == expected["numbers"].get(name)
    assert story["state"] is None
    said = kshadow("explain", place.group, "--from", place.history, "--full").stdout
    assert f"It does not contain the state and the members of `{place.group}`." in " ".join(said.split())
    assert "no longer exists" not in said


def test_a_report_of_tables(place: Place, tmp_path: Path) -> None:
    done = kshadow("report", "--from", place.history, "--out", tmp_path / "page.html", "--top", 2)
    assert (done.exit_code, done.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert place.group in page
    assert "not known" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("groups",), "history tables tell what happened and not how groups stand"),
        (("describe", "g"), "kshadow timeline, explain, findings, report and verdict read them"),
        (("findings", "--tune", "rebalance_storm.window_s=60"), "history tables hold what was found"),
    ],
)
def test_what_tables_cannot_tell(place: Place, arguments: tuple[str, ...], said: str) -> None:
    done = kshadow(*arguments, "--from", place.history)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_group_that_is_not_there(place: Place) -> None:
    done = kshadow("timeline", place.group[:-1], "--from", place.history)
    assert done.exit_code == 1
    assert f"did you mean '{place.group}'" in done.stderr


def test_a_group_of_later_days_is_not_denied(place: Place, tmp_path: Path) -> None:
    later = [it for it in events_of(place.records) if it["group"] != place.group or it["at_ms"] >= START_MS + DAY_MS]
    write(later, tmp_path)
    assert rows("timeline", place.group, "--from", tmp_path)
    done = kshadow("timeline", place.group, "--from", tmp_path, "--until", START_MS + DAY_MS - 1)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"no group '{place.group}' in {tmp_path}, which was read up to 2026-07-06;" in done.stderr


def test_names_that_are_no_utf8(place: Place, tmp_path: Path) -> None:
    """Of rows that have such a text all texts are written otherwise; a name that looks so is another group's."""
    names = ["bad\udcffname", "bad\\udcffname", "back\\slash"]
    events = events_of(place.records)
    groups = sorted({it["group"] for it in events if it["group"] is not None})
    renamed = dict(zip(groups, names, strict=False))
    for number, event in enumerate(events):
        event["group"] = renamed.get(event["group"], event["group"])
        if event["group"] == names[2] and number % 2:
            event["of_tomorrow"] = "\udcff"
        event["cluster"] = "a\\b"
    history = write(events, tmp_path / "history")
    for name in names:
        expected = [it["event_id"] for it in events if it["group"] == name]
        assert expected
        assert [it["event_id"] for it in rows("timeline", name, "--from", history)] == expected
    done = kshadow("timeline", "back\\slas", "--from", history)
    assert f"did you mean {names[2]!r}" in done.stderr
    done = kshadow("report", names[0], "--from", history, "--out", tmp_path / "page.html")
    assert (done.exit_code, done.stderr) == (0, "")


def test_two_clusters_with_one_name(place: Place, tmp_path: Path) -> None:
    events = [event for event in events_of(place.records) if event["group"] == place.group]
    for cluster in ("east", "we\x1bst"):
        write([{**event, "cluster": cluster, "event_id": event["event_id"] + cluster} for event in events], tmp_path)
    for command in (("timeline", place.group), ("explain", place.group), ("report", "--out", tmp_path / "page.html")):
        done = kshadow(*command, "--from", tmp_path)
        assert done.exit_code == 2
        assert f"several clusters have a group '{place.group}'" in done.stderr
        assert "\x1b" not in done.stderr
    # Another one is no reason to say nothing of a group.
    alone = [{**event, "cluster": "east", "group": "alone"} for event in events]
    write(alone, tmp_path)
    for command in (
        ("timeline", "alone"),
        ("explain", "alone"),
        ("report", "alone", "--out", tmp_path / "page.html"),
    ):
        done = kshadow(*command, "--from", tmp_path)
        assert (done.exit_code, done.stderr) == (0, "")
    assert "alone" in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = kshadow("report", "alone", place.group, "--from", tmp_path, "--out", tmp_path / "both.html")
    assert (done.exit_code, f"several clusters have a group '{place.group}'" in done.stderr) == (2, True)


def test_samples_are_no_events(place: Place, tmp_path: Path) -> None:
    events = events_of(place.records)
    last_ms = events[-1]["at_ms"]

    def sample(group: str, at_ms: int) -> Event:
        lag = GroupLagTotal(1, 1, 5, 1.0)
        return sample_event(GroupSample(at_ms, 3, 7, group, "classic", "Stable", 2, 1.0, None, lag, at_ms))

    write([*events, *(sample(group, last_ms + ms) for group in (place.group, "quiet") for ms in (60, 120))], tmp_path)
    told = ("timeline", place.group, "--from")
    assert rows(*told, tmp_path) == rows(*told, place.history)
    assert rows("timeline", "quiet", "--from", tmp_path) == []
    done = kshadow("report", "--from", tmp_path, "--out", tmp_path / "page.html", "--top", 0)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "quiet" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_time_goes_on_after_the_last_event(place: Place, tmp_path: Path) -> None:
    events = events_of(place.records)
    last_ms = events[-1]["at_ms"]
    write(events, tmp_path)
    sink = ParquetSink(str(tmp_path))

    def told() -> int:
        return len(rows("timeline", place.group, "--from", tmp_path, "--since", "1d"))

    def ends(*until: object) -> str:
        said = kshadow("explain", place.group, "--from", tmp_path, "--full", *until)
        return " ".join(said.stdout.split()).partition("The history ends at ")[2].partition(" UTC")[0]

    assert 0 < told() < len(rows("timeline", place.group, "--from", tmp_path))
    ended = ends()
    sink.tell_clock(LogClock("agent", None, START_MS + 3 * DAY_MS))
    assert told() == 0
    assert ends() == "2026-07-09 00:00:00"
    assert ends("--until", last_ms) == ended, "as it was then"
    sink.tell_clock(LogClock("agent", None, now_ms() + 30 * DAY_MS))
    assert ends() < iso_time(now_ms() + DAY_MS), "no later than now"


def test_what_replaces_a_clock_just_then_ends_no_command(place: Place, tmp_path: Path) -> None:
    """Where a file cannot be moved over another, as of Spark's streams, there is none in between."""
    write([it for it in events_of(place.records) if it["group"] == place.group][:9], tmp_path / "history")
    ParquetSink(str(tmp_path / "history")).tell_clock(LogClock("agent", None, START_MS + DAY_MS))
    (tmp_path / "history" / "_clock" / "stream-0.json").symlink_to(".stream-0.json.writing")
    assert rows("timeline", place.group, "--from", tmp_path / "history")
    done = kshadow("history", "rollup", "--history", tmp_path / "history", "--out", tmp_path / "rollups")
    assert (done.exit_code, "is not there" in done.stderr) == (0, False), done.stderr


def test_an_event_of_a_time_that_cannot_be_ends_no_history(place: Place, tmp_path: Path) -> None:
    """`--since` counts from the end: of a history of last year nothing would be found."""
    bounds = ("timeline", place.group, "--since", "1d", "--from")
    expected = rows(*bounds, place.history)
    assert expected
    history = shutil.copytree(place.history, tmp_path / "history")
    newest = max(rows("timeline", place.group, "--from", place.history), key=lambda event: event["at_ms"])
    write([{**newest, "event_id": "ahead", "at_ms": 253_402_300_799_000}], history)
    assert [event for event in rows(*bounds, history) if event["event_id"] != "ahead"] == expected


def test_of_an_event_that_was_told_twice_rollups_and_answers_take_the_same(place: Place, tmp_path: Path) -> None:
    events = [event for event in events_of(place.records) if event["group"] == place.group]
    less = [{**it, "cause": "unknown", "sync_ms": None} if it["type"] == "rebalance" else it for it in events]
    for number, portions in enumerate(([events, less], [less, events])):
        history, out = tmp_path / f"history-{number}", tmp_path / f"rollups-{number}"
        for portion in portions:
            write(portion, history)
        assert rows("timeline", place.group, "--from", history) == events
        # The second day alone has what went before as its newest events.
        for days in ((), ("--since", "2026-07-07")):
            done = kshadow("history", "rollup", "--history", history, "--out", out, *days)
            assert done.exit_code == 0, done.stderr
            counted = {
                it["cause"]
                for it in rows("history", "query", "--rollups", out, "FROM causes WHERE kind = 'rebalance'")
            }
            assert counted == {it["cause"] for it in events if it["type"] == "rebalance"}


def test_what_looks_showed_and_was_told_again_is_of_its_first_time(place: Place, tmp_path: Path) -> None:
    """As an agent that cannot read the topic tells it again when it goes on from a snapshot; rollups count it so."""
    seen = [
        {**it, "partition": None, "offset": None, "sampled": True, "sampled_every_ms": 1_000}
        for it in events_of(place.records)
        if it["group"] == place.group and it["type"] != "finding" and it["at_ms"] < START_MS + DAY_MS // 2
    ]
    for later_ms in (0, 3 * 3_600_000, 6 * 3_600_000):
        write([{**it, "at_ms": it["at_ms"] + later_ms} for it in seen], tmp_path)
    told = rows("timeline", place.group, "--from", tmp_path)
    assert {it["event_id"]: it["at_ms"] for it in told} == {it["event_id"]: it["at_ms"] for it in seen}
    assert len(told) == len(seen) > 10


def test_what_may_not_be_read_is_told(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rollups = tmp_path / "rollups"
    assert kshadow("history", "rollup", "--history", place.history, "--out", rollups).exit_code == 0
    write(events_of(place.records)[:9], tmp_path / "clock")
    (tmp_path / "clock" / "_clock").symlink_to("_clock")
    listed = os.scandir

    def scandir(path: Any) -> Any:
        # Root, who runs tests in containers, may read everything.
        if str(path).endswith("date=2026-07-07"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    day, out = "date=2026-07-07: Permission denied", tmp_path / "page.html"
    for said, *arguments in (
        (day, "timeline", place.group, "--from", place.history),
        (day, "history", "query", "--history", place.history, "FROM history"),
        (day, "history", "query", "--rollups", rollups, "FROM groups"),
        (day, "history", "report", "--rollups", rollups, "--out", out, "--since", "2026-07-01"),
        (day, "history", "rollup", "--history", place.history, "--out", tmp_path / "more"),
        ("_clock: ", "timeline", place.group, "--from", tmp_path / "clock"),
        ("_clock: ", "history", "rollup", "--history", tmp_path / "clock", "--out", tmp_path / "more"),
    ):
        done = kshadow(*arguments)
        assert (done.exit_code, done.stdout) == (3, ""), arguments
        assert said in done.stderr


def test_files_that_are_no_history(place: Place, tmp_path: Path) -> None:
    done = kshadow("rollup", "--from", place.history)
    assert done.exit_code == 2
    rolled = kshadow("history", "rollup", "--history", place.history, "--out", tmp_path)
    assert rolled.exit_code == 0
    done = kshadow("timeline", "g", "--from", tmp_path / "groups")
    assert done.exit_code == 2
    assert "not the columns that are read: there is none of schema, event_id, type, " in done.stderr


@pytest.mark.parametrize("name", ["confidence", "joined", "summary", "topic"])
def test_a_file_that_lacks_a_column_is_refused_by_its_name(place: Place, tmp_path: Path, name: str) -> None:
    """Beside files that have it: there its events would have nothing."""
    history = tmp_path / "history"
    shutil.copytree(place.history, history)
    file = sorted(history.rglob("*.parquet"))[0]
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns([name]), file)
    done = kshadow("explain", place.group, "--from", history)
    assert done.exit_code == 2
    assert f"{file}: not the columns that are read: there is none of {name}" in done.stderr


def test_many_files_take_no_more_memory_than_few(place: Place, tmp_path: Path) -> None:
    """DuckDB would keep the footers of all, 200 kB each: an agent writes 100,000 files a year."""

    def resident_mb() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1_000_000

    file = sorted(place.history.rglob("*.parquet"))[0]
    for number in range(1_000):
        target = tmp_path / file.parent.name / f"{number}.parquet"
        target.parent.mkdir(exist_ok=True)
        target.hardlink_to(file)
    with database() as db:
        before_mb = resident_mb()
        with open_tables(db, [str(tmp_path)], {"": View("history", None, NO_HISTORY)}):
            (events,) = db.execute("SELECT count(event_id) FROM history").fetchone()
            assert resident_mb() - before_mb < 100
    assert events == 1_000 * pq.read_metadata(file).num_rows


@pytest.mark.parametrize("command", ["explain", "timeline"])
def test_events_of_a_newer_schema_are_refused(place: Place, tmp_path: Path, command: str) -> None:
    history = tmp_path / "history"
    shutil.copytree(place.history, history)
    file = sorted(history.rglob("*.parquet"))[0]
    rows = pq.read_table(file, partitioning=None)
    newer = pa.array([SCHEMA + 1] * rows.num_rows, pa.int32())
    pq.write_table(rows.set_column(rows.schema.get_field_index("schema"), "schema", newer), file)
    done = kshadow(command, place.group, "--from", history)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"expected events of schema version {SCHEMA}, got version {SCHEMA + 1}" in done.stderr


@pytest.mark.parametrize("column", ["event_id", "at_ms", "group"])
def test_a_file_that_is_damaged_within_is_named(place: Place, tmp_path: Path, column: str) -> None:
    """Its end, where the columns stand, is sound: that is met as rows are read."""
    history = tmp_path / "history"
    shutil.copytree(place.history, history)
    file = sorted(history.rglob("*.parquet"))[-1]
    found = pq.ParquetFile(file)
    chunk = found.metadata.row_group(0).column(found.schema_arrow.names.index(column))
    body = bytearray(file.read_bytes())
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    body[begin : begin + chunk.total_compressed_size] = b"\xa5" * chunk.total_compressed_size
    file.write_bytes(body)
    for arguments in (
        ("findings", "--from", history),
        ("timeline", place.group, "--from", history),
        ("history", "query", "--history", history, f'SELECT max("{column}"::VARCHAR) FROM history'),
        ("history", "rollup", "--history", history, "--out", tmp_path / "rollups"),
    ):
        done = kshadow(*arguments)
        assert done.exit_code == 2, arguments
        assert f"Error: {file}: expected a Parquet file, this one is damaged: " in done.stderr


@pytest.mark.parametrize("text", ['{"a"', "[1]", "[" * 100_000])
def test_an_event_with_something_else_in_it_is_named(place: Place, tmp_path: Path, text: str) -> None:
    history = tmp_path / "history"
    shutil.copytree(place.history, history)
    file = sorted(history.rglob("*.parquet"))[-1]
    table = pq.read_table(file, partitioning=None)
    at = table.column_names.index("extra")
    extra = pa.array([text] * table.num_rows, table.schema.field("extra").type)
    pq.write_table(table.set_column(at, "extra", extra), file)
    done = kshadow("findings", "--from", history)
    assert done.exit_code == 2
    said = done.stderr.splitlines()[-1]
    assert said.startswith("Error: event '")
    assert f"in {history}: expected an event as kshadow writes it, its columns of JSON hold something else: " in said


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("advice", pa.array([5])),  # of another type
        ("causes", pa.array([None], pa.list_(pa.string()))),  # nothing where there must be something
        ("numbers", pa.array(["5"])),  # JSON that is none of its kind
        ("origins", pa.array([5])),  # no JSON
    ],
)
def test_an_event_of_other_columns_is_named(place: Place, tmp_path: Path, column: str, value: pa.Array) -> None:
    """They ended with tracebacks, each with its own."""
    history = tmp_path / "history"
    shutil.copytree(place.history, history)
    for file in history.rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        values = pa.concat_arrays([value] * table.num_rows)
        at = table.column_names.index(column) if column in table.column_names else table.num_columns
        there = table.drop_columns([column]) if at < table.num_columns else table
        pq.write_table(there.add_column(at, column, values), file)
    done = kshadow("report", "--from", history, "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert f"in {history}: expected an event as kshadow writes it, its columns " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("column", ["schema", "event_id", "type", "cluster", "group", "at_ms", "escaped"])
@pytest.mark.parametrize("form", ["files", "delta"])
def test_a_column_that_is_compared_has_its_type(place: Place, tmp_path: Path, form: str, column: str) -> None:
    """Lists in it ended in tracebacks, or events of no group were told."""
    history = tmp_path / "history"
    table = ds.dataset(place.history, format="parquet", partitioning="hive").to_table()
    lists = pa.array([[str(it)] for it in table[column].to_pylist()])
    table = table.set_column(table.column_names.index(column), column, lists)
    if form == "delta":
        write_deltalake(history, table, partition_by=["date"])
    else:
        pq.write_to_dataset(table, history, partition_cols=["date"])
    for command in (("timeline", place.group), ("findings",), ("report", "--out", tmp_path / "page.html")):
        done = kshadow(*command, "--from", history)
        assert done.exit_code == 2, command
        kind = HISTORY.field(column).type
        assert f": column {column}: expected {kind}, got list<" in done.stderr.splitlines()[-1]


def test_rollups_of_a_delta_table(place: Place, tmp_path: Path) -> None:
    for name, history in (("parquet", place.history), ("delta", place.delta)):
        done = kshadow("history", "rollup", "--history", history, "--out", tmp_path / name)
        assert done.exit_code == 0, done.stderr
    counts = [
        rows("history", "query", "--rollups", tmp_path / name, "SELECT * EXCLUDE (date) FROM groups ORDER BY ALL")
        for name in ("parquet", "delta")
    ]
    assert counts[0] == counts[1]
    assert len(counts[0]) > 100


def test_a_day_of_a_delta_table_whose_dates_are_text(place: Place, tmp_path: Path) -> None:
    table = ds.dataset(place.history, format="parquet", partitioning="hive").to_table()
    number = table.column_names.index("date")
    text = table.set_column(number, "date", table["date"].cast("string"))
    write_deltalake(tmp_path / "text", text, partition_by=["date"])
    days = ("--since", "2026-07-06", "--until", "2026-07-06")
    for name, history in (("parquet", place.history), ("delta", tmp_path / "text")):
        done = kshadow("history", "rollup", "--history", history, "--out", tmp_path / name, *days)
        assert done.exit_code == 0, done.stderr
    counts = [
        rows("history", "query", "--rollups", tmp_path / it, "FROM groups ORDER BY ALL")
        for it in ("parquet", "delta")
    ]
    assert counts[0] == counts[1] != []
