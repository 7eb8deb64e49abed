"""The example of the guide: a package of somebody else, installed, found, and right about the log beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import ROOT
from tests.generate.docs.example import install
from tests.unit.cli.running import spawn

LOG = ROOT / "docs" / "examples"


def run(directory: Path, *arguments: object) -> str:
    """What kshadow prints where the example is installed; it must find nothing to complain about."""
    with spawn(*arguments, env={"PYTHONPATH": str(directory)}) as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b"")
    return out.decode()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("site"))


@pytest.mark.usefixtures("process")
def test_it_is_found_with_its_settings(installed: Path) -> None:
    (form,) = json.loads(run(installed, "analyzers", "understaffed", "-o", "json"))
    assert {it["name"]: it["default"] for it in form["settings"]}["part"] == 0.5
    assert all(it["help"] for it in form["settings"])


@pytest.mark.usefixtures("process")
def test_it_finds_the_groups_that_shrank(installed: Path) -> None:
    told = ("--analyzers", "understaffed", "--tune", "understaffed.open_after_s=5", "-o", "json")
    found = json.loads(run(installed, "findings", "--from", LOG, *told))
    numbers = {it["group"]: (it["numbers"]["members"], it["numbers"]["most"]) for it in found}
    assert numbers == {"emails-crash": (1, 3), "audit-loop": (1, 2), "pricing-poll": (1, 2)}


@pytest.mark.usefixtures("process")
def test_it_closes_when_the_larger_group_is_long_ago(installed: Path) -> None:
    told = ("--analyzers", "understaffed", "-o", "ndjson")
    tuned = ("--tune", "understaffed.open_after_s=0", "--tune", "understaffed.close_after_s=1")
    events = [
        json.loads(line)
        for line in run(installed, "replay", LOG, *told, *tuned, "--tune", "understaffed.window_s=20").splitlines()
    ]
    states = [it["state"] for it in events if it["type"] == "finding" and it["group"] == "emails-crash"]
    assert states == ["firing", "resolved"]
