"""What pyproject.toml says kshadow needs at the least is enough: with the oldest versions commands say the same, and
tests of what extras are for pass.

Spark is not part of it: its extra has oldest versions of pandas and NumPy of their own, and takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import ROOT
from tests.unit.cli.running import SEGMENTS
from tests.unit.history.histories import events_of, segments, write

COMMANDS = (
    ("explain", "pricing-poll", "--from", str(SEGMENTS)),
    ("whatif", "pricing-poll", "--from", str(SEGMENTS), "-o", "json"),
    ("findings", "--from", str(SEGMENTS), "-o", "yaml"),
    ("generate", "--groups", "20", "--records", "500", "--start", "2026-11-21", "--out", "-"),
    ("config", "show"),
    ("run", "--bootstrap-server", "localhost:1", "--listen", "127.0.0.1:0"),
    ("findings", "--from", "HISTORY", "-o", "json"),
    ("history", "query", "--history", "HISTORY", "SELECT type, count(*) FROM history GROUP BY ALL ORDER BY ALL"),
    ("history", "rollup", "--history", "HISTORY", "--out", "ROLLUPS"),
    ("history", "query", "--rollups", "ROLLUPS", "FROM groups ORDER BY ALL"),
)
TESTS = (
    "tests/unit/history/test_from_tables.py",
    "tests/unit/kubernetes/test_connection.py",
    "tests/unit/persistence/export/test_otlp.py",
)
"""Of Delta tables, of Kubernetes and of OTLP."""


def by_lower_bound(requirement: str) -> str:
    """The requirement, by its lower bound alone."""
    needed = Requirement(requirement)
    (bound,) = (it for it in needed.specifier if it.operator == ">=")
    return f"{needed.name}=={bound.version}"


@pytest.mark.thorough
def test_commands_say_the_same_with_the_oldest_packages(process: None, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_extras = [it for extra in ("parquet", "history", "delta", "kubernetes", "otlp") for it in extras[extra]]
    needed = [*project["dependencies"], *of_extras]
    venv.create(tmp_path / "oldest", with_pip=True)
    python = tmp_path / "oldest" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    oldest = [by_lower_bound(it) for it in needed if not it.startswith("kshadow[")]
    subprocess.run([*install, *oldest], check=True, timeout=600)
    write(events_of(segments(tmp_path / "segments")), tmp_path / "history")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    for command in COMMANDS:
        said = []
        for by in (python, sys.executable):
            places = {"HISTORY": tmp_path / "history", "ROLLUPS": tmp_path / f"rollups-{len(said)}"}
            arguments = [places.get(it, it) for it in command]
            done = subprocess.run(
                [by, "-m", "agent.cli.main", *arguments], env=env, capture_output=True, check=False, timeout=120
            )
            said.append(
                (done.returncode, done.stdout.replace(str(places["ROLLUPS"]).encode(), b"ROLLUPS"), done.stderr)
            )
        old, new = said
        assert old[:2] == new[:2], said
    # Plots are drawn otherwise by another version.
    report = ["history", "report", "--rollups", tmp_path / "rollups-0", "--out", tmp_path / "page.html"]
    subprocess.run([python, "-m", "agent.cli.main", *report], env=env, check=True, timeout=120)
    assert "data:image/" in (tmp_path / "page.html").read_text(encoding="utf-8")
    # What tests need beside it comes behind what is there.
    (packages,) = (tmp_path / "oldest" / "lib").glob("python3*/site-packages")
    (packages / "newest.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    pytest_of_it = [python, "-m", "pytest", "-q", "-n", "4", "-p", "no:cacheprovider", "-o", "filterwarnings=ignore"]
    done = subprocess.run(
        [*pytest_of_it, *TESTS], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-4000:]
