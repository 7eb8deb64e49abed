"""What a stop does, by signals to real processes; and the plan of it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agent.runtime.shutdown import (
    ONE_REQUEST_S,
    OVERTIME_S,
    Shutdown,
    ShutdownStep,
    StepOutcome,
    deadlines,
    run_steps,
)
from tests import ROOT
from tests.waiting import until

PATIENCE_S = 20
"""For a process that ends, or a thread: on a busy machine it takes seconds."""


class Process:
    def __init__(self, what: str) -> None:
        self.it = subprocess.Popen(
            [sys.executable, "-m", "tests.live.runtime.shutdown_program", what],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self, *expected: str) -> None:
        assert self.it.stdout is not None
        for line in expected:
            assert self.it.stdout.readline() == line + "\n"

    def ends(self, within_s: float) -> tuple[int, str]:
        """Exit code and standard error."""
        _, err = self.it.communicate(timeout=within_s)
        return self.it.returncode, err


@contextmanager
def process(what: str) -> Iterator[Process]:
    it = Process(what)
    try:
        yield it
    finally:
        if it.it.poll() is None:
            it.it.kill()
        it.it.communicate()


@pytest.mark.parametrize(
    ("what", "number"),
    [("nothing", signal.SIGTERM), ("nothing", signal.SIGINT), ("slow log", signal.SIGTERM)],
    ids=["SIGTERM", "SIGINT", "slow log"],
)
def test_one_signal(what: str, number: signal.Signals) -> None:
    with process(what) as it:
        it.says("ready")
        it.it.send_signal(number)
        it.says("asked", "waited", "reader")
        code, err = it.ends(PATIENCE_S)
        assert code == 0
        assert err.endswith(f"kshadow: stopping: {number.name}\n")


def test_asked_from_within() -> None:
    with process("ask") as it:
        it.says("ready", "asked", "waited", "reader")
        assert it.ends(PATIENCE_S)[0] == 0


def test_a_step_that_hangs_is_named_and_left() -> None:
    with process("hang") as it:
        it.says("ready")
        it.it.send_signal(signal.SIGTERM)
        it.says("asked", "waited", "hangs", "snapshot")
        code, err = it.ends(PATIENCE_S)
        assert code == 1
        # It waits for a second; how soon it is told of that, the machine decides.
        assert re.search(r"ERROR kshadow: stopping: reader hangs, [1-9]\.\d s so far; going on without it\n", err)


def test_a_step_that_fails_does_not_keep_the_next_from_its_work() -> None:
    with process("fail") as it:
        it.says("ready")
        it.it.send_signal(signal.SIGTERM)
        it.says("asked", "waited", "snapshot")
        code, err = it.ends(PATIENCE_S)
        assert code == 1
        assert "stopping: reader failed | RuntimeError: no | more |" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_at_once(number: signal.Signals, code: int) -> None:
    with process("slow") as it:
        it.says("ready")
        it.it.send_signal(signal.SIGTERM)
        it.says("asked", "waited")
        time.sleep(2 * ONE_REQUEST_S)
        it.it.send_signal(number)
        # The step would take longer.
        ended, err = it.ends(PATIENCE_S)
        assert ended == code
        assert f"stopping: {number.name} again; ending now" in err


def test_two_signals_at_once_are_one_request() -> None:
    """As `timeout` sends them, to the process and to its group: what is known is saved all the same."""
    with process("nothing") as it:
        it.says("ready")
        it.it.send_signal(signal.SIGTERM)
        it.it.send_signal(signal.SIGINT)
        it.says("asked", "waited", "reader")
        assert it.ends(PATIENCE_S)[0] == 0


def test_the_main_thread_is_in_c() -> None:
    """As in a librdkafka call: it is seen at once that a stop is asked for, and a second signal ends it."""
    with process("in c") as it:
        it.says("ready")
        time.sleep(0.3)
        it.it.send_signal(signal.SIGTERM)
        it.says("asked")
        time.sleep(2 * ONE_REQUEST_S)
        it.it.send_signal(signal.SIGTERM)
        assert it.ends(PATIENCE_S)[0] == 143


def test_a_main_thread_that_never_comes_to_the_steps() -> None:
    with process("main hangs") as it:
        it.says("ready")
        began = time.monotonic()
        it.it.send_signal(signal.SIGTERM)
        it.says("asked", "waited", "hangs")
        code, err = it.ends(3 + OVERTIME_S + PATIENCE_S)
        assert code == 1
        assert "stopping: not done after 5 s; ending now" in err
        assert time.monotonic() - began > 4.9


def test_what_fails_before_a_stop_is_asked_for() -> None:
    with process("raises") as it:
        code, err = it.ends(PATIENCE_S)
        assert (code, "nobody caught this; the process ends | RuntimeError: at the start" in err) == (1, True)


def test_a_signal_ignored_from_the_start_stays_ignored() -> None:
    command = f"trap '' INT; exec {sys.executable} -m tests.live.runtime.shutdown_program nothing"
    with subprocess.Popen(["sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        assert it.stdout.readline() == "ready\n"
        it.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert it.poll() is None
        it.send_signal(signal.SIGTERM)
        assert it.stdout.read() == "asked\nwaited\nreader\n"
        assert it.wait(PATIENCE_S) == 0


def test_as_before_where_nothing_was_asked() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    with Shutdown() as stopping:
        assert not stopping.wait(0)
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] != before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert signal.set_wakeup_fd(wakeup) == wakeup
    until(lambda: all(it.name != "signals" for it in threading.enumerate()), PATIENCE_S)


def step(name: str, most_s: float, takes_s: float = 0) -> ShutdownStep:
    return ShutdownStep(name, lambda: time.sleep(takes_s), most_s)


def test_deadlines() -> None:
    assert deadlines([]) == []
    assert deadlines([step("a", 5), step("b", 10), step("c", 5)]) == [5, 15, 20]
    with pytest.raises(ValueError, match=r"may take 20\.5 s, there are 20 s"):
        deadlines([step("a", 5), step("b", 15.5)])


def test_what_a_step_leaves_over_is_the_nexts() -> None:
    hows = [it.result for it in run_steps([step("a", 1), step("b", 0.1, takes_s=0.4), step("c", 0.1)], 2)]
    assert hows == ["done", "done", "done"]
    hung = run_steps([step("a", 0.1, takes_s=15), step("b", PATIENCE_S)], 0.1 + PATIENCE_S)
    assert [(it.name, it.result) for it in hung] == [("a", "hung"), ("b", "done")]
    assert isinstance(hung[0], StepOutcome)
    assert 0.1 <= hung[0].took_s < 15
