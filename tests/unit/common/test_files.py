"""Directories for what a process needs while it lives."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agent.common.files import scratch_directory, whole_or_not
from tests import ROOT

HOLDER = """
import sys, time
from agent.common.files import scratch_directory, whole_or_not
with scratch_directory("kshadow-test-") as path:
    (path / "spilled").write_bytes(bytes(1000))
    print(path, flush=True)
    time.sleep(600)
"""


def holder(directory: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has one below a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"TMPDIR": str(directory), "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.usefixtures("process")
def test_what_killed_processes_left_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "kshadow-test-link").symlink_to(elsewhere)
    (tmp_path / "kshadow-other-1").mkdir()
    (killed, left), (alive, held) = holder(tmp_path), holder(tmp_path)
    with killed, alive:
        killed.kill()
        killed.wait()
        assert (left / "spilled").exists()
        with scratch_directory("kshadow-test-") as mine:
            there = {it.name for it in tmp_path.iterdir()}
        alive.kill()
    assert there == {mine.name, held.name, "kshadow-test-link", "kshadow-other-1", "elsewhere"}
    assert not mine.exists()


def test_links_that_name_each_other_are_no_place(tmp_path: Path) -> None:
    """Python 3.11 raised a `RuntimeError`, which nobody caught."""
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"), whole_or_not(tmp_path / "one"):
        pass
    assert sorted(it.name for it in tmp_path.iterdir()) == ["one", "two"]
    assert (tmp_path / "one").is_symlink()
