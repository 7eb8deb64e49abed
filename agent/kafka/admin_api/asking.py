"""The other end of `agent.kafka.admin_api.child`: starts it, writes questions, reads answers as plain values.

Owns the process and the forms. Nothing here waits for a broker. Refuses to know why something is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any

from agent.kafka.admin_api.divergence import DescribedGroup, ListedGroup


class AdminOutcome(StrEnum):
    """How a question ended; a metric's label."""

    ANSWERED = "answered"
    DENIED = "denied"
    UNSUPPORTED = "unsupported"
    TIMED_OUT = "timed_out"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """No answer, and why."""

    outcome: AdminOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class DetailedMember:
    """A member as a broker describes it."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    assignment: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A broker's answer about one group, with all it says of members."""

    group_type: str
    state: str
    protocol: str
    members: tuple[DetailedMember, ...]


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """A committed offset as a coordinator gives it: without the time of the commit."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """The answer to question `number`. Times are of `child.clock_ms`; fields that were not asked for are empty.

    `leaders` are by partition, -1 for none. `refusals` are of brokers whose groups are missing in a list, or say why
    leaders are not known.
    """

    number: int
    asked_ms: int
    answered_ms: int
    leaders: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[str, ListedGroup] = field(default_factory=dict)
    descriptions: Mapping[str, DescribedGroup | Refusal] = field(default_factory=dict)
    details: Mapping[str, GroupDetail | Refusal] = field(default_factory=dict)
    offsets: Mapping[str, tuple[FetchedOffset, ...] | Refusal] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()


class AdminProcess:
    """One such process. It ends with us, whatever ends us: its standard input does."""

    def __init__(self, conf: Mapping[str, str], wake: Callable[[], None]) -> None:
        """`wake` is called from another thread whenever there is something to `take`."""
        self._numbers = count(1)
        self._answers: deque[AdminAnswer] = deque()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "agent.kafka.admin_api.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Where we were found, it finds the same.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # Ctrl-C is for us
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(wake,), name="observer-answers", daemon=True)
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

    def ask(self, what: str, groups: Iterable[str] = ()) -> int:
        """Ask one of `child`'s questions; its number."""
        number = next(self._numbers)
        self._write({"id": number, "ask": what, "groups": list(groups)})
        return number

    def take_answers(self) -> list[AdminAnswer]:
        """The answers that have come."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

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
    return AdminAnswer(
        number=line["id"],
        asked_ms=line["asked_ms"],
        answered_ms=line["answered_ms"],
        leaders={int(number): broker for number, broker in line.get("leaders", {}).items()},
        groups={group: ListedGroup(*it) for group, it in line.get("groups", {}).items()},
        descriptions={group: _parse_description(it) for group, it in line.get("described", {}).items()},
        details={group: _parse_detail(it) for group, it in line.get("details", {}).items()},
        offsets={group: _parse_offsets(it) for group, it in line.get("offsets", {}).items()},
        refusals=tuple(_parse_refusal(it) for it in line.get("refusals", ())),
    )


def _assignment(it: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(numbers) for topic, numbers in it.items()}


def _parse_detail(it: Any) -> GroupDetail | Refusal:
    if isinstance(it, list):
        return _parse_refusal(it)
    members = tuple(
        DetailedMember(member_id, client_id, host, instance_id, _assignment(held))
        for member_id, client_id, host, instance_id, held in it["members"]
    )
    return GroupDetail(it["type"], it["state"], it["protocol"], members)


def _parse_offsets(it: Any) -> tuple[FetchedOffset, ...] | Refusal:
    return (
        _parse_refusal(it)
        if isinstance(it, list)
        else tuple(FetchedOffset(*position) for position in it["positions"])
    )


def _parse_description(it: Any) -> DescribedGroup | Refusal:
    if isinstance(it, list):
        return _parse_refusal(it)
    members = {member_id: _assignment(held) for member_id, held in it["members"].items()}
    return DescribedGroup(it["type"], it["state"], it["protocol"], members)


def _parse_refusal(it: list[str]) -> Refusal:
    return Refusal(AdminOutcome(it[0]), it[1])
