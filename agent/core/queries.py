"""What is known of the groups: the questions that HTTP, the page, commands, `watch` and the report ask.

Owns the questions and the shape of their answers, whoever answers: a running agent, several of them, files, or an
agent over HTTP. Knows none of those, nor what is done with the answers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

JsonObject = dict[str, Any]

NO_SUCH_GROUP = "no such group"
"""The error that the HTTP API answers where no group has that name."""
NO_KNOWN_GROUP = f"{NO_SUCH_GROUP} is known: "
"""How that error begins where the group may be there all the same; why follows."""
NO_SUCH_CLUSTER = "no such cluster"
"""The error where the agent reads no cluster of that name."""


CAUGHT_UP = "caught up"


class Health(Struct, frozen=True):
    """Whether answers are whole and fresh (`ready`), and in words why, or why not: pieces with "; " between, of which
    `CAUGHT_UP` says no more than `ready`."""

    ready: bool
    reason: str


class Timeline(NamedTuple):
    """One group's events in order, and from when on (epoch milliseconds) they are all there are.

    `complete_since_ms` is None where they reach back to the log's beginning.
    """

    events: list[JsonObject]
    complete_since_ms: int | None = None


class Rollouts(NamedTuple):
    """One group's rollouts as JSON, the oldest first, and from when on (epoch milliseconds) its events are known.

    What may have begun before that is not among them. None: they are known from the group's beginning.
    """

    rollouts: list[JsonObject]
    complete_since_ms: int | None = None


class Capabilities(Struct, frozen=True):
    """What a `GroupQueries` can do beyond its questions.

    `live`: answers change as time passes; files end where they end. `clusters`: the names of those that answer
    together; then rows and events carry a `cluster`, and `of_cluster` chooses one. `has_all_events`: `all_events`
    answers. `has_state`: how groups stand is known; where it is not, `groups` has no rows and `describe` nothing,
    whatever there is.
    """

    live: bool = True
    clusters: tuple[str, ...] = ()
    has_all_events: bool = False
    has_state: bool = True


class AmbiguousGroup(Exception):
    """Several clusters have a group of the name that was asked for; the message names them."""


class GroupQueries(Protocol):
    """Answers about groups. Implementers inherit from it, so that mypy holds them to it."""

    @property
    def capabilities(self) -> Capabilities:
        """The same value for as long as this object lives."""
        return Capabilities()

    @property
    def now_ms(self) -> int:
        """What ages are counted back from, epoch milliseconds: the clock on the wall, or files' newest record."""

    @property
    def has_caught_up(self) -> bool:
        """Whether the log was read to its end once: before that, an answer would be half of one."""

    def ready(self) -> Health:
        """Whether answers are whole and fresh now."""

    def groups(self) -> list[JsonObject]:
        """Every group's row (`agent.presentation.json_views.group_json`), by name."""

    def describe(self, group: str) -> JsonObject | None:
        """One group in full (`describe_json`); None if there is none of that name.

        Raises `AmbiguousGroup` where several clusters have one.
        """

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """One group's events of a range, bounds included; None if there is and was no group of that name.

        Raises `AmbiguousGroup` where several clusters have one.
        """

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        """From when on all findings (of one group) are known: one that was over before may be missing.

        None: from the log's beginning.
        """
        return None

    def of_cluster(self, cluster: str) -> GroupQueries | None:
        """Who answers for one cluster of several; None if none of them has that name."""
        return None

    def all_events(self, groups: Collection[str] = ()) -> list[JsonObject]:
        """Every event in order; of these groups alone where any are named. Only where
        `capabilities.has_all_events`."""
        raise TypeError("all events are not at hand here")
