"""A month of sixty groups: the summary and the page say what the rows say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.history.report.columns import SUMMARY
from agent.history.report.page import words as w
from agent.history.report.request import Report
from tests.unit.history.report import made, plain
from tests.unit.history.report.made import run
from tests.unit.history.report.reading import Page, summary

ZONE = "Europe/Berlin"
BEFORE = (made.BEGIN_MS + 90_000, made.CHANGE_MS)
AFTER = (made.CHANGE_MS, made.BEGIN_MS + made.DAYS * made.DAY_MS)


class Made(NamedTuple):
    rows: made.Rows
    page: Page
    summary: Path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Made:
    where = tmp_path_factory.mktemp("numbers")
    rows = made.fleet()
    # Windows of five minutes and of days say the same again, and rows without a group are a cluster's.
    page = where / "deep" / "page.html"
    job = Report(
        rollups=str(rows.write(where / "rollups")), out=str(page), time_zone=ZONE, before=BEFORE, after=AFTER
    )
    run(job)
    return Made(rows, Page(page.read_text(encoding="utf-8")), where / "deep" / "page-summary")


def close(row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: row[name] for name in expected} == {
        name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        for name, value in expected.items()
    }


def test_the_summary_has_its_tables_and_columns(report: Made) -> None:
    assert sorted(it.name for it in report.summary.iterdir()) == sorted(SUMMARY)
    for table, columns in SUMMARY.items():
        rows = summary(report.summary, table)
        assert rows or table == "gains"
        assert all(list(row) == [it.name for it in columns] for row in rows)


def test_ranking(report: Made) -> None:
    expected = plain.ranking(report.rows)
    rows = sorted(summary(report.summary, "ranking"), key=lambda row: int(row["rank"]))
    assert len(rows) == 60
    for row, it in zip(rows, expected, strict=True):
        close(row, it)


def test_the_page_has_the_ranking(report: Made) -> None:
    shown = report.page.table("The first 20 of 60 groups by stopped")
    expected = plain.ranking(report.rows)[:20]
    assert len(shown) == 20
    for row, it in zip(shown, expected, strict=True):
        assert row["Group"] == it["group"] + (f" | {it['cluster']}" if it["cluster"] else "")
        assert (
            row["Stopped partition time"] == f"{w.time(it['stopped_partition_ms'])} | {w.share(it['stopped_share'])}"
        )
        assert row["Rebalances"] == f"{it['rebalances']:,}"
        assert row["Main cause"] == f"{it['main_cause'].replace('_', ' ')} | {w.share(it['main_cause_share'])}"
        assert row["Departures"] == f"{it['departures']:,}"
        assert (row["Lag p99"] is None) == (it["lag_samples"] == 0)
    assert {row["Lag p99"] is None for row in shown} == {True, False}


def test_teams(report: Made) -> None:
    groups = plain.by(plain.ranking(report.rows), lambda row: row["team"])
    rows = {row["team"]: row for row in summary(report.summary, "teams")}
    assert set(rows) == set(groups) == set(made.TEAMS)
    for name, its in groups.items():
        known = plain.total(its, "known_ms")
        sums = {it: plain.total(its, it) for it in ("known_ms", "rebalances", "stopped_partition_ms", "departures")}
        rate = sums["rebalances"] * made.DAY_MS / known
        close(rows[name], {"groups": len(its), "rebalances_per_day": rate, **sums})
    ranks = sorted(rows.values(), key=lambda row: -row["stopped_partition_ms"])
    assert [row["rank"] for row in ranks] == list(range(1, 7))


def test_causes_by_day(report: Made) -> None:
    rows = summary(report.summary, "causes_by_day")
    found = {(row["start"], row["kind"], row["cause"]): row["count"] for row in rows}
    assert found == plain.causes_by_day(report.rows, ZONE)
    assert {row["step"] for row in rows} == {"day"}
    # Of the night that clocks went back: 2026-10-25 has an hour more.
    shown = {row["Day"]: row["Rebalances"] for row in report.page.table("Rebalances by day")}
    assert len(shown) == made.DAYS + 1
    day = sum(n for (start, kind, _), n in found.items() if (start, kind) == ("2026-10-25", "rebalance"))
    assert shown["2026-10-25"] == str(day)


def test_heat_map(report: Made) -> None:
    expected = plain.heat_map(report.rows, ZONE)
    rows = summary(report.summary, "heat_map")
    found = {
        (row["weekday"], row["hour"]): (row["hours"], row["rebalances"], row["stopped_partition_ms"]) for row in rows
    }
    assert found == expected
    shown = report.page.tables["Rebalances"]
    days = list(shown[0])[1:]
    assert [row["Hour"] for row in shown] == [f"{hour:02d}:00" for hour in range(24)]
    for hour, row in enumerate(shown):
        for day, name in enumerate(days, 1):
            assert row[name] == f"{expected[day, hour][1]:,}"
    # Deploys at 10:00 and 15:00 UTC, in winter: an hour later in Berlin.
    assert expected[3, 11][1] > 3 * expected[3, 13][1]


def test_deploys(report: Made) -> None:
    expected = plain.deploys(report.rows)
    rows = summary(report.summary, "deploys")
    assert {(row["cluster"], row["group"]) for row in rows} == set(expected)
    for row in rows:
        close(row, expected[row["cluster"], row["group"]])
    whole = plain.total(report.rows.hours(), "stopped_partition_ms")
    cost = sum(it["stopped_partition_ms"] for it in expected.values())
    split = {row["Episode"]: row for row in report.page.table("Stopped partition time by kind of episode")}
    assert split["Deploys"]["Stopped partition time"] == w.time(cost)
    assert split["Deploys"]["Share"] == w.part(cost, whole)
    scaling = sum(it["stopped_partition_ms"] for it in report.rows.episodes if it["kind"].startswith("scale"))
    assert split["Scaling"]["Share"] == w.part(scaling, whole)
    assert split["The rest"]["Share"] == w.part(whole - cost - scaling, whole)


def test_comparison_of_each_group(report: Made) -> None:
    # The range begins within an hour: that hour is in neither.
    before, after = plain.rates(report.rows, *BEFORE), plain.rates(report.rows, *AFTER)
    both = set(before) & set(after)
    rows = [row for row in summary(report.summary, "comparison") if row["group"] is not None]
    assert {(row["cluster"], row["group"]) for row in rows} == both
    seen = 0
    for row in rows:
        it = row["cluster"], row["group"]
        name = row["measure"] if row["cause"] is None else f"went {row['cause']}"
        missing = None if row["cause"] is None else 0.0
        old, new = before[it].get(name, missing), after[it].get(name, missing)
        change = None if old is None or new is None else new - old
        close(row, {"before": old, "after": new, "before_known_ms": before[it]["known"]})
        assert row["change"] == (change if change is None else pytest.approx(change, abs=1e-6))
        seen += 1
    assert seen == sum(6 + len({n for n in before[it] | after[it] if n.startswith("went ")}) for it in both)


def test_comparison_of_all(report: Made) -> None:
    before, after = plain.rates(report.rows, *BEFORE), plain.rates(report.rows, *AFTER)
    both = list(set(before) & set(after))
    rows = {
        (row["measure"], row["cause"]): row for row in summary(report.summary, "comparison") if row["group"] is None
    }

    def rate(side: dict[plain.Key, dict[str, float | None]], name: str) -> float:
        known = sum(side[it]["known"] or 0 for it in both)
        return sum((side[it].get(name) or 0) * (side[it]["known"] or 0) for it in both) / known

    for name in ("rebalances_per_day", "stopped_partition_ms_per_day", "departures_per_day"):
        close(rows[name, None], {"before": rate(before, name), "after": rate(after, name)})
    gone = rows["departures_per_day", "session_timeout"]
    close(gone, {"before": rate(before, "went session_timeout"), "after": rate(after, "went session_timeout")})
    lags = [(before[it]["lag_records_p99"], after[it]["lag_records_p99"]) for it in both]
    known = [(old, new) for old, new in lags if old is not None and new is not None]
    assert 0 < len(known) < len(both)
    close(rows["lag_records_p99", None], {"before": sum(it for it, _ in known) / len(known)})


def test_the_page_says_whether_it_helped(report: Made) -> None:
    (row,) = [
        row
        for row in summary(report.summary, "comparison")
        if row["group"] is None and row["measure"] == "stopped_partition_ms_per_day"
    ]
    assert row["after"] < row["before"]
    told = f"After the change stopped time was lower: {w.time(row['before'])} per group and day before"
    assert report.page.text.count(told) == 2
    names = [str(it["Group"]) for it in report.page.table("Less stopped time")]
    assert "better" in names[0]
    assert "worse" in str(report.page.table("More stopped time")[0]["Group"])


def test_totals_and_states(report: Made) -> None:
    hours = report.rows.hours()
    assert "60 groups in the clusters east, west and one without a name." in report.page.text
    assert f"Rebalances{plain.total(hours, 'rebalances'):,}" in report.page.text
    assert f"Stopped partition time{w.time(plain.total(hours, 'stopped_partition_ms'))}" in report.page.text
    known = plain.total(hours, "known_ms")
    assert f"Time stable{w.part(plain.total(hours, 'stable_ms'), known)}" in report.page.text
    timeouts = sum(
        row["count"]
        for row in report.rows.hourly_causes()
        if (row["kind"], row["cause"]) == ("departure", "session_timeout")
    )
    assert f"session timeout {timeouts:,}" in report.page.text


def test_without_a_model_the_page_says_how_to_get_one(report: Made) -> None:
    assert "kshadow whatif GROUP --bootstrap-server" in report.page.text
    findings = report.page.table("Findings opened in the range")
    fired = sum(it["count"] for it in report.rows.hourly_causes() if it["kind"] == "finding")
    assert [(it["Analyzer"], it["Findings"]) for it in findings] == [("rebalance_storm", str(fired))]


def test_what_is_not_known_is_told(report: Made) -> None:
    without = sum(row["lag_samples"] == 0 for row in plain.ranking(report.rows))
    assert f"{without} groups without known lag" in report.page.text


def test_a_name_that_two_clusters_have_is_told_with_each(tmp_path: Path) -> None:
    middle = made.BEGIN_MS + made.DAY_MS
    for number, cluster in enumerate(("east", "west")):
        at = (made.BEGIN_MS + 5_000, middle + 5_000)
        done = [made.Episode("other", [(it, "unknown", cost)]) for it, cost in zip(at, (9_000, 1_000), strict=True)]
        rows = made.rows_of(cluster, "payments", done, 0, 48)
        of_group = {**rows.hourly_causes()[0], "stopped_partition_ms": None}
        rows.causes.append({**of_group, "kind": "finding", "cause": "rebalance_storm", "count": 1})
        rows.write(tmp_path / "rollups", number)
    ranges = {"before": (made.BEGIN_MS, middle), "after": (middle, middle + made.DAY_MS)}
    settings = [{"setting": str(it), "rebalances": it, "stopped_partition_ms": 1_000 * it} for it in (9, 1)]
    replayed = {"group": "payments", "since_ms": 0, "until_ms": 1, "settings": settings, "assumptions": []}
    (tmp_path / "w.json").write_text(json.dumps({**replayed, "reproduced": {"exact": True}}))
    what_if = str(tmp_path / "w.json")
    run(Report(rollups=str(tmp_path / "rollups"), out=str(tmp_path / "page.html"), what_if=what_if, **ranges))
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = page.text
    assert "payments east and payments west had the most" in text
    less = f"({w.MINUS}8.0 s a day)"
    assert f"Less stopped time, most of all: payments east {less} and payments west {less}." in text
    (row,) = page.table("Findings opened in the range")
    assert row["Most in"] == "payments | east and payments | west"
    assert "kshadow whatif does not say in which cluster a group is" in text
