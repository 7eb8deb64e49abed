"""Problems for assignors as NDJSON: the contract's form, checked before anything is made of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from agent.core.protocol.assignors import (
    ASSIGNORS,
    SERVER_ASSIGNORS,
    Assignment,
    AssignmentProblem,
    MemberSubscription,
    Slot,
)
from agent.core.protocol.assignors.outcome import AssignmentOutcome, assignment_outcome

NAMES = (*ASSIGNORS, *(name for name in SERVER_ASSIGNORS if name not in ASSIGNORS))
"""Every assignor; `range` is the consumer's and the coordinator's."""

MAX_PARTITIONS = 1_000_000
"""In all. More than any cluster has; a mistyped number shall not take all memory."""
_MAX_PARTITION = (1 << 31) - 1
_MAX_LINE_BYTES = 1 << 28


class AssignorProblem(NamedTuple):
    """The problem of a line, counted from 1, and the assignor that it names."""

    line: int
    assignor: str
    problem: AssignmentProblem

    def outcome(self) -> AssignmentOutcome:
        """What the assignor answers."""
        return assignment_outcome(self.assignor, self.problem, by_server=self.assignor not in ASSIGNORS)

    def answer(self) -> Assignment:
        """The assignment of this round alone."""
        assignors = ASSIGNORS if self.assignor in ASSIGNORS else SERVER_ASSIGNORS
        return assignors[self.assignor](self.problem)


class InvalidLine(NamedTuple):
    """A line that is no problem, counted from 1: what was expected, and what came."""

    line: int
    message: str


class _InvalidProblem(Exception):
    pass


def read_problems(stream: BinaryIO) -> Iterator[AssignorProblem | InvalidLine]:
    """Each line's problem, in order; empty lines are passed over."""
    number = 0
    try:
        while data := stream.readline(_MAX_LINE_BYTES):
            number += 1
            if not data.strip():
                continue
            try:
                yield _problem_of(number, _parsed(data))
            except _InvalidProblem as error:
                yield InvalidLine(number, str(error))
    except OSError as error:
        yield InvalidLine(number + 1, f"expected more lines or the end of the file, got {error}")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise _InvalidProblem(
            f"expected a JSON object, got {_shown(data.decode(errors='replace'))} ({error})"
        ) from None


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A member or topic that is given twice would otherwise be dropped unsaid."""
    form = dict(pairs)
    if len(form) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise _InvalidProblem(f"expected each name once in an object, got {_shown(twice)} twice or more")
    return form


def _problem_of(line: int, form: Any) -> AssignorProblem:
    form = _object(form, "a JSON object with assignor, partitions and members")
    name = _field(form, "assignor", "the problem")
    if name not in NAMES:
        raise _InvalidProblem(f"assignor: expected one of {', '.join(NAMES)}, got {_shown(name)}")
    partitions = _object(_field(form, "partitions", "the problem"), "partitions: topics with their counts")
    for topic, count in partitions.items():
        _number(count, f"partitions of {_shown(topic)}: a count", MAX_PARTITIONS)
    if sum(partitions.values()) > MAX_PARTITIONS:
        raise _InvalidProblem(f"expected {MAX_PARTITIONS:,} partitions at most, got {sum(partitions.values()):,}")
    members = _object(_field(form, "members", "the problem"), "members: objects by member id")
    subscriptions = {member_id: _member(member_id, it) for member_id, it in members.items()}
    return AssignorProblem(line, name, AssignmentProblem(partitions, subscriptions))


def _member(member_id: str, form: Any) -> MemberSubscription:
    who = f"member {_shown(member_id)}"
    form = _object(form, f"{who}: an object with topics")
    instance_id = form.get("instance_id")
    if not isinstance(instance_id, str | None):
        raise _InvalidProblem(f"{who}: expected a text or null as instance_id, got {_shown(instance_id)}")
    generation = form.get("generation")
    if generation is not None and not _is_number(generation):
        raise _InvalidProblem(f"{who}: expected a number or null as generation, got {_shown(generation)}")
    topics = _list(_field(form, "topics", who), f"{who}: a list of topics")
    for topic in topics:
        if not isinstance(topic, str):
            raise _InvalidProblem(f"{who}: expected topics by name, got {_shown(topic)}")
    owned = tuple(_slot(it, who) for it in _list(form.get("owned") or [], f"{who}: a list as owned"))
    return MemberSubscription(frozenset(topics), instance_id, owned, generation)


def _slot(form: Any, who: str) -> Slot:
    match form:
        case [str() as topic, int() as number] if not isinstance(number, bool) and 0 <= number <= _MAX_PARTITION:
            return topic, number
    raise _InvalidProblem(f'{who}: expected ["topic", partition] in owned, got {_shown(form)}')


def _field(form: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in form:
        came = ", ".join(map(_shown, form)) or "nothing"
        raise _InvalidProblem(f"{where}: expected {name} in it, got {came}")
    return form[name]


def _object(form: Any, expected: str) -> dict[str, Any]:
    if not isinstance(form, dict):
        raise _InvalidProblem(f"expected {expected}, got {_shown(form)}")
    return form


def _list(form: Any, expected: str) -> list[Any]:
    if not isinstance(form, list):
        raise _InvalidProblem(f"expected {expected}, got {_shown(form)}")
    return form


def _number(form: Any, expected: str, most: int) -> None:
    if not _is_number(form) or not 0 <= form <= most:
        raise _InvalidProblem(f"expected {expected} from 0 to {most:,}, got {_shown(form)}")


def _is_number(form: Any) -> bool:
    return isinstance(form, int) and not isinstance(form, bool)


def _shown(value: Any) -> str:
    """The beginning of what came, on one line."""
    text = value if isinstance(value, str) else repr(value)
    return text.strip()[:80] + ("…" if len(text.strip()) > 80 else "")
