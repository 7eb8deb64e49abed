"""Asks `KafkaAssignors.java`, and puts the same problem to our assignors."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent.core.protocol.assignors import (
    ASSIGNORS,
    SERVER_ASSIGNORS,
    Assignment,
    AssignmentProblem,
    MemberSubscription,
)
from agent.tools.embedded import fetch_jars
from agent.tools.embedded.java import java_command
from tests import ROOT

RECORDED = ROOT / "tests" / "data" / "assignors" / "kafka-4.3.1.ndjson"
ENDLESS = RECORDED.with_name("endless.json")
"""A problem that has no answer."""
PROGRAM = Path(__file__).with_name("KafkaAssignors.java")

PATIENCE_S = 60
"""For an answer, which takes milliseconds."""

Form = dict[str, Any]
"""A problem as the contract has it; with `server` for an assignor of the coordinator, and by member `generation`."""


def problem_of(form: Mapping[str, Any]) -> AssignmentProblem:
    members = {
        member_id: MemberSubscription(
            frozenset(it["topics"]),
            it.get("instance_id"),
            tuple((topic, number) for topic, number in it["owned"]),
            it.get("generation"),
        )
        for member_id, it in form["members"].items()
    }
    return AssignmentProblem(form["partitions"], members)


def ours(form: Mapping[str, Any]) -> Assignment:
    assignors = SERVER_ASSIGNORS if form.get("server") else ASSIGNORS
    return assignors[form["assignor"]](problem_of(form))


class NoAnswerError(AssertionError):
    """Kafka's class does not come to an end, or fails."""


class Kafka:
    """The program, running from the first question on."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def answer(self, form: Form) -> Assignment:
        """What Kafka's class answers, sorted; raises `NoAnswerError`. Without one in time the program is killed;
        the next question starts it anew."""
        process = self._process = self._process or subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended, which the answer tells
            process.stdin.write(json.dumps(form) + "\n")
            process.stdin.flush()
        if not select.select([process.stdout], [], [], PATIENCE_S)[0]:
            self.close()
            raise NoAnswerError(f"no answer within {PATIENCE_S} s to {json.dumps(form)}")
        line = process.stdout.readline()
        if not line:
            self.close()
            raise AssertionError(f"the program ended with {process.returncode}, asked {json.dumps(form)}")
        answer = json.loads(line)
        if "error" in answer:
            raise NoAnswerError(f"{answer['error']} to {json.dumps(form)}")
        return expected_of(answer["assignment"])

    def close(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def expected_of(assignment: Mapping[str, list[list[Any]]]) -> Assignment:
    return {member_id: sorted((topic, number) for topic, number in slots) for member_id, slots in assignment.items()}


@contextmanager
def kafka() -> Iterator[Kafka]:
    """The program of Kafka 4.3.1."""
    asked = Kafka(java_command(fetch_jars("4.3.1").classpath, str(PROGRAM)))
    try:
        yield asked
    finally:
        asked.close()
