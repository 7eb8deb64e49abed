"""The fuzz targets over their seeds, and the harness itself: that it runs, finds, and says what it found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.harness.fuzz.__main__ import HIDDEN, NAMES
from tests.harness.fuzz.targets import HIDDEN as HIDDEN_TARGETS
from tests.harness.fuzz.targets import TARGETS, seeds

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this platform or Python"
)


# By executions: how many a busy machine comes to in a time is unknown.
SOME = ("--seconds", "100", "--runs", "10000")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.harness.fuzz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_command_knows_every_target() -> None:
    """It names them itself: importing the targets would import `agent.core.wire` before atheris can instrument it."""
    assert tuple(TARGETS) == NAMES
    assert tuple(HIDDEN_TARGETS) == HIDDEN


@pytest.mark.parametrize("name", NAMES)
def test_seeds_their_prefixes_and_neighbours_pass(name: str) -> None:
    inputs = list(seeds(name))
    assert len(inputs) > 10
    for data in inputs:
        TARGETS[name](data)
        for at in range(0, len(data), max(1, len(data) // 24)):
            TARGETS[name](data[:at])
            TARGETS[name](data[:at] + bytes([data[at] ^ 0x81]) + data[at + 1 :])


@pytest.mark.usefixtures("process")
@needs_atheris
@pytest.mark.parametrize("name", NAMES)
def test_a_target_runs(name: str) -> None:
    done = run(*SOME, name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split(f"{name}: ")[1].split()[0]) >= 10_000
    assert int(done.stdout.split(" edges")[0].split()[-1]) > 50, "agent.core.wire is instrumented"


@pytest.mark.usefixtures("process")
@needs_atheris
def test_what_is_found_is_saved_printed_and_fails(tmp_path: Path) -> None:
    (tmp_path / "seed").write_bytes(b"!more")
    done = run(*SOME, "--seed-corpus", str(tmp_path), "self-test")
    assert done.returncode == 1
    assert "RuntimeError: the self test found its input" in done.stdout
    path, printed = (line.removeprefix("self-test: ") for line in done.stdout.splitlines()[-2:])
    assert Path(path).read_bytes().hex() == printed
    assert printed.startswith("21")


@pytest.mark.usefixtures("process")
@needs_atheris
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "unknown target 'nothing', known are decode, value, payload, hot"),
        (["--seconds", "0"], "--seconds must be 1 or more"),
        (["--seed-corpus", "/no/such", "hot"], "--seed-corpus /no/such is not a directory"),
        (["--fast"], "unknown arguments ['--fast']"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
