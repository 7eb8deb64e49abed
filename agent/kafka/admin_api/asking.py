"""The other end of `agent.kafka.admin_api.child`: starts it, writes questions, reads answers as plain values.

Owns the process and the forms. Nothing here waits for a broker. Refuses to know why something is asked.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from itertools import count
from typing import Any

import msgspec

from agent.common.pacing import Backoff, Interval, StandstillDetector
from agent.common.threads import daemon_thread
from agent.kafka.admin_api.answers import AdminAnswer, AdminOutcome, Refusal

log = logging.getLogger("kshadow")

SILENT_S = 20.0
"""After so long without an answer the process is started anew: librdkafka 2.16's client may wait for a connection
that never comes again once a broker was restarted."""

MUTE_S = 45.0
"""So long questions about somebody may only time out while all brokers answer others, and so long one may be open,
which each is for a few seconds. Then the process is started anew as well: the same client may wait for a coordinator,
for ever, while it lists groups."""


class AdminProcess:
    """One such process. It ends with us, whatever ends us: its standard input does."""

    def __init__(self, conf: Mapping[str, str], wake: Callable[[], None]) -> None:
        """`wake` is called from another thread whenever there is something to `take`."""
        self._numbers = count(1)
        self._answers: deque[AdminAnswer] = deque()
        self._asked_at: dict[int, float] = {}
        """Questions that are not answered, by number, in the order in which they were asked."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agent.kafka.admin_api.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Where we were found, it finds the same.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # Ctrl-C is for us
            text=True,
        )
        self._reader = daemon_thread("observer-answers", self._read, wake)
        self._reader.start()
        self._write(dict(conf))

    def _read(self, wake: Callable[[], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # What an abort cuts off has no line end.
            if line.endswith("\n"):
                self._answers.append(parse_answer(json.loads(line)))
                wake()
        wake()

    def _write(self, line: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            # It ended: `exit_code` tells.
            return

    def ask(self, what: str, groups: Iterable[str] = (), topics: Mapping[str, Collection[str]] | None = None) -> int:
        """Ask one of `child`'s questions; its number. `topics`: by group, those that it is known to have committed
        for."""
        number = next(self._numbers)
        known = {group: list(some) for group, some in (topics or {}).items()}
        self._asked_at[number] = time.monotonic()
        self._write({"id": number, "ask": what, "groups": list(groups), "topics": known})
        return number

    def take_answers(self) -> list[AdminAnswer]:
        """The answers that have come."""
        taken = [self._answers.popleft() for _ in range(len(self._answers))]
        for answer in taken:
            self._asked_at.pop(answer.number, None)
        return taken

    @property
    def waiting_since(self) -> float | None:
        """When the oldest question was asked (`time.monotonic`) whose answer was not taken yet."""
        return next(iter(self._asked_at.values()), None)

    def excuse(self, now: float) -> None:
        """Nobody could have taken what came until now."""
        self._asked_at = dict.fromkeys(self._asked_at, now)

    @property
    def exit_code(self) -> int | None:
        """How the process ended, negative by a signal; None while it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End the process, without ceremony."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def parse_answer(line: Mapping[str, Any]) -> AdminAnswer:
    """A line of `child`'s as a value."""
    return msgspec.convert(line, AdminAnswer, str_keys=True)


class AdminSession:
    """An `AdminProcess` that is started anew where it ended or fell silent, and how its questions ended so far.

    Used by one thread, but for `outcomes`, `last_refusal` and `answered_at`, which others may read.
    """

    def __init__(self, conf: Mapping[str, str], wake: Callable[[], None], on_loss: Callable[[], None]) -> None:
        """`conf`: librdkafka properties. `wake`: as `AdminProcess` calls it. `on_loss` is called as a process goes:
        what was asked is not answered any more."""
        self._conf, self._wake, self._on_loss = dict(conf), wake, on_loss
        self._process: AdminProcess | None = None
        self._backoff = Backoff[None]()
        self._standstill = StandstillDetector()
        self.outcomes = Counter(dict.fromkeys(AdminOutcome, 0))
        self.last_refusal: Refusal | None = None
        """Since the last answer."""
        self.answered_at = 0.0
        """`time.monotonic` of the last answer, or of the start of the process."""
        self._mute_since: dict[Hashable, float] = {}
        """Whom questions are about that only time out, and since when."""
        self._is_stuck = False
        self._reported: set[AdminOutcome] = set()
        self._loss_reported_s: float | None = None
        """When one was told to be gone; None once something was answered since."""

    def process(self, now: float) -> AdminProcess | None:
        """The process; None in the pause before it is started anew. `now` is `time.monotonic()`."""
        if self._standstill.lasted_s(now):
            self.answered_at = now
            self._mute_since.clear()
            if self._process is not None:
                self._process.excuse(now)
        if self._process is not None:
            code = self._process.exit_code
            self._is_stuck |= now - (self._process.waiting_since or now) >= MUTE_S
            if code is None and now - self.answered_at <= SILENT_S and not self._is_stuck:
                return self._process
            silent_s, whose = (MUTE_S, " about some groups") if self._is_stuck else (SILENT_S, "")
            silent = f"has had no answer{whose} for {silent_s:g} s"
            self._report_loss(silent if code is None else f"ended with exit code {code}", now)
            self._on_loss()
            self.close()
            self._backoff.failed(None, now)
        if self._backoff.remaining_s(None, now):
            return None
        self.answered_at = now
        self._is_stuck = False
        self._mute_since.clear()
        try:
            self._process = AdminProcess(self._conf, self._wake)
        except OSError as error:
            # Out of processes, memory or file descriptors for now.
            self._report_loss(f"cannot be started ({error.strerror})", now)
            self._backoff.failed(None, now)
        return self._process

    def _report_loss(self, how: str, now: float) -> None:
        """Say that one is gone: once while brokers are away, however many are started meanwhile."""
        if self._loss_reported_s is None:
            self._loss_reported_s = now
            log.warning("the process that asks the Admin API %s; others are started until one is answered", how)

    def answered(self, now: float) -> None:
        """A question was answered."""
        if self._loss_reported_s is not None:
            log.info("the Admin API answers again, after %.0f s", now - self._loss_reported_s)
            self._loss_reported_s = None
        self.outcomes[AdminOutcome.ANSWERED] += 1
        self.answered_at = now
        self.last_refusal = None
        self._backoff.succeeded(None)

    def refused(self, refusal: Refusal) -> bool:
        """A question was not answered; whether it is the first that ended so."""
        self.outcomes[refusal.outcome] += 1
        self.last_refusal = refusal
        is_first = refusal.outcome not in self._reported
        self._reported.add(refusal.outcome)
        return is_first

    def heard_of(self, whom: Hashable) -> None:
        """A question about a group, or about groups of a broker, was answered or refused."""
        self._mute_since.pop(whom, None)

    def timed_out(self, whom: Hashable, now: float) -> None:
        """One was not answered in time."""
        self._is_stuck |= now - self._mute_since.setdefault(whom, now) >= MUTE_S

    def brokers_away(self) -> None:
        """Some broker did not answer a question about all groups, which is why others are not answered."""
        self._mute_since.clear()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


class PeriodicQuestion:
    """A question about the whole cluster: asked at an interval, and never twice at a time."""

    def __init__(self, what: str, interval_s: float) -> None:
        self._what = what
        self.interval = Interval(interval_s)
        self._number: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether its answer is still to come."""
        return self._number is not None

    def ask(self, process: AdminProcess, now: float, groups: Iterable[str] = ()) -> None:
        """Ask it if it is due and was answered."""
        if self._number is None and self.interval.due(now):
            self._number = process.ask(self._what, groups)

    def take(self, answer: AdminAnswer) -> bool:
        """Whether this is its answer; then it may be asked again."""
        is_answered = answer.number == self._number
        if is_answered:
            self._number = None
        return is_answered

    def drop(self) -> None:
        """Its answer will not come."""
        self._number = None
