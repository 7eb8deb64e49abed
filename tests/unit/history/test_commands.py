"""`kshadow history`: rollup, report and query at the prompt, on a generated history."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from agent.cli.commands.history import history as group
from agent.history.engine import SCRATCH
from agent.history.parquet_directory import ParquetDirectory
from agent.history.rollup import roll_up
from agent.history.tables import ROLLED_UP, TABLES
from tests.unit.cli.running import kshadow
from tests.unit.history.histories import START, START_MS, events_of, segments, write

DAY_MS = 86_400_000


NO_CLOCK = "{}: up to when time has passed in the log is not there, so it is up to the last event\n"


class Place(NamedTuple):
    events: list[dict[str, Any]]
    history: Path
    rollups: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    where = tmp_path_factory.mktemp("history")
    events = events_of(segments(where / "segments"))
    history = write(events, where / "history")
    write(events[::3], history)  # once more, as an agent that crashed does
    done = kshadow("history", "rollup", "--history", history, "--out", where / "rollups")
    # On a machine that is slow it says how far it is.
    assert (done.exit_code, done.stderr.partition("rolling up: ")[0]) == (0, NO_CLOCK.format(where / "history"))
    assert re.fullmatch(
        rf"{where}/rollups: [\d,]+ events, 2 days from 2026-07-06: [\d,]+ rows of groups, [\d,]+ rows of causes,"
        r" [\d,]+ rows of episodes, [\d,]+ rows of standing\n",
        done.stdout,
    )
    return Place(events, history, where / "rollups")


def table(rollups: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(rollups / name, format="parquet").to_table().to_pylist()
    return rows


def ask(*arguments: object, output: str = "json") -> Any:
    done = kshadow("history", "query", *arguments, "-o", output)
    assert (done.exit_code, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def refused(*arguments: object) -> str:
    done = kshadow("history", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr.partition("Error: ")[2].rstrip("\n")


def test_counts_are_those_of_the_events(place: Place) -> None:
    expected: Counter[tuple[str, str]] = Counter()
    horizon = max(event["at_ms"] for event in place.events)
    for event in place.events:
        if event["type"] == "rebalance" and event["at_ms"] // 3_600_000 * 3_600_000 + 3_600_000 <= horizon:
            expected[event["group"], event["cause"]] += 1
    found: Counter[tuple[str, str]] = Counter()
    for row in table(place.rollups, "causes"):
        if (row["window"], row["kind"]) == ("1h", "rebalance"):
            found[row["group"], row["cause"]] += row["count"]
    assert found == expected


def test_files_are_those_of_the_tables(place: Place) -> None:
    for name, columns in TABLES.items():
        files = sorted((place.rollups / name).rglob("*.parquet"))
        assert [it.parent.name for it in files] == ["date=2026-07-06", "date=2026-07-07"][: len(files)]
        assert pq.read_schema(files[0]).names == [it.name for it in columns if it.name != "date"]


def test_a_day_again_is_as_in_the_whole(place: Place, tmp_path: Path) -> None:
    for day in ("2026-07-07", "2026-07-06", "2026-07-07"):
        done = kshadow(
            *("history", "rollup", "--history", place.history, "--out", tmp_path, "--since", day, "--until", day)
        )
        assert done.exit_code == 0, done.stderr
    for name in TABLES:
        assert sorted(map(str, table(tmp_path, name))) == sorted(map(str, table(place.rollups, name)))


def test_what_directories_above_are_called_is_no_column(place: Place, tmp_path: Path) -> None:
    """As where each cluster's history lies in a directory of its own."""
    history = shutil.copytree(place.history, tmp_path / "cluster=prod" / "type=7" / "history")
    out = tmp_path / "group=prod" / "state=7" / "rollups"
    for days in (("--until", "2026-07-06"), ("--since", "2026-07-07")):
        done = kshadow("history", "rollup", "--history", history, "--out", out, *days)
        assert (done.exit_code, "how groups stood" in done.stderr) == (0, False), done.stderr
    for name in ("groups", "causes", "episodes"):
        both = (sorted(map(str, ask("--rollups", rollups, f"FROM {name}"))) for rollups in (out, place.rollups))
        assert next(both) == next(both)
    of_events = 'SELECT DISTINCT cluster, "group", type, date FROM history ORDER BY ALL'
    assert ask("--history", history, of_events) == ask("--history", place.history, of_events)


def test_how_groups_stood_by_other_columns_is_passed_over(place: Place, tmp_path: Path) -> None:
    rollups = shutil.copytree(place.rollups, tmp_path / "rollups")
    pq.write_table(pa.table({"a": [1]}), rollups / "standing" / "date=2026-07-06" / "rollup.parquet")
    done = kshadow("history", "rollup", "--history", place.history, "--out", rollups, "--since", "2026-07-07")
    assert done.exit_code == 0, done.stderr
    assert "how groups stood is of another history or of another version of kshadow: passed over" in done.stderr
    for name in TABLES:
        assert sorted(map(str, table(rollups, name))) == sorted(map(str, table(place.rollups, name)))


def test_an_episode_over_midnight_is_told_of_until_it_is_over(tmp_path: Path) -> None:
    history, out = tmp_path / "history", tmp_path / "out"
    times = [START_MS + DAY_MS + minutes * 60_000 for minutes in (-15, -8, -1, 4)]

    def rolled(since: str) -> tuple[str, list[int]]:
        done = kshadow("history", "rollup", "--history", history, "--out", out, "--since", since)
        assert done.exit_code == 0, done.stderr
        return done.stderr.removeprefix(NO_CLOCK.format(history)), [it["rebalances"] for it in table(out, "episodes")]

    write([{**REBALANCE, "event_id": str(at_ms), "at_ms": at_ms, "offset": at_ms} for at_ms in times[:3]], history)
    not_over = "1 episode was not over, and has no row yet: once it is, roll up the day in which it began again\n"
    assert rolled("2026-07-06") == (not_over, [])
    at_noon = {**REBALANCE, "type": "group_emptied", "event_id": "noon", "at_ms": times[3] + DAY_MS // 2}
    write([{**REBALANCE, "event_id": "last", "at_ms": times[3]}, at_noon], history)
    assert rolled("2026-07-06") == ("", [4])


def test_a_full_disk_is_told_by_what_was_written(place: Place, tmp_path: Path) -> None:
    """As here, where no file may be larger: the second failure, to write the rest, does not stand for the first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        done = kshadow("history", "rollup", "--history", place.history, "--out", tmp_path / "rollups")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.exit_code == 3
    assert re.search(rf"Error: \S+/{SCRATCH}\w+/\w+.parquet: .*File too large\n$", done.stderr)


def test_events_of_no_time_are_told(place: Place, tmp_path: Path) -> None:
    odd = [{**place.events[0], "event_id": f"odd-{at_ms}", "at_ms": at_ms} for at_ms in (5, 10**15)]
    write([*place.events[:50], *odd], tmp_path / "history")
    done = kshadow("history", "rollup", "--history", tmp_path / "history", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "\n2 events were left out: they are from before 2010, from more than a year before all others (--since reads"
        " these), or from more than an hour ahead\n"
    )


REBALANCE = {
    **{"schema": 1, "cluster": None, "group": "g", "group_type": "classic", "partition": 0, "offset": 0},
    **{"event_id": "a", "type": "rebalance", "cause": "member_joined", "members": 2, "at_ms": START_MS},
}


def test_a_group_is_one_whatever_its_clients_are_called(tmp_path: Path) -> None:
    """Backslashes in its name stand doubled in the rows of events that have text without UTF-8."""
    group = "a\\b\\\\c"
    names = ("plain", "\udc80", "plain")
    left = [
        {
            **REBALANCE,
            **{"group": group, "type": "member_left", "event_id": str(number), "at_ms": START_MS + number},
            "member": {"member_id": name, "client_id": name, "client_host": "/h", "instance_id": None},
        }
        for number, name in enumerate(names)
    ]
    last = {**REBALANCE, "group": group, "event_id": "last", "at_ms": START_MS + DAY_MS // 24}
    history = write([*left, last], tmp_path / "history")
    assert kshadow("history", "rollup", "--history", history, "--out", tmp_path / "out").exit_code == 0
    rows = ask("--rollups", tmp_path / "out", 'SELECT "group", departures FROM groups WHERE "window" = \'1h\'')
    assert rows == [{"group": group, "departures": 3}]


def as_one_file(history: Path) -> Path:
    """The same in no directory of a day."""
    rows = [pq.ParquetFile(it).read() for it in sorted(history.rglob("*.parquet"))]
    pq.write_table(pa.concat_tables(rows, promote_options="permissive"), history.parent / "one.parquet")
    return history.parent / "one.parquet"


@pytest.mark.parametrize("is_dated", [True, False])
def test_no_window_ends_before_now_for_an_event_that_is_ahead(tmp_path: Path, is_dated: bool) -> None:
    now_ms = START_MS + DAY_MS - 1_800_000
    ahead = {**REBALANCE, "event_id": "b", "at_ms": now_ms + 3_500_000}
    history = write([{**REBALANCE, "at_ms": now_ms - 5_400_000}, ahead], tmp_path / "history")
    if not is_dated:
        history = as_one_file(history)
    done = roll_up([str(history)], str(tmp_path / "out"), None, None, now_ms=now_ms, memory_mb=64)
    assert (done.events, done.within.horizon_ms) == (2, now_ms)
    ends = [it["end_ms"] for it in table(tmp_path / "out", "groups")]
    assert now_ms - 3_600_000 < max(ends) <= now_ms
    # When its time has come it counts.
    later_ms = now_ms + 3 * 3_600_000
    write([{**REBALANCE, "event_id": "c", "at_ms": later_ms}], tmp_path / "history")
    roll_up([str(tmp_path / "history")], str(tmp_path / "out"), None, None, now_ms=later_ms, memory_mb=64)
    hours = [it for it in table(tmp_path / "out", "groups") if it["window"] == "1h"]
    assert sum(it["rebalances"] for it in hours) == 2


@pytest.mark.parametrize("is_dated", [True, False])
def test_what_was_dated_years_before_makes_no_years_of_nothing(tmp_path: Path, is_dated: bool) -> None:
    old = {**REBALANCE, "event_id": "old", "at_ms": 1_262_390_400_000}
    recent = [{**REBALANCE, "event_id": f"{it}", "at_ms": START_MS + it * DAY_MS} for it in (0, 2)]
    history = write([old, *recent], tmp_path / "history")
    if not is_dated:
        history = as_one_file(history)
    done = kshadow("history", "rollup", "--history", history, "--out", tmp_path / "out")
    assert (done.exit_code, " 2 events, 3 days from 2026-07-06: " in done.stdout) == (1, True)
    assert "\n1 event was left out: it is from" in done.stderr
    assert {it["start_ms"] // DAY_MS - START_MS // DAY_MS for it in table(tmp_path / "out", "groups")} == {0, 1}
    # It is there for who asks for it.
    first = ("--since", "2010-01-02", "--until", "2010-01-02")
    done = kshadow("history", "rollup", "--history", history, "--out", tmp_path / "old", *first)
    assert (done.exit_code, "1 day from 2010-01-02" in done.stdout) == (0, True), done.stderr
    assert [it["rebalances"] for it in table(tmp_path / "old", "groups") if it["window"] == "1d"] == [1]


def test_an_output_that_is_a_file_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused("rollup", "--history", place.history, "--out", tmp_path / "file")
    assert said == f"{tmp_path}/file: expected a directory, or none yet, got a file"


def test_an_output_that_is_written_to_is_refused(place: Place, tmp_path: Path) -> None:
    with ParquetDirectory(tmp_path, tuple(ROLLED_UP)).lease("somebody else"):
        said = refused("rollup", "--history", place.history, "--out", tmp_path)
    assert "somebody else" in said
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_commit_that_cannot_be_finished_is_told_to_readers(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.rollups, tmp_path / "rollups")
    (tmp_path / "rollups" / "_journal.json").write_text("{")
    said = refused("query", "--rollups", tmp_path / "rollups", "SELECT 1")
    assert said.startswith(f"{tmp_path}/rollups/_journal.json: expected the journal of a commit")


def test_refusals(place: Place, tmp_path: Path) -> None:
    assert refused("rollup", "--history", tmp_path / "none", "--out", tmp_path).startswith(
        f"{tmp_path}/none is not there: expected a table of history"
    )
    assert refused("rollup", "--history", place.history, "--out", "s3a://b/x") == (
        "--out s3a://b/x: expected a path of this machine; kshadow spark rollup writes elsewhere"
    )
    for out in (place.history, place.history / "rollups"):
        said = refused("rollup", "--history", place.history, "--out", out)
        assert said == f"--out {out}: expected a directory outside of --history {place.history}"
    (tmp_path / "empty").mkdir()
    assert "expected history events, got none" in refused(
        "rollup", "--history", tmp_path / "empty", "--out", tmp_path
    )
    assert "--since is later than --until" in refused(
        *("rollup", "--history", place.history, "--out", tmp_path, "--since", "2026-07-07", "--until", "2026-07-06")
    )
    assert "expected a size of at least 64m" in refused(
        *("rollup", "--history", place.history, "--out", tmp_path, "--memory", "1m")
    )


def test_a_renamed_column_is_refused_by_name(place: Place, tmp_path: Path) -> None:
    files = sorted(place.history.rglob("*.parquet"))
    for file in files:
        rows = pq.ParquetFile(file).read()
        if file == files[1]:
            names = ["stopped_ms" if it == "stopped_partition_ms" else it for it in rows.column_names]
            rows = rows.rename_columns(names)
        target = tmp_path / "history" / file.relative_to(place.history)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, target)
    said = refused("rollup", "--history", tmp_path / "history", "--out", tmp_path / "out")
    assert said.startswith(str(tmp_path / "history" / files[1].relative_to(place.history)))
    assert "not the columns that are read: expected stopped_partition_ms int64, got nothing" in said
    said = refused("query", "--history", tmp_path / "history", "SELECT sum(stopped_partition_ms) FROM history")
    assert said.startswith(str(tmp_path / "history" / files[1].relative_to(place.history)))
    assert "not the columns that are read: there is none of stopped_partition_ms" in said


def test_rollups_of_an_earlier_release_are_no_nulls_of_a_query(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.rollups, rollups := tmp_path / "rollups")
    file = min((rollups / "groups").rglob("*.parquet"))
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["stopped_unknown"]), file)
    said = refused("query", "--rollups", rollups, "SELECT sum(stopped_unknown) FROM groups")
    assert said == f"{file}: not the columns that are read: there is none of stopped_unknown"


def test_a_report_says_where_it_wrote(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = kshadow("history", "report", "--rollups", place.rollups, "--out", out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out}: 8 groups from 2026-07-06 00:00 to 2026-07-07 ")
    assert f"summary in {tmp_path}/page-summary: rows 8 of ranking, " in done.stdout
    assert f"kshadow history report --rollups {place.rollups}" in out.read_text(encoding="utf-8")


def test_a_report_goes_where_a_url_of_this_machine_says(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    out = ("--out", f"file://{tmp_path}/page.html", "--summary", f"file://{tmp_path}/summary")
    done = kshadow("history", "report", "--rollups", f"file://{place.rollups}", *out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{tmp_path}/page.html: 8 groups ")
    assert {it.name for it in tmp_path.iterdir()} == {"here", "page.html", "summary"}
    assert not list(Path().iterdir())


def test_queries(place: Place) -> None:
    both = ("--history", place.history, "--rollups", place.rollups)
    (row,) = ask(*both, "SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM history")
    assert row == {"n": len(place.events) + len(place.events[::3]), "ids": len(place.events)}
    (row,) = ask(*both, "SELECT sum(rebalances) AS n, any_value(date) AS date FROM groups WHERE \"window\" = '1d'")
    assert row == {"n": sum(it["rebalances"] for it in table(place.rollups, "groups") if it["window"] == "1d")} | {
        "date": row["date"]
    }
    assert re.fullmatch(r"2026-07-0\d", row["date"])
    names = [it["name"] for it in ask(*both, "SHOW TABLES")]
    assert names == ["causes", "episodes", "groups", "history"]
    assert [it["column_name"] for it in ask(*both, "DESCRIBE causes")] == [it.name for it in TABLES["causes"]]


def test_a_table_without_rows_is_a_table(tmp_path: Path) -> None:
    sample = {"schema": 1, "cluster": None, "group": "g", "group_type": "classic", "partition": 0, "offset": 0}
    created = {**sample, "event_id": "a", "type": "group_created", "at_ms": START_MS}
    history, rollups = write([created], tmp_path / "history"), tmp_path / "rollups"
    arguments = ("rollup", "--history", history, "--out", rollups)
    assert "0 rows of groups, 0 rows of causes, 0 rows of episodes" in kshadow("history", *arguments).stdout
    told = refused("report", "--rollups", rollups, "--out", tmp_path / "x.html")
    assert "the table groups has none yet: an hour is rolled up once it is over" in told
    write([{**created, "event_id": "b", "type": "group_emptied", "at_ms": START_MS + 2 * DAY_MS // 24}], history)
    assert "0 rows of causes, 0 rows of episodes" in kshadow("history", *arguments).stdout
    done = kshadow("history", "report", "--rollups", rollups, "--out", tmp_path / "x.html")
    assert (done.exit_code, "1 group" in done.stdout) == (0, True)
    assert ask("--rollups", rollups, "SELECT kind FROM episodes") == []
    assert [it["column_name"] for it in ask("--rollups", rollups, "DESCRIBE causes")] == [
        it.name for it in TABLES["causes"]
    ]


def test_a_time_that_is_none_has_no_date_where_files_lie_in_no_day(tmp_path: Path) -> None:
    written = write([{**REBALANCE, "at_ms": at_ms} for at_ms in (START_MS, 2**63 - 1)], tmp_path / "history")
    (tmp_path / "flat").mkdir()
    for number, file in enumerate(sorted(written.rglob("*.parquet"))):
        file.rename(tmp_path / "flat" / f"{number}.parquet")
    assert ask("--history", tmp_path / "flat", "SELECT at_ms, date FROM history ORDER BY at_ms") == [
        {"at_ms": START_MS, "date": START[:10]},
        {"at_ms": 2**63 - 1, "date": None},
    ]


def test_values_as_json_has_them(place: Place) -> None:
    (row,) = ask(
        "--rollups",
        place.rollups,
        "SELECT 1 AS a, 2 AS a, 'x'::BLOB AS b, [1, NULL] AS c, {'d': DATE '2026-01-02'} AS e, 'nan'::DOUBLE AS f,"
        " 1.50::DECIMAL(5, 2) AS g, 170141183460469231731687303715884105727::HUGEINT AS h, INTERVAL 90 MINUTE AS i,"
        " MAP {1: 'x'} AS j, TIMESTAMP '2026-01-02 03:04:05' AS k, 1 / 0 AS l",
    )
    assert row == {
        **{"a": 1, "a_1": 2, "b": "eA==", "c": [1, None], "e": {"d": "2026-01-02"}, "f": None, "g": 1.5},
        **{"h": 2**127 - 1, "i": 5400.0, "j": {"1": "x"}, "k": "2026-01-02T03:04:05", "l": None},
    }


def test_csv_and_tables_are_fit_for_a_terminal(place: Place) -> None:
    sql = "SELECT chr(27) || '[31mred' AS \"a\nb\", 'x,\"y' AS c, true AS d, [1] AS e, NULL AS f"
    for output in ("csv", "table", "ndjson", "yaml"):
        done = kshadow("history", "query", "--rollups", place.rollups, sql, "-o", output)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
    done = kshadow("history", "query", "--rollups", place.rollups, sql, "-o", "csv")
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["a\\u000ab", "c", "d", "e", "f"],
        ["\\u001b[31mred", 'x,"y', "true", "[1]", ""],
    ]


def test_a_table_has_the_first_rows(place: Place) -> None:
    done = kshadow("history", "query", "--rollups", place.rollups, "FROM range(5000)")
    assert done.stdout.count("\n") == 1001
    assert done.stderr == "(only the first 1,000 rows; -o ndjson and -o csv give all)\n"
    done = kshadow("history", "query", "--rollups", place.rollups, "FROM range(5000)", "-o", "ndjson")
    assert done.stdout.count("\n") == 5000


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('{place}/secret')",
        "FROM read_csv('{place}/secret')",
        "FROM '{place}/secret'",
        "FROM read_text('{place}/rollups/../secret')",
        "FROM glob('/etc/*')",
        "FROM parquet_schema('{place}/history/**/*.parquet')",
        "FROM read_blob('{place}/sec*')",
        "FROM sniff_csv('{place}/secret')",
        "SELECT * FROM query('FROM read_text(''{place}/secret'')')",
        "FROM sqlite_scan('{place}/secret', 't')",
        "FROM secret",
    ],
)
def test_no_other_file_is_read(place: Place, sql: str) -> None:
    secret = place.rollups.parent / "secret"
    secret.write_text("s3cret\n")
    done = kshadow("history", "query", "--rollups", place.rollups, sql.format(place=secret.parent))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("COPY episodes TO '{place}/rollups/x.csv'", "COPY"),
        ("SET threads = 1", "SET"),
        ("ATTACH '{place}/rollups/x.db'", "ATTACH"),
        ("INSTALL httpfs", "LOAD"),
        ("CREATE TABLE t AS FROM episodes", "CREATE"),
        ("DROP VIEW episodes", "DROP"),
        ("EXPORT DATABASE '{place}/rollups/x'", "EXPORT"),
        ("SELECT 1; DROP VIEW episodes", "SELECT, DROP"),
        ("EXPLAIN ANALYZE COPY episodes TO '{place}/rollups/x.csv'", "EXPLAIN"),
        ("", "nothing"),
    ],
)
def test_nothing_is_written(place: Place, sql: str, kind: str) -> None:
    before = sorted(place.rollups.rglob("*"))
    said = refused("query", "--rollups", place.rollups, sql.format(place=place.rollups.parent))
    assert said == f"expected one SELECT, got {kind}: nothing can be changed or written here"
    assert sorted(place.rollups.rglob("*")) == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "syntax error"),
        ("FROM nothing", "Table with name nothing does not exist"),
        ("SELECT nothing FROM episodes", "nothing"),
        ("SELECT error('mine')", "mine"),
        ("SELECT '\udcff'", "Invalid value for 'SQL'"),
    ],
)
def test_mistakes_are_told_on_one_line(place: Place, sql: str, said: str) -> None:
    message = refused("query", "--rollups", place.rollups, sql)
    assert said in message
    assert "\n" not in message


def test_memory_is_bounded(place: Place) -> None:
    sql = "SELECT current_setting('memory_limit') AS memory, current_setting('threads') AS threads"
    (row,) = ask("--rollups", place.rollups, "--memory", "64m", sql)
    assert row == {"memory": "61.0 MiB", "threads": len(os.sched_getaffinity(0))}
    # What does not fit even on disk ends it, and says so.
    said = refused("query", "--rollups", place.rollups, "--memory", "64m", "SELECT list(x) FROM range(30000000) a(x)")
    assert "give more with --memory" in said


def test_something_must_be_asked() -> None:
    assert refused("query", "SELECT 1") == "--history or --rollups is needed, or both: what is asked"


def test_more_columns_are_fine_and_files_without_dates(place: Place, tmp_path: Path) -> None:
    rows = pa.concat_tables(
        [pq.ParquetFile(it).read() for it in sorted(place.history.rglob("*.parquet"))], promote_options="permissive"
    )
    pq.write_table(rows.append_column("of_tomorrow", pa.array([1] * len(rows))), tmp_path / "all.parquet")
    done = kshadow("history", "rollup", "--history", tmp_path / "all.parquet", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert sorted(map(str, table(tmp_path / "out", "causes"))) == sorted(map(str, table(place.rollups, "causes")))
    (row,) = ask("--history", tmp_path / "all.parquet", "SELECT min(date) AS d, sum(of_tomorrow) AS n FROM history")
    assert row == {"d": "2026-07-06", "n": len(rows)}


def test_a_name_is_no_pattern(place: Place, tmp_path: Path) -> None:
    """Of a name that is one for another file, or for several, as DuckDB takes it."""
    event = next(it for it in place.events if it["type"] == "rebalance")
    for number, name in enumerate(("h1", "h[1]", "h*", "h?", "h[12]")):
        (file,) = write([{**event, "event_id": name}], tmp_path / str(number)).rglob("*.parquet")
        (tmp_path / name / f"date={START[:10]}").mkdir(parents=True)
        for copy in (tmp_path / f"{name}.parquet", tmp_path / name / f"date={START[:10]}" / "x.parquet"):
            shutil.copy(file, copy)
            (row,) = ask("--history", tmp_path / copy.relative_to(tmp_path).parts[0], "SELECT event_id FROM history")
            assert row == {"event_id": name}, copy


def test_without_duckdb_it_says_what_to_install(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    said = refused("query", "--rollups", place.rollups, "SELECT 1")
    assert said == "expected the Python package duckdb, it is not installed: install kshadow[history]"


@pytest.mark.parametrize(
    "line",
    [
        line.strip()
        for command in (group, *group.commands.values())
        for line in (command.help or "").splitlines()
        if line.strip().startswith("kshadow history")
    ],
)
def test_examples(line: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "report" in line and "--since" not in line:
        return  # as the one above
    monkeypatch.chdir(tmp_path)
    words = [it.replace("/data", str(place.rollups.parent)) for it in shlex.split(line)[1:]]
    if "--since" in words:
        # Of a past that is long gone.
        at = words.index("--since")
        del words[at : at + 2]
    done = kshadow(*words)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.partition("rolling up: ")[0] in ("", NO_CLOCK.format(place.history))
    assert done.stdout


def test_the_start_is_a_midnight() -> None:
    assert START_MS % DAY_MS == 0


@pytest.mark.usefixtures("process")
def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """Each ended with a traceback, as kshadow alone is installed by README."""
    (tmp_path / "a.parquet").touch()
    code = """
import sys
sys.modules["pyarrow"] = None
from click.testing import CliRunner
from agent.cli.main import cli
for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(cli, line.split("|"))
    print(done.exit_code, done.output.splitlines()[-1])
"""
    commands = [
        f"history|rollup|--history|{tmp_path}|--out|{tmp_path}/out",
        f"history|report|--rollups|{tmp_path}|--out|{tmp_path}/out.html",
        f"history|query|--history|{tmp_path}|SELECT 1",
        *(f"{name}|g|--from|{tmp_path}/a.parquet" for name in ("timeline", "explain", "verdict")),
        f"findings|--from|{tmp_path}/a.parquet",
        f"report|--from|{tmp_path}/a.parquet|--out|{tmp_path}/out.html",
        f"spark|compact|--history|{tmp_path}",
    ]
    done = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(commands), capture_output=True, text=True, check=True
    )
    said = "2 Error: expected the Python package pyarrow, it is not installed: install kshadow[history]"
    assert done.stdout.splitlines() == [said] * len(commands), done.stderr
