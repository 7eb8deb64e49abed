"""Plays one scenario of the demo, step by step.

Owns the waiting: a step begins when what it presupposes has come about, as the broker sees it, or fails with
what was there instead. What the steps are is in `script`, processes are in `fleet`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import Struct, field

from agent.common import clock
from agent.kafka.client import led_partitions
from agent.tools.demo.fleet import ClientProcesses
from agent.tools.demo.script import CONSUMER_SETTINGS, Act, Scenario, Step

_SETTLE_TIMEOUT_S = 45.0
_LOOK_EVERY_S = 0.25


class LedgerEntry(Struct, frozen=True):
    """One thing that was done or came about. `at_ms` is epoch milliseconds; `members` are client ids.

    `act` is one of `script.Act`, or `finished` or `failed`, the last of a scenario.
    """

    at_ms: int
    scenario: str
    group: str
    act: str
    members: tuple[str, ...]
    sentence: str


class _StoppedError(Exception):
    """Told to stop while waiting."""


class _NotSettledError(Exception):
    """What a step presupposes did not come about."""


class _GroupStatus(Struct, frozen=True):
    """A group as the broker describes it: its state, and how many partitions each client id holds."""

    state: str
    shares: tuple[tuple[str, int], ...]

    def is_settled(self, members: int, partitions: int) -> bool:
        held = sum(count for _, count in self.shares)
        return self.state == "stable" and len(self.shares) == members and held == partitions

    def __str__(self) -> str:
        shares = ", ".join(f"{client_id} has {count}" for client_id, count in self.shares)
        return f"{self.state}, {shares or 'no members'}"


class ScenarioPlayer(Struct):
    """One scenario on its way. `write` gets the ledger's entries as they come about."""

    scenario: Scenario
    fleet: ClientProcesses
    admin: AdminClient
    stop: threading.Event
    write: Callable[[LedgerEntry], None]
    _members: set[str] = field(default_factory=set)
    # On a new cluster the first consumer brings `__consumer_offsets` about. To ask for a coordinator before
    # that is answered COORDINATOR_NOT_AVAILABLE; after the third such answer librdkafka 2.16 neither fails nor
    # repeats the request before its timeout, and destroying the client afterwards sometimes never returns.
    _coordinators_exist: bool = False

    def play(self) -> None:
        """To the end, or to the first step that cannot be done."""
        try:
            for step in self.scenario.steps:
                self._do(step)
            self._note("finished", (), "the story is over")
        except _StoppedError:
            pass
        except Exception as error:  # noqa: BLE001 - the other scenarios go on; the ledger says what failed
            if not self.stop.is_set():
                self._note("failed", (), str(error) or type(error).__name__)

    def _do(self, step: Step) -> None:
        match step.act:
            case Act.START:
                for member in step.members:
                    self._start(member)
            case Act.SETTLE:
                self._settle(step.count)
            case Act.RUN:
                self._sleep(step.seconds)
            case Act.KILL:
                self._end(step.act, step.members, signal.SIGKILL, "kill -9")
            case Act.LEAVE:
                self._end(step.act, step.members, signal.SIGTERM, "proper shutdown, SIGTERM,")
            case Act.STALL:
                for member in step.members:
                    pid = self.fleet.signal(member, signal.SIGUSR1)
                    sentence = f"from now {member} (pid {pid}) works {step.seconds:g} s on one record"
                    self._note(step.act, (member,), sentence)

    def _start(self, member: str) -> None:
        if self.stop.is_set():
            raise _StoppedError
        settings = {"group.id": self.scenario.group, **CONSUMER_SETTINGS, **self.scenario.settings}
        stall_s = max((step.seconds for step in self.scenario.steps if step.act is Act.STALL), default=0.0)
        pid = self.fleet.start("consumer", member, settings=settings, topics=self.scenario.topics, stall_s=stall_s)
        self._members.add(member)
        self._note(Act.START, (member,), f"started {member} (pid {pid})")

    def _end(self, act: Act, members: tuple[str, ...], number: signal.Signals, how: str) -> None:
        for member in members:
            self._members.discard(member)
            pid = self.fleet.signal(member, number)
            self._note(act, (member,), f"{how} of {member} (pid {pid})")
            self.fleet.reap(member)

    def _sleep(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise _StoppedError

    def _settle(self, count: int) -> None:
        began = time.monotonic()
        while True:
            seen = self._look()
            if seen is not None and seen.is_settled(count, self.scenario.partitions):
                break
            for member, code in self.fleet.exit_codes(self._members).items():
                log = self.fleet.log_file(member)
                raise _NotSettledError(f"{member} ended by itself with exit code {code}; its log is {log}")
            if time.monotonic() - began > _SETTLE_TIMEOUT_S:
                expected = f"{count} members with all {self.scenario.partitions} partitions"
                raise _NotSettledError(
                    f"no {expected} within {_SETTLE_TIMEOUT_S:g} s; the broker says: {seen or 'no such group'}"
                )
            self._sleep(_LOOK_EVERY_S)
        seconds = time.monotonic() - began
        members = tuple(client_id for client_id, _ in seen.shares)
        self._note(Act.SETTLE, members, f"after {seconds:.1f} s {seen}")

    def _look(self) -> _GroupStatus | None:
        if not self._coordinators_exist:
            with suppress(KafkaException):
                self._coordinators_exist = bool(led_partitions(self.admin, "__consumer_offsets", 5))
            return None
        group = self.scenario.group
        try:
            answer = self.admin.describe_consumer_groups([group], request_timeout=5)[group].result(timeout=10)
        except (KafkaException, TimeoutError):
            return None  # no such group yet, or its coordinator is still loading: look again
        shares = ((member.client_id, len(member.assignment.topic_partitions)) for member in answer.members)
        return _GroupStatus(answer.state.name.replace("_", " ").lower(), tuple(sorted(shares)))

    def _note(self, act: str, members: tuple[str, ...], sentence: str) -> None:
        at_ms = clock.now_ms()
        self.write(LedgerEntry(at_ms, self.scenario.name, self.scenario.group, act, members, sentence))
