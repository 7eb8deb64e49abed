"""The leash: what happens to processes whose owner dies."""

import os
import signal
import subprocess
import sys

import pytest

from agent.tools.embedded import ProcessReaper
from tests.waiting import until

OWNER = """
import os, pathlib, signal, subprocess, sys
from agent.tools.embedded import ProcessReaper
leash = ProcessReaper(pathlib.Path(sys.argv[1]))
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
held = [subprocess.Popen(["sleep", "60"], **quiet) for _ in range(2)]
freed = subprocess.Popen(["sleep", "60"], **quiet)
for process in (*held, freed):
    leash.watch(process.pid)
leash.release(freed.pid)
held[1].send_signal(signal.SIGSTOP)
print(held[0].pid, held[1].pid, freed.pid, flush=True)
os.kill(os.getpid(), {how})
signal.pause()
"""


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"  # a zombie has ended
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", ["signal.SIGKILL", "signal.SIGTERM"])
def test_kills_what_it_holds_when_its_owner_dies(tmp_path, how):
    directory = tmp_path / "it's here"
    directory.mkdir()
    owner = subprocess.run(
        [sys.executable, "-c", OWNER.replace("{how}", how), str(directory)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert owner.returncode < 0, owner.stderr
    held, stopped, freed = map(int, owner.stdout.split())
    try:
        until(lambda: not runs(held))
        until(lambda: not runs(stopped), said="a process under SIGSTOP dies too")
        until(lambda: not directory.exists())
        assert runs(freed)
    finally:
        os.kill(freed, signal.SIGKILL)


def test_close_lets_go(tmp_path):
    leash = ProcessReaper(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        leash.watch(sleeper.pid)
        leash.close()
        leash.close()  # again: nothing to do
        assert sleeper.poll() is None
        sleeper.kill()
    assert tmp_path.exists()
