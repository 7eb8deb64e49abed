"""What may not be read: every command says so, with the exit code of the contract, by the system's own refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.core.events.events import Event
from tests import ROOT
from tests.unit.cli.running import COMMAND, SEGMENTS, environment
from tests.unit.history.histories import START_MS, write


def unprivileged(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run as whom permissions bind: root, who runs tests in containers, may read everything."""
    mortal = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may read everything, and there is no setpriv to be less")
        mortal = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [*mortal, *COMMAND, *map(str, arguments)]
    return subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=120)


pytestmark = pytest.mark.usefixtures("process")


class Place(NamedTuple):
    closed: Path
    """An empty directory."""
    history: Path
    """Of two days, of which the second is closed."""
    records: Path
    """Of some partitions, of which one is closed."""
    problems: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    where = tmp_path_factory.mktemp("closed")
    of_group = {"schema": 1, "cluster": None, "group": "g", "group_type": "classic", "partition": 0, "offset": 0}
    created = {**of_group, "type": "group_created", "observed": True}
    events: list[Event] = [{**created, "event_id": f"{it}", "at_ms": START_MS + it * 86_400_000} for it in (0, 1)]
    history = write(events, where / "history")
    records = Path(shutil.copytree(SEGMENTS, where / "records"))
    (where / "problems").write_text("")
    (where / "empty").mkdir()
    closed = [where / "empty", sorted(history.glob("date=*"))[1], next(records.glob("__consumer_offsets-*"))]
    for path in (*closed, where / "problems"):
        path.chmod(0)
    yield Place(where / "empty", history, records, where / "problems")
    for path in closed:
        path.chmod(0o700)


@pytest.mark.parametrize(
    "line",
    [
        # 1 to 4: tables of events
        "timeline g --from {0.history}",
        "explain g --from {0.history}",
        "findings --from {0.history}",
        "report --out {0.history}/page.html --from {0.history}",
        # 5 to 7: and what is made of them
        "history rollup --history {0.history} --out {0.history}/../rollups",
        "history query --history {0.history} FROM|history",
        "spark compact --history {0.history}",
        # 8 to 10: a directory that may be anything
        "timeline g --from {0.closed}",
        "groups --from {0.closed}",
        "decode {0.closed}",
        # 11: a file in it, of which nobody can tell whether it is there
        "replay {0.closed}/0.log",
        # 12: one partition of several: without it groups would lack
        "groups --from {0.records}",
        # 13: a file of problems
        "assign {0.problems}",
        # 14: a history's samples
        f"replay {SEGMENTS} --samples {{0.problems}}",
    ],
)
def test_what_may_not_be_read_ends_every_command_alike(place: Place, line: str) -> None:
    done = unprivileged(*(it.replace("|", " ") for it in line.format(place).split()))
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_looked_for_is_none(place: Place) -> None:
    done = unprivileged("assign", place.closed / "problems")
    assert (done.returncode, "no file" in done.stderr) == (2, True)


def test_a_closed_day_that_is_not_asked_for_is_no_hindrance(place: Place, tmp_path: Path) -> None:
    first = START_MS + 3_600_000
    for arguments in (
        ("timeline", "g", "--from", place.history, "--until", first),
        ("explain", "g", "--from", place.history, "--until", first),
        ("findings", "--from", place.history, "--until", first),
        ("report", "--out", tmp_path / "page.html", "--from", place.history, "--until", first),
    ):
        done = unprivileged(*arguments)
        assert (done.returncode, "denied" in done.stderr) == (0, False), arguments


def test_a_rollup_needs_no_closed_day_that_is_later(place: Place, tmp_path: Path) -> None:
    history, out = tmp_path / "history", tmp_path / "out"
    for day in (6, 9):
        shutil.copytree(place.history / "date=2026-07-06", history / f"date=2026-07-0{day}")
    (history / "date=2026-07-09").chmod(0)
    line = ("history", "rollup", "--history", history, "--out", out, "--since", "2026-07-06", "--until", "2026-07-06")
    done = unprivileged(*line)
    assert (done.returncode, "1 event, 1 day from 2026-07-06" in done.stdout) == (0, True), done.stderr
    # All days are asked for: it is one of them, whatever it has.
    done = unprivileged(*line[:6])
    assert (done.returncode, "date=2026-07-09: Permission denied" in done.stderr) == (3, True)
    (history / "date=2026-07-09").chmod(0o700)
