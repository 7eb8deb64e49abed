"""Origins in months of history: rolled up and reported by kind, with files from before there was the column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.running import kshadow
from tests.unit.history.histories import write
from tests.unit.history.test_rollup_reducer import HOUR, T0, event, rolled
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import DAY
from tests.unit.presentation.narrative.test_origins import lost, origin

OOM = json.dumps({"m-1": {"kind": "oom_killed"}})


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"origins": OOM}, "oom_killed"),
        ({"member": {"member_id": "m-1", "origin": {"kind": "drained"}}}, "drained"),
        ({"origins": json.dumps({"m-1": None})}, None),
        ({"origins": "[1, {"}, None),
        ({"origins": "[]"}, None),
        ({"origins": json.dumps({"m-1": {"kind": "a stranger's"}})}, None),
        ({"member": "m-1"}, None),
        ({}, None),
    ],
)
def test_a_departure_counts_by_its_origin_too(fields: dict[str, Any], kind: str | None) -> None:
    rows = rolled([event("member_left", T0 + 1, cause="session_timeout", **fields)], T0 + HOUR)["causes"]
    found = {(it["kind"], it["cause"]): it["count"] for it in rows if it["window"] == "1h"}
    expected = {("departure", "session_timeout"): 1} | ({("origin", kind): 1} if kind else {})
    assert found == expected


def a_day(at_ms: int) -> list[m.Event]:
    """A member of two that is killed."""
    gone = lost(origin("oom_killed"), at_ms=at_ms)
    left = gone["left"][0]
    who = {name: it for name, it in left.items() if name not in ("cause", "confidence")}
    return [
        m.rebalance(1, at_ms=at_ms - 60_000, joined=[m.member("a"), m.member("payments-2")]),
        gone,
        m.event("member_left", at_ms, generation=2, member=who, cause="session_timeout", confidence=0.96),
    ]


def test_of_a_history_whose_first_days_know_nothing_of_origins(tmp_path: Path) -> None:
    history, out = tmp_path / "history", tmp_path / "rollups"
    write(a_day(m.T0), history)
    (before,) = history.rglob("*.parquet")
    # As an agent before this version wrote it.
    pq.write_table(pq.ParquetFile(before).read().drop_columns(["origins"]), before)
    write([*a_day(m.T0 + DAY), m.rebalance(3, at_ms=m.T0 + 2 * DAY)], history)
    done = kshadow("history", "rollup", "--history", history, "--out", out)
    assert done.exit_code == 0, done.stderr
    table = ds.dataset(out / "causes", partitioning="hive").to_table().to_pylist()
    days = sorted(
        (str(it["date"]), it["kind"], it["cause"], it["count"])
        for it in table
        if it["window"] == "1d" and it["kind"] != "rebalance"
    )
    assert days == [
        ("2026-09-21", "departure", "session_timeout", 1),
        ("2026-09-22", "departure", "session_timeout", 1),
        ("2026-09-22", "origin", "oom_killed", 1),
    ]
    page = tmp_path / "page.html"
    done = kshadow("history", "report", "--rollups", out, "--out", page)
    assert done.exit_code == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "By what Kubernetes reports of their pods: OOM-killed 1." in text
    told = kshadow("explain", "g", "--from", history, "--since", m.T0 + DAY - 120_000, "--until", m.T0 + DAY)
    assert "was OOM-killed at its limit of 512Mi" in " ".join(told.stdout.split()), told.stdout + told.stderr


def test_of_an_event_that_was_told_twice_the_one_that_knows_counts(tmp_path: Path) -> None:
    """As an agent tells again that was killed before its snapshot, when Kubernetes had forgotten the pod."""
    knows = a_day(m.T0)
    forgot = json.loads(json.dumps(knows))
    forgot[1]["left"][0]["origin"] = forgot[2]["member"]["origin"] = None
    after = [m.rebalance(3, at_ms=m.T0 + DAY)]
    for number, portions in enumerate(([knows, forgot], [forgot, knows])):
        history, out = tmp_path / f"history-{number}", tmp_path / f"rollups-{number}"
        for portion in (*portions, after):
            write(portion, history)
        assert kshadow("history", "rollup", "--history", history, "--out", out).exit_code == 0
        table = ds.dataset(out / "causes", partitioning="hive").to_table().to_pylist()
        counted = {it["kind"]: it["count"] for it in table if it["window"] == "1d" and it["kind"] != "rebalance"}
        assert counted == {"departure": 1, "origin": 1}
        told = kshadow("explain", "g", "--from", history).stdout
        assert "was OOM-killed at its limit of 512Mi" in " ".join(told.split())
