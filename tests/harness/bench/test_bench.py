"""The bench runs: each scenario at its smallest size, and what it measures with."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.core.wire.primitives import Uuid
from tests import ROOT
from tests.harness.bench import load
from tests.harness.bench.__main__ import SCENARIOS, main
from tests.harness.bench.measure import NotReadyError, service
from tests.harness.bench.profile import ALL, MARKS, OTHERS, PAGE, REST, STEPS, VARIANTS, measured, page_table
from tests.harness.bench.report import Column, Row, Table, median
from tests.harness.bench.tools import BINARIES, others

BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


@pytest.mark.usefixtures("process")
def test_usage_is_of_the_whole_tree(tmp_path: Path) -> None:
    """A parent that sleeps, one child that has ended and one that holds memory."""
    child = "held = bytearray(64 * 2**20); print('up', flush=True); import time; time.sleep(60)"
    parent = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {BURN!r}], check=True)\n"
        f"held = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "try: held.wait()\nfinally: held.kill()"
    )
    with service([sys.executable, "-c", parent], env={}, cwd=tmp_path, name="output") as it:
        ready = it.until(lambda: "up" in it.log.read_text(), 20)
        assert ready.usage.cpu_s >= 0.3
        assert ready.usage.rss_mb > 64
        assert 64 < ready.usage.pss_mb <= ready.usage.rss_mb <= ready.usage.peak_mb
        assert 0 < ready.busy_s <= ready.wall_s
        children = Path(f"/proc/{it.process.pid}/task/{it.process.pid}/children").read_text().split()
        for pid in children:
            subprocess.run(["kill", pid], check=True)


@pytest.mark.usefixtures("process")
def test_a_process_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    command = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    with (
        service(command, env={}, cwd=tmp_path, name="output") as it,
        pytest.raises(NotReadyError, match=r"ended with 1 .*no such thing"),
    ):
        it.until(lambda: False, 60)
    assert time.monotonic() - began < 30


def test_medians_and_targets() -> None:
    rows: list[Row] = [{"wall_s": 1.0, "x": None}, {"wall_s": 5.0, "x": None}, {"wall_s": 2.0, "x": 4.0}]
    assert median(rows) == {"wall_s": 2.0, "x": 4.0, "wall_min": 1.0, "wall_max": 5.0}
    table = Table("t", "Title", [Column("wall_s", "s", 2), Column("none", "none")], {"a": median(rows)})
    table.ratio("fast enough", 6.0, table.value("a", "wall_s"), at_least=3)
    table.ratio("small enough", 6.0, table.value("a", "wall_s"), at_most=2.9)
    table.ratio("nothing is known of b", table.value("b", "wall_s"), 1.0, at_least=3)
    assert [ratio.is_met for ratio in table.ratios] == [True, False]
    assert "fast enough: 3.00  (wanted: 3 or more: met)" in table.text()
    assert "small enough: 3.00  (wanted: 2.9 or less: MISSED)" in table.text()
    assert table.text().splitlines()[1].startswith("  fast enough: 3.00")
    assert table.text().splitlines()[-1].split() == ["a", "2.00", "-"]


@pytest.mark.usefixtures("process")
def test_a_profile_leaves_nothing_out() -> None:
    spent = measured("files", str(ROOT / "docs" / "examples"), load.Shape())
    assert spent[ALL] > 0
    assert sum(spent.get(step, 0.0) for step in (*STEPS, REST)) == pytest.approx(spent[ALL])
    assert spent["commits of known positions"] > 0
    assert spent["analyzers: group records"] > 0
    table = page_table({variant: [spent] for variant in VARIANTS}).splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in table[2:]] == [*STEPS, REST, ALL, OTHERS]
    assert MARKS.search(PAGE.read_text(encoding="utf-8")), "the page has a place for it"


def test_who_takes_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in BINARIES.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KMINION", sys.executable)
    monkeypatch.setenv("BURROW", str(tmp_path / "absent"))
    tools, missing = others()
    assert [tool.name for tool in tools] == ["kminion"]
    assert missing == {
        "Burrow": f"BURROW: no program at {tmp_path / 'absent'}",
        "kafka_exporter": "KAFKA_EXPORTER does not name its binary",
    }


def test_a_load_is_the_same_each_time() -> None:
    shape = load.Shape(topics=10, topic_partitions=3, topics_of_a_group=2)
    ids = {f"topic-{number:03d}": Uuid(bytes(15) + bytes([number + 1])) for number in range(10)}
    slots = list(load.slots(7, ids, shape))
    assert len(slots) == shape.positions == 6
    assert len({slot.key for slot in slots}) == 6
    assert len({slot.partition for slot in slots}) == 1
    assert slots == list(load.slots(7, ids, shape))


@pytest.mark.usefixtures("kafka")
@pytest.mark.thorough
@pytest.mark.parametrize("wanted", [["steady"], [*SCENARIOS]])
def test_scenarios_run(
    wanted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One shares most of what the others use."""
    for variable in BINARIES.values():
        monkeypatch.delenv(variable, raising=False)
    assert main(["--tiny", "--only", ",".join(wanted), "-o", "json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert set(out["left_out"]) == set(BINARIES)
    assert {scenario["scenario"] for scenario in out["scenarios"]} == set(wanted)
    rows = {
        scenario["scenario"]: next(row for row in scenario["rows"] if row["name"].startswith("kshadow"))
        for scenario in out["scenarios"]
    }
    assert rows["steady"]["rate"] > 500
    assert 0 <= rows["steady"]["age_s"] <= rows["steady"]["age_max_s"] < 30
    assert rows["steady"]["behind"] is not None
