"""`docs/migration.md` names what there is, on both sides."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from agent.serving.metrics.compat import COMPAT_METRICS, FAMILIES, Exporters
from agent.serving.metrics.group_metrics import GroupCounts, GroupReading, GroupShape, LabelledGroups, LabelWriter
from agent.serving.metrics.table import METRICS
from tests import ROOT
from tests.harness.tools import need
from tests.unit.serving.metrics.oracle import TopicLag

TEXT = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
OURS = {metric.sample_name for metric in METRICS.values()}
TITLES = {it: it.value if it is not Exporters.BURROW else "Burrow" for it in Exporters}


_READING = GroupReading(
    GroupShape("g", "classic", "Stable", 1, 1, 1, 1.0, 0),
    counts=GroupCounts(findings=((("stalled_consumer", "critical"), True),)),
    topics=(TopicLag("t", 1, 1.0),),
)
OF_TOPICS = LabelledGroups([_READING], [""], LabelWriter())
"""A group of which all is known but single partitions."""


class Row(NamedTuple):
    """A line of a table: their metric, what there is of it as theirs, and what it is in ours."""

    theirs: str
    told: str
    ours: str


def rows(exporter: Exporters) -> list[Row]:
    """Those of one metric; what is summed up in one line is not there anyhow."""
    lines = [line.split(" | ") for line in SECTIONS[TITLES[exporter]].splitlines() if line.startswith("| `")]
    found = [Row(cells[0].removeprefix("| "), cells[1].strip(), cells[2].strip()) for cells in lines]
    assert len(found) > 5
    assert {row.told for row in found} == {"yes", "partition", "no"}
    return found


@pytest.mark.parametrize("exporter", list(Exporters))
def test_the_tables_say_what_is_exported(exporter: Exporters) -> None:
    for told, needs in (("yes", False), ("partition", True)):
        named = [row.theirs.strip("`") for row in rows(exporter) if row.told == told]
        there = [of.name for of in COMPAT_METRICS[exporter] if needs == (not any(of.texts(OF_TOPICS)))]
        assert sorted(named) == sorted(there)
    absent = [name for row in rows(exporter) if row.told == "no" for name in re.findall(r"`(\w+)`", row.theirs)]
    assert not FAMILIES.keys() & absent


def test_every_name_of_ours_is_one() -> None:
    named = set(re.findall(r"\bkshadow_\w+", TEXT))
    assert named <= OURS
    assert len(named) > 8


def queries() -> list[str]:
    """Every expression of the tables' third column."""
    return sorted({row.ours.strip("`") for exporter in Exporters for row in rows(exporter) if row.ours[:1] == "`"})


@pytest.mark.usefixtures("process")
def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    (alerts,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    groups = yaml.safe_load(alerts)["groups"]
    used = re.findall(r"\b(?:kshadow|kminion|burrow|kafka)_\w+", yaml.safe_dump(groups))
    assert {*used} <= OURS | FAMILIES.keys()
    assert {it for it in COMPAT_METRICS if {of.name for of in COMPAT_METRICS[it]} & {*used}} == set(COMPAT_METRICS), (
        "one of each"
    )
    records = [{"record": f"query:{at}", "expr": query} for at, query in enumerate(queries())]
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [*groups, {"name": "queries", "rules": records}]}))
    command = [need("promtool"), "check", "rules", rules]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert told.returncode == 0, told.stdout + told.stderr
