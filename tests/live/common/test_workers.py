"""Processes that share work: in order, gone when they are not needed, and missed when they die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from agent.common.workers import WorkerDied, Workers, WorkFailed
from tests import ROOT
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("process")


def square_slowly(task: tuple[int, float]) -> tuple[int, int]:
    """The square, and who has computed it."""
    number, seconds = task
    time.sleep(seconds)
    return number * number, os.getpid()


def command_line(task: int) -> bytes:
    """How this process was called."""
    return Path("/proc/self/cmdline").read_bytes()


def started_beside_threads(number: int) -> bytes:
    """Have a process of its own tell how it was called, while so many threads more than one run here."""
    end = threading.Event()
    others = [threading.Thread(target=end.wait) for _ in range(number)]
    for it in others:
        it.start()
    try:
        with Workers(1, command_line) as workers:
            (found,) = workers.results([1], [1])
    finally:
        end.set()
        for it in others:
            it.join()
    return found


def fail(task: str) -> None:
    """As the task says."""
    match task:
        case "raise":
            raise ValueError("no such thing")
        case "exit":
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def tell_and_wait(path: str) -> None:
    """Write down which process this is, and take long."""
    Path(path).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(600)


def wait_for_workers(paths: list[str]) -> None:
    """The program that is interrupted."""
    with Workers(len(paths), tell_and_wait) as workers:
        list(workers.results(paths, [1] * len(paths)))


def test_results_come_in_the_order_of_the_tasks() -> None:
    tasks = [(number, 0.0 if number else 0.5) for number in range(12)]
    with Workers(2, square_slowly) as workers:
        found = list(workers.results(tasks, [1 if number else 9 for number, _ in tasks]))
        assert [it for it, _ in found] == [number * number for number, _ in tasks]
        # While one was busy with the largest, the other took the rest.
        assert len({pid for _, pid in found}) == 2
        assert os.getpid() not in {pid for _, pid in found}
    assert active_children() == []


@pytest.mark.parametrize("others", [0, 1])
def test_threads_are_not_forked(others: int) -> None:
    program = (
        "from tests.live.common.test_workers import started_beside_threads, command_line\n"
        f"print(started_beside_threads({others}) == command_line(0))"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said == f"{not others}\n"


@pytest.mark.parametrize(
    ("task", "said"),
    [
        pytest.param("exit", "worker-0, one of the processes that share the work, ended with 7", id="1"),
        pytest.param("kill", "was ended by SIGKILL, as Linux does where memory runs out", id="2"),
    ],
)
def test_one_that_dies_is_missed(task: str, said: str) -> None:
    with pytest.raises(WorkerDied, match=said), Workers(1, fail) as workers:
        list(workers.results([task, "none"], [2, 1]))
    assert active_children() == []


def test_what_goes_wrong_there_goes_wrong_here() -> None:
    with pytest.raises(WorkFailed, match="ValueError: no such thing"), Workers(1, fail) as workers:
        list(workers.results(["raise"], [1]))


def test_what_none_has_got_is_taken_back() -> None:
    with Workers(1, square_slowly) as workers:
        numbers = [workers.put((number, 0.2)) for number in range(4)]
        assert workers.take(0.0) == []
        assert [workers.take_back(), workers.take_back(), workers.take_back()] == [numbers[3], numbers[2], None]
        found = []
        while len(found) < 2:
            found += workers.take(None)
        assert [(number, result) for number, (result, _) in found] == [(numbers[0], 0), (numbers[1], 1)]
        assert workers.take(None) == [], "there is nothing to wait for"
        again = workers.put((5, 0.0))
        ((number, (result, _)),) = workers.take(None)
        assert (number, result) == (again, 25)


def test_whoever_ends_waits_for_nothing() -> None:
    began = time.monotonic()
    with Workers(1, square_slowly) as workers:
        workers.put((1, 600.0))
        assert workers.take(0.1) == []
    assert active_children() == []
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(("number", "of_all"), [(signal.SIGINT, True), (signal.SIGKILL, False)])
def test_none_is_left_behind(number: signal.Signals, of_all: bool, tmp_path: Path) -> None:
    """Ctrl-C goes to all processes of the terminal, and is for the first alone; one that is killed says nothing."""
    paths = [str(tmp_path / "1"), str(tmp_path / "2")]
    program = f"from tests.live.common.test_workers import wait_for_workers; wait_for_workers({paths!r})"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            pids = [int(_content(Path(path))) for path in paths]
            assert all(map(_is_deaf_to_the_terminal, pids))
            (os.killpg if of_all else os.kill)(process.pid, number)
            said = process.communicate(timeout=60)[1].decode()
        finally:
            process.kill()
    assert process.returncode == -number
    assert said.count("Traceback") == (1 if of_all else 0), said
    until(lambda: not any(map(_is_there, pids)), said=lambda: pids)


def _content(path: Path) -> str:
    until(lambda: path.exists() and path.stat().st_size, said=str(path))
    return path.read_text(encoding="ascii")


def _is_deaf_to_the_terminal(pid: int) -> bool:
    (blocked,) = re.findall(
        r"^SigBlk:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE
    )
    return bool(int(blocked, 16) >> (signal.SIGINT - 1) & 1)


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
