"""What pyproject.toml says kshadow needs at the least is enough: with the oldest versions commands say the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import ROOT
from tests.unit.cli.running import SEGMENTS

COMMANDS = (
    ("explain", "pricing-poll", "--from", str(SEGMENTS)),
    ("whatif", "pricing-poll", "--from", str(SEGMENTS), "-o", "json"),
    ("findings", "--from", str(SEGMENTS), "-o", "yaml"),
    ("generate", "--groups", "20", "--records", "500", "--start", "2026-11-21", "--out", "-"),
    ("config", "show"),
    ("run", "--bootstrap-server", "localhost:1"),
)


def oldest(requirement: str) -> str:
    """The requirement, by its lower bound alone."""
    needed = Requirement(requirement)
    (bound,) = (it for it in needed.specifier if it.operator == ">=")
    return f"{needed.name}=={bound.version}"


@pytest.mark.thorough
def test_commands_say_the_same_with_the_oldest_packages(process: None, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    venv.create(tmp_path / "oldest", with_pip=True)
    python = tmp_path / "oldest" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *map(oldest, project["dependencies"])], check=True, timeout=600)
    for command in COMMANDS:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        said = [
            subprocess.run(
                [by, "-m", "agent.cli.main", *command], env=env, capture_output=True, check=False, timeout=120
            )
            for by in (python, sys.executable)
        ]
        old, new = ((it.returncode, it.stdout) for it in said)
        assert old == new, said
