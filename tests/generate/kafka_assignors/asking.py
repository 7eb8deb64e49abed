"""Asks `KafkaAssignors.java`, and puts the same problem to our assignors."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
PROGRAM = Path(__file__).with_name("KafkaAssignors.java")

PATIENCE_S = 60
"""For an answer, which takes milliseconds."""

Form = dict[str, Any]
"""A problem as the contract has it; with `server` for an assignor of the coordinator, `racks` by topic and partition,
and by member `rack` and `generation`."""


def problem_of(form: Mapping[str, Any]) -> AssignmentProblem:
    members = {
        member_id: MemberSubscription(
            frozenset(it["topics"]),
            it.get("instance_id"),
            tuple((topic, number) for topic, number in it["owned"]),
            it.get("generation"),
            it.get("rack"),
        )
        for member_id, it in form["members"].items()
    }
    racks = {
        (topic, number): frozenset(names)
        for topic, rows in form.get("racks", {}).items()
        for number, names in enumerate(rows)
    }
    return AssignmentProblem(form["partitions"], members, racks)


def ours(form: Mapping[str, Any]) -> Assignment:
    assignors = SERVER_ASSIGNORS if form.get("server") else ASSIGNORS
    return assignors[form["assignor"]](problem_of(form))


class Kafka:
    """The running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def answer(self, form: Form) -> Assignment:
        """What Kafka's class answers, sorted. Without an answer in time the program is killed: nobody waits anew."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.poll() is None, f"expected the program to run, it ended with {self._process.returncode}"
        self._process.stdin.write(json.dumps(form) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], PATIENCE_S)[0]:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"no answer within {PATIENCE_S} s to {json.dumps(form)}")
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, (answer, form)
        return expected_of(answer["assignment"])


def expected_of(assignment: Mapping[str, list[list[Any]]]) -> Assignment:
    return {member_id: sorted((topic, number) for topic, number in slots) for member_id, slots in assignment.items()}


@contextmanager
def kafka() -> Iterator[Kafka]:
    jars = fetch_jars("4.3.1")
    command = java_command(jars.classpath, str(PROGRAM))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as process:
        try:
            yield Kafka(process)
        finally:
            process.kill()
