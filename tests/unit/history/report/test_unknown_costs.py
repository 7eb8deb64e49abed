"""Rebalances whose cost is not known: nothing is said of a sum as if they had cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.history.report.request import Report
from tests.unit.history.report import made
from tests.unit.history.report.made import BEGIN_MS, DAY_MS, HOUR_MS, Episode, Row
from tests.unit.history.report.reading import Page, summary

DAYS = 4
CHANGE_MS = BEGIN_MS + 2 * DAY_MS
COST_MS = 60_000


def group(
    name: str, kind: str, is_unknown: Callable[[int], bool], costs: tuple[int, int] = (COST_MS, COST_MS)
) -> made.Rows:
    """An hour an episode of one rebalance, whose cost is known or not by the hour, and another after the change."""
    at = [BEGIN_MS + hour * HOUR_MS + 5_000 for hour in range(DAYS * 24)]
    done = [Episode(kind, [(it, "member_joined", costs[it >= CHANGE_MS])], 1, ["member_left"]) for it in at]
    rows = made.rows_of("east", name, done, 0, DAYS * 24)
    for row in (*rows.groups, *rows.episodes, *rows.causes):
        rebalances = row["count"] if row.get("kind") == "rebalance" else row.get("rebalances", 0)
        if is_unknown((row["start_ms"] - BEGIN_MS) // HOUR_MS) and rebalances:
            row |= {"stopped_partition_ms": None, "stopped_unknown": rebalances}
    return rows


def report(where: Path, *groups: made.Rows) -> Page:
    """The page, with two halves to compare."""
    for number, rows in enumerate(groups):
        rows.write(where / "rollups", number)
    before, after = (BEGIN_MS, CHANGE_MS), (CHANGE_MS, BEGIN_MS + DAYS * DAY_MS)
    made.run(Report(rollups=str(where / "rollups"), out=str(where / "page.html"), before=before, after=after))
    return Page((where / "page.html").read_text(encoding="utf-8"))


def always(hour: int) -> bool:
    return True


def never(hour: int) -> bool:
    return False


def late(hour: int) -> bool:
    return hour >= 48


def test_deploys_of_which_no_cost_is_known(tmp_path: Path) -> None:
    page = report(tmp_path, group("a", "deploy", always), group("b", "other", never))
    assert (
        "For how long 96 deploys stopped partitions is not known. Of the time that is known: scaling 0 %, the rest"
        " 100 %." in page.text
    )
    rows = {str(row["Episode"]): row for row in page.table("Stopped partition time by kind of episode")}
    assert (rows["Deploys"]["Stopped partition time"], rows["Deploys"]["Time not known"]) == (None, "96")
    assert (rows["The rest"]["Stopped partition time"], rows["The rest"]["Time not known"]) == ("1 h 36 min", "0")


def test_deploys_of_which_some_costs_are_known(tmp_path: Path) -> None:
    page = report(tmp_path, group("a", "deploy", late), group("b", "other", always))
    assert "96 deploys stopped partitions for 48 min, 100 % of all stopped partition time; scaling 0 %" in page.text
    assert "the rest not known. The stopped time of 48 of the 96 rebalances in deploys is not known." in page.text
    (row,) = page.table("The only group by stopped time of deploys")
    assert (row["Stopped, total"], row["Time not known"]) == ("48 min", "48")


def of_all(where: Path) -> Row:
    (row,) = [
        it
        for it in summary(where / "page-summary", "comparison")
        if it["group"] is None and it["measure"] == "stopped_partition_ms_per_day"
    ]
    return row


def test_a_group_whose_cost_is_known_before_alone_did_not_become_better(tmp_path: Path) -> None:
    """As one that goes over to the consumer protocol."""
    page = report(tmp_path, group("steady", "other", never), group("migrated", "other", late))
    a_day = 24 * COST_MS
    told = of_all(tmp_path)
    assert (told["before"], told["after"], told["before_known_ms"]) == (a_day, a_day, 2 * DAY_MS)
    assert (
        "After the change stopped time was about the same: 24 min per group and day before, 24 min after."
        in page.text
    )
    assert "Stopped time is that of 1 group for which it is known in both." in page.text


@pytest.mark.parametrize(
    ("costs", "is_unknown", "said"),
    [
        # 1: what is known is half, as what is not known is: nothing tells.
        ((60_000, 60_000), lambda hour: hour >= 48 and hour % 2 == 0, "Whether stopped time changed is not known"),
        # 2: less by more than what is not known could take back, if it costs as much as what is known.
        ((60_000, 6_000), lambda hour: hour >= 48 and hour % 2 == 0, "stopped time was lower"),
        # 3: more, and what is not known is more beside.
        ((60_000, 240_000), lambda hour: hour >= 48 and hour % 2 == 0, "stopped time was higher"),
        # 4: in both as much is not known.
        ((60_000, 6_000), lambda hour: hour % 2 == 0, "stopped time was lower"),
    ],
)
def test_a_change_is_told_where_what_is_not_known_cannot_turn_it(
    tmp_path: Path, costs: tuple[int, int], is_unknown: Callable[[int], bool], said: str
) -> None:
    page = report(tmp_path, group("a", "other", is_unknown, costs))
    assert f"After the change {said}: " in page.text or f"{said}. What is known: " in page.text
    told = of_all(tmp_path)
    unknown = sum(map(is_unknown, range(48, 96)))
    assert (told["after_rebalances"], told["after_unknown"]) == (48, unknown)
    assert f"and of {unknown} of 48 after is not known." in page.text
