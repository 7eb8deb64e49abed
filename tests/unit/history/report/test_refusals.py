"""What a report does not do, and says why; and tables that lack what it would show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent.history.errors import HistoryError
from agent.history.report.gains import documents, doubtful, gains
from agent.history.report.request import Report
from tests.unit.cli.running import kshadow
from tests.unit.cli.test_whatif import written
from tests.unit.history.report import made
from tests.unit.history.report.made import run
from tests.unit.history.report.reading import Page, summary
from tests.unit.simulation.whatif.made import rolling_restart

DAY = made.DAY_MS


@dataclass
class Place:
    """Rollups of three groups and four days, and where the page goes."""

    where: Path

    def job(self, **changes: Any) -> Report:
        out = Report(rollups=str(self.where / "rollups"), out=str(self.where / "page.html"))
        return msgspec.structs.replace(out, **changes)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    where = tmp_path_factory.mktemp("refusals")
    made.fleet(3, days=4).write(where / "rollups")
    return Place(where)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"out": "page.htm"}, "page.htm: expected the name of a file that ends in .html"),
        ({"time_zone": "Mars/Olympus"}, "'Mars/Olympus': expected the name of an IANA time zone"),
        ({"time_zone": "../../etc/passwd"}, "an IANA time zone"),
        ({"time_zone": ""}, "an IANA time zone"),
        ({"most_groups": 0}, "expected at least one group in each ranking, got 0"),
        ({"since_ms": 5, "until_ms": 5}, "the range: expected a begin and a later end"),
        ({"before": (1, 2)}, "before and after belong together"),
        ({"after": (1, 2)}, "before and after belong together"),
        ({"before": (2, 1), "after": (3, 4)}, "before: expected a begin and a later end"),
        ({"before": (1, 10), "after": (9, 20)}, "before must have ended when after begins"),
        ({"before": (1, 2), "after": (3, 4)}, "no group is known in both of them"),
        ({"what_if": "/not/there.json"}, "/not/there.json: No such file or directory"),
        ({"rollups": "/not/there"}, "/not/there/groups is not there: expected the table groups of rollups"),
        (
            {"since_ms": 1, "until_ms": DAY},
            "no rows of an hour between 1970-01-01 and 1970-01-02; there are 4 dates: ",
        ),
    ],
)
def test_refusals(place: Place, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(HistoryError) as caught:
        run(place.job(**changes))
    assert said in str(caught.value)
    assert list(place.where.glob("*page*")) in ([], [place.where / "page-summary"])


def test_no_rows_says_which_dates_there_are(place: Place) -> None:
    with pytest.raises(HistoryError) as caught:
        run(place.job(since_ms=made.BEGIN_MS + 400 * DAY))
    assert str(caught.value) == (
        "no rows of an hour between 2027-11-23 and the last; "
        "there are 4 dates: 2026-10-19, 2026-10-20, 2026-10-21, 2026-10-22"
    )


def test_only_hours_that_are_over_have_rows(place: Place, tmp_path: Path) -> None:
    """As on the first day of a history: its five minutes are rolled up, and no hour yet."""
    for file in (place.where / "rollups").rglob("*.parquet"):
        to = tmp_path / "rollups" / file.relative_to(place.where / "rollups")
        to.parent.mkdir(parents=True, exist_ok=True)
        rows = pq.ParquetFile(file).read()
        if "window" in rows.schema.names:
            at = rows.schema.get_field_index("window")
            rows = rows.set_column(at, "window", pa.array(["5m"] * len(rows)))
        pq.write_table(rows, to)
    with pytest.raises(HistoryError) as caught:
        run(place.job(rollups=str(tmp_path / "rollups"), out=str(tmp_path / "page.html")))
    assert str(caught.value) == (
        "no rows of an hour between the first and the last; "
        "the table groups has none yet: an hour is rolled up once it is over"
    )


def test_a_page_that_cannot_be_written(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HistoryError, match=r"file/page\.html: "):
        run(place.job(out=str(tmp_path / "file" / "page.html"), summary=str(tmp_path / "summary")))
    assert [it.name for it in tmp_path.iterdir() if it.is_file()] == ["file"]


def test_what_is_null_is_not_known(place: Place, tmp_path: Path) -> None:
    for file in (place.where / "rollups").rglob("*.parquet"):
        to = tmp_path / "rollups" / file.relative_to(place.where / "rollups")
        to.parent.mkdir(parents=True, exist_ok=True)
        rows = pq.ParquetFile(file).read()
        for number, field in enumerate(rows.schema):
            if field.name in ("stopped_partition_ms", "members_avg", "lag_records_p99"):
                rows = rows.set_column(number, field, pa.nulls(len(rows), field.type))
        pq.write_table(rows.append_column("new", [[1] * len(rows)]), to)
    run(place.job(rollups=str(tmp_path / "rollups"), out=str(tmp_path / "page.html")))
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Stopped partition time is not known." in page.text
    rows = page.table("All 3 groups")
    assert [row["Stopped partition time"] for row in rows] == [None] * 3
    assert [row["Members"] for row in rows] == [None] * 3
    assert all(row["Rebalances"] is not None for row in rows)
    assert {row["stopped_partition_ms"] for row in summary(tmp_path / "page-summary", "heat_map")} == {None}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda rows: rows.rename_columns({"stopped_partition_ms": "stopped_ms"}),
            "expected stopped_partition_ms int64, got nothing",
        ),
        (
            lambda rows: rows.set_column(
                rows.schema.get_field_index("rebalances"), "rebalances", pa.array(["7"] * len(rows))
            ),
            "expected rebalances int64, got string",
        ),
    ],
)
def test_a_file_with_other_columns_is_refused(
    place: Place, tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    shutil.copytree(place.where / "rollups", tmp_path / "rollups")
    file = sorted((tmp_path / "rollups" / "groups").rglob("*.parquet"))[2]
    pq.write_table(change(pq.ParquetFile(file).read()), file)
    with pytest.raises(HistoryError) as caught:
        run(place.job(rollups=str(tmp_path / "rollups"), out=str(tmp_path / "page.html")))
    assert str(caught.value) == f"{file}: not the columns that are read: {said}"
    # Of other days nothing is read.
    run(place.job(rollups=str(tmp_path / "rollups"), out=str(tmp_path / "page.html"), until_ms=made.BEGIN_MS + DAY))


def test_a_damaged_file_is_named(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.where / "rollups", tmp_path / "rollups")
    file = sorted((tmp_path / "rollups" / "causes").rglob("*.parquet"))[0]
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(HistoryError) as caught:
        run(place.job(rollups=str(tmp_path / "rollups"), out=str(tmp_path / "page.html")))
    assert str(caught.value).startswith(f"{file}: expected a Parquet file, this one is damaged or none: ")


@pytest.mark.parametrize("changes", [{"out": "s3a://bucket/page.html"}, {"summary": "s3a://bucket/summary"}])
def test_another_file_system_is_refused_first(place: Place, changes: dict[str, Any]) -> None:
    with pytest.raises(HistoryError, match="expected a path of this machine; kshadow spark report writes elsewhere"):
        run(place.job(rollups="/not/there", **changes))


def test_hours_where_the_range_is_short(place: Place, tmp_path: Path) -> None:
    since = made.BEGIN_MS + 2 * DAY - 5 * made.HOUR_MS
    job = place.job(out=str(tmp_path / "page.html"), since_ms=since, until_ms=since + 9 * made.HOUR_MS + 1)
    run(job)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    rows = page.table("Rebalances by hour")
    assert [row["Hour"] for row in rows][:6] == [
        *(f"2026-10-20 {hour}:00" for hour in range(19, 24)),
        "2026-10-21 00:00",
    ]
    assert len(rows) == 9
    assert {row["step"] for row in summary(tmp_path / "page-summary", "causes_by_day")} == {"hour"}
    # Hours of the week that the range does not have are blank, and no 0.
    assert page.tables["Rebalances"][12] == dict.fromkeys(page.tables["Rebalances"][12]) | {"Hour": "12:00"}


def test_what_the_command_says_is_read(place: Place, tmp_path: Path) -> None:
    log = written(tmp_path / "log.ndjson", rolling_restart(3))
    said = [kshadow("whatif", "orders", "--from", log, "-o", output).stdout for output in ("json", "ndjson")]
    (tmp_path / "what-if").mkdir()
    (tmp_path / "what-if" / "orders.json").write_text(said[0])
    (tmp_path / "what-if" / "more.ndjson").write_text(said[1] + "\n" + said[1])
    found = documents(str(tmp_path / "what-if"))
    assert [it.group for it in found] == ["orders"] * 3
    run(place.job(out=str(tmp_path / "page.html"), what_if=str(tmp_path / "what-if")))
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "No other setting would have saved notable stopped time in 0 replayed groups." in text
    assert "Left out (1): groups whose log does not confirm the model's stopped times." in text
    assert summary(tmp_path / "page-summary", "gains") == []


def form(group: str, *stopped: int, until_ms: int = 2, **near: bool | None) -> str:
    settings = [{"setting": f"s{at}", "rebalances": 5, "stopped_partition_ms": ms} for at, ms in enumerate(stopped)]
    return json.dumps(
        {
            "group": group,
            "since_ms": 1,
            "until_ms": until_ms,
            "reproduced": {"exact": True, **near},
            "settings": settings,
            "assumptions": [],
        }
    )


def test_times_that_are_not_the_groups_promise_nothing(tmp_path: Path) -> None:
    near = [("a", True), ("b", False), ("c", None)]
    texts = [form(group, 100, 40, has_times_of_log=it) for group, it in near]
    (tmp_path / "all.json").write_text(f"[{','.join([*texts, form('a', 9, 1, until_ms=1, has_times_of_log=False)])}]")
    found = documents(str(tmp_path / "all.json"))
    assert ([row["group"] for row in gains(found)], doubtful(found)) == (["a"], 2)


def test_gains_are_ranked_by_what_they_save(tmp_path: Path) -> None:
    texts = [
        form("a", 100, 90, 40),
        form("b", 1000, 300),
        form("c", 100, 96),
        form("a", 9, 1, until_ms=1),
        form("d", 5),
    ]
    (tmp_path / "all.json").write_text(f"[{','.join(texts)}]")
    rows = gains(documents(str(tmp_path / "all.json")))
    # What saves less than a twentieth saves nothing, as the command itself says.
    assert [(row["rank"], row["group"], row["setting"], row["saved_partition_ms"]) for row in rows] == [
        (1, "b", "s1", 700),
        (2, "a", "s2", 60),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"group": 3}',
            "expected what kshadow whatif GROUP -o json prints: Expected `str`, got `int` - at `$.group`",
        ),
        ("not json", "prints: JSON is malformed"),
        ("", "prints: Input data was truncated"),
        (form("a", 1) + "\n{}", "x.json line 2: expected what kshadow whatif GROUP -o json prints: "),
    ],
)
def test_what_no_command_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(HistoryError) as caught:
        documents(str(tmp_path / "x.json"))
    assert said in str(caught.value)


def test_a_directory_without_documents(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"in files that end in \.json or \.ndjson"):
        documents(str(tmp_path))
