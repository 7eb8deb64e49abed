"""What commands ask about groups, whoever answers; and what is said where there is no such group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

import click

from agent.cli.output import EXIT_UNREACHABLE, warn
from agent.cli.text import MAX_TEXT
from agent.common.text import printable_truncated
from agent.core.queries import GroupQueries, Health, JsonObject

if TYPE_CHECKING:
    from agent.simulation.whatif.recorder import GroupRecording

MAX_COMPARED = 10_000
"""Names of groups that a name without a group is compared with."""


class SourceAway(Exception):
    """The source cannot be reached, or does not answer as it should; it may be back later."""


class SourceNotReady(SourceAway):
    """The source is there, and has no whole answer yet."""


class Unread(NamedTuple):
    """Up to when (epoch milliseconds) at least all is known, None where nothing tells, and why no more was read."""

    known_ms: int | None
    reason: str


class LastMembership(NamedTuple):
    """A group as it was when it last had members.

    `as_of_ms`: the last millisecond of that, None where the log has no times. `group`: None where the source cannot
    be read again to see.
    """

    as_of_ms: int | None
    group: JsonObject | None


class Answers(GroupQueries, Protocol):
    """One source: a running agent, files, a broker's topic, or an agent in this process."""

    where: str
    """The place, for sentences: `at URL`, `in FILES`."""

    @property
    def has_caught_up(self) -> bool:
        """What is read whole is caught up, and an agent that is asked over HTTP says so by `ready`."""
        return True

    def ready(self) -> Health:
        """What was read does not change any more."""
        return Health(True, "")

    def unread(self, cluster: str | None, partition: int | None) -> Unread | None:
        """Where the source has not read on, or not all: of a partition of the topic, None: of whichever; in one of
        several clusters. None where all is read."""
        return None

    def unseen_reason(self, group: str) -> str | None:
        """Why a group that is not known may be there all the same, in words; None where nothing speaks for it."""
        return None

    @property
    def is_incomplete(self) -> bool:
        """Whether records could not be read that may be those of a group that is not there."""
        return False

    def group_names(self) -> list[str]:
        """Of all groups that it knows."""
        return [row["group"] for row in self.groups()]

    @property
    def as_of_ms(self) -> int | None:
        """What time is told of, where one was asked for; epoch milliseconds, never later than what there is."""
        return None

    def samples(self, group: str) -> list[JsonObject]:
        """How a group stood from time to time (events `group_sample`), where that is kept."""
        return []

    def recording(self, group: str) -> GroupRecording | None:
        """A group's states, members and all, as far as they are kept; None where nothing is."""
        return None

    def last_with_members(self, group: str) -> LastMembership | None:
        """The group asked for, which has no members, when it last had some; None if it is not known to have had."""
        return None

    def report(self, say: Callable[[str], None]) -> bool:
        """Say what was wrong with the data; whether anything was. What an agent could not decode it counts and logs
        itself."""
        return False


def exit_unreachable(text: str) -> NoReturn:
    """Say what cannot be reached or is not allowed, and end."""
    warn(f"Error: {text}")
    raise click.exceptions.Exit(EXIT_UNREACHABLE) from None


def find_group(answers: Answers, group: str) -> JsonObject:
    """One group in full; ends the command where there is none."""
    form = answers.describe(group)
    if form is None:
        no_such_group(answers, group)
    warn_stale([form], answers)
    return form


def warn_stale(rows: Iterable[JsonObject | None], answers: Answers) -> None:
    """Say of which groups it is not known what was written lately, or what could not be read, if of any."""
    known = [row for row in rows if row is not None]
    stale = [row for row in known if row.get("stale")]
    passed = [row for row in known if row.get("quarantined")]
    if stale or passed:
        from agent.presentation.narrative.staleness import quarantined_sentence, stale_groups_sentence

        if stale:
            warn(stale_groups_sentence(stale, answers.now_ms))
        if passed:
            warn(quarantined_sentence(passed))


def no_such_group(answers: Answers, group: str, code: int = 1) -> NoReturn:
    """Say that there is no such group, and which may have been meant; end with an exit code."""
    answers.report(warn)
    if answers.is_incomplete:
        name = printable_truncated(repr(group), MAX_TEXT)
        exit_unreachable(f"no group {name} {answers.where}, or its records are among those that could not be read")
    if answers.capabilities.live:
        # It may be there, unseen.
        warn_stale(answers.groups(), answers)
    text = f"Error: no group {printable_truncated(repr(group), MAX_TEXT)} {answers.where}"
    if reason := answers.unseen_reason(group):
        text += f": {reason}"
    similar = similar_names(group, answers.group_names())
    lists = "kshadow groups lists" if answers.capabilities.has_state else "kshadow history query finds"
    warn(f"{text}; did you mean {similar}?" if similar else f"{text}; {lists} those there are")
    raise click.exceptions.Exit(code)


def similar_names(group: str, groups: Iterable[str]) -> str:
    """Groups that may have been meant by a name that is none's, for a question; empty where none is like it."""
    from difflib import get_close_matches

    # Comparing takes the product of two lengths; it is for typing errors.
    names = [name for name in islice(groups, MAX_COMPARED) if len(name) <= MAX_TEXT]
    return " or ".join(map(repr, get_close_matches(group[:MAX_TEXT], names)))
