"""`spark-submit` as a child, with other programs in its place that do one thing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.tools.spark_submit.running import LAST_LINES, JobResult, driver_of, run
from tests import ROOT
from tests.waiting import until

MAIN = Path("/no/such/main.py")


def play(program: str, *, verbose: bool = False) -> tuple[JobResult, list[str]]:
    said: list[str] = []
    ended = run([sys.executable, "-u", "-c", program], os.environ, MAIN, said.append, verbose=verbose)
    return ended, said


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


CHATTER = "import sys; print('WARN Utils: x'); print('kshadow: 3 rows', file=sys.stderr); print('Error: y');"
OURS = ["kshadow: 3 rows", "Error: y"]


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_jobs_code_is_ours_and_only_its_lines_are_shown(code: int) -> None:
    assert play(f"{CHATTER} sys.exit({code})") == (JobResult(code), OURS)


def test_all_is_shown_that_is_asked_for() -> None:
    assert play(CHATTER, verbose=True) == (JobResult(0), ["WARN Utils: x", *OURS])


def test_what_was_hidden_is_told_of_a_job_that_fails_without_a_word() -> None:
    ended, said = play("import sys; [print(f'line {it}') for it in range(50)]; sys.exit(1)")
    hidden = tuple(f"line {it}" for it in range(50))[-LAST_LINES:]
    assert (ended, said) == (JobResult(1, hidden, "spark-submit ended with exit code 1"), [])


def test_a_traceback_is_a_failure_whatever_was_said_before() -> None:
    ended, said = play(f"{CHATTER} raise KeyError('gone')")
    assert (ended.code, ended.message) == (1, "spark-submit ended with exit code 1")
    assert ended.hidden[-1] == "KeyError: 'gone'"
    assert said == OURS


def test_a_traceback_of_what_is_told_in_a_sentence_is_not_shown() -> None:
    """Spark logs what tasks raise before the job says what it means."""
    traced = "import traceback\ntry: {}[1]\nexcept KeyError: traceback.print_exc()\n"
    assert play(f"{traced}{CHATTER} sys.exit(2)") == (JobResult(2), OURS)


@pytest.mark.parametrize(
    ("end", "said"), [("sys.exit(56)", "with exit code 56"), ("os.kill(os.getpid(), 9)", "by SIGKILL")]
)
def test_another_code_is_1(end: str, said: str) -> None:
    ended, _ = play(f"import os; {CHATTER} {end}")
    assert ended == JobResult(1, ("WARN Utils: x",), f"spark-submit ended {said}")


def test_bytes_that_are_no_text() -> None:
    _, said = play("import os; os.write(1, b'kshadow: \\xff\\n')")
    assert said == ["kshadow: \ufffd"]


# As Spark is: a parent (the JVM) with a driver below it, whose code it gives on, and somebody else beside.
JVM = """
import subprocess, sys
other = subprocess.Popen(["sleep", "300"])
driver = subprocess.Popen([sys.executable, "-u", sys.argv[1]])
print("kshadow: pids", other.pid, driver.pid, flush=True)
code = driver.wait()
sys.exit(code if code >= 0 else 128 - code)
"""
STREAM = """
import signal, sys, time
def end(*_):
    print("Error: " if DEAF else "kshadow: ended in order")
    if not DEAF:
        sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("kshadow: ready")
while True:
    time.sleep(0.1)
"""
PARENT = """
import os, sys
from pathlib import Path
from agent.tools.spark_submit.running import run
jvm, main = sys.argv[1:]
ended = run([sys.executable, jvm, main], os.environ, Path(main), lambda it: print(it, flush=True))
print("ended", ended.code, ended.message)
sys.exit(ended.code)
"""


class Scene:
    """A parent with such children, and what it prints."""

    def __init__(self, directory: Path, driver: str) -> None:
        for name, text in (("jvm.py", JVM), ("driver.py", driver), ("parent.py", PARENT)):
            (directory / name).write_text(text)
        names = [str(directory / it) for it in ("parent.py", "jvm.py", "driver.py")]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen([sys.executable, *names], stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout is not None
        self._lines = self.process.stdout
        said = sorted((self._lines.readline().strip(), self._lines.readline().strip()))
        assert said[1] == "kshadow: ready"
        self.pids = [int(it) for it in said[0].split()[2:]]

    def end(self) -> tuple[int, list[str]]:
        with self._lines:
            return self.process.wait(60), self._lines.read().splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_stream_in_order(tmp_path: Path, number: int) -> None:
    scene = Scene(tmp_path, STREAM.replace("DEAF", "False"))
    scene.process.send_signal(number)
    assert scene.end() == (0, ["kshadow: ended in order", "ended 0 None"])
    until(lambda: not any(map(alive, scene.pids)))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_job_that_minds_none(tmp_path: Path, number: int, code: int) -> None:
    scene = Scene(tmp_path, "print('kshadow: ready')\nimport time\ntime.sleep(300)")
    scene.process.send_signal(number)
    assert scene.end() == (code, [f"ended {code} ended by {signal.Signals(number).name}"])
    until(lambda: not any(map(alive, scene.pids)))


def test_a_signal_is_heard_whichever_thread_it_comes_to() -> None:
    """As well as one that comes just before the child's next line is waited for: neither ends the waiting."""

    def signal_itself() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    began = time.monotonic()
    command = [sys.executable, "-u", "-c", "print('kshadow: ready')\nimport time\ntime.sleep(60)"]
    ended = run(command, os.environ, MAIN, lambda _: threading.Thread(target=signal_itself).start())
    assert ended == JobResult(143, message="ended by SIGTERM")
    assert time.monotonic() - began < 30


def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, STREAM.replace("DEAF", "True"))
    scene.process.send_signal(signal.SIGINT)
    assert scene._lines.readline() == "Error: \n", "the first reached it"
    assert alive(scene.pids[1])
    scene.process.send_signal(signal.SIGTERM)
    assert scene.end() == (130, ["ended 130 ended by SIGINT"])
    until(lambda: not any(map(alive, scene.pids)))


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, STREAM.replace("DEAF", "True"))
    scene.process.kill()
    scene.end()
    until(lambda: not any(map(alive, scene.pids)))


def test_the_driver_is_found_by_its_file(tmp_path: Path) -> None:
    scene = Scene(tmp_path, STREAM.replace("DEAF", "False"))
    jvm = int(Path(f"/proc/{scene.pids[1]}/stat").read_bytes().rpartition(b")")[2].split()[1])
    assert driver_of(jvm, tmp_path / "driver.py") == scene.pids[1]
    assert driver_of(jvm, tmp_path / "other.py") is None
    assert driver_of(scene.pids[1], tmp_path / "driver.py") is None
    scene.process.terminate()
    scene.end()


def test_signals_are_as_they_were_afterwards() -> None:
    before = [signal.getsignal(it) for it in (signal.SIGINT, signal.SIGTERM)]
    play("pass")
    assert [signal.getsignal(it) for it in (signal.SIGINT, signal.SIGTERM)] == before
