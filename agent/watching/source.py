"""What is watched: the few questions that are asked again and again, and how a source says that it is away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Form = dict[str, Any]


class Health(NamedTuple):
    """Whether answers are whole and fresh, and what the source says of that."""

    ready: bool
    reason: str


class Told(Protocol):
    """Events of one group in order, and from when on they are all there are (None: from the log's beginning)."""

    @property
    def events(self) -> list[Form]:
        """As the history has them."""

    @property
    def complete_since_ms(self) -> int | None:
        """Epoch milliseconds."""


class Source(Protocol):
    """Who is asked, from one thread. Any question may raise `Away`.

    `cluster` chooses one where the rows of `groups` name several.
    """

    where: str

    @property
    def live(self) -> bool:
        """Whether answers change with time."""

    @property
    def now_ms(self) -> int:
        """What is now there: the clock on the wall, or the newest record of files. Epoch milliseconds."""

    def health(self) -> Health:
        """How it is."""

    def groups(self) -> Sequence[Form]:
        """Every group's row."""

    def describe(self, group: str, *, cluster: str | None = None) -> Form | None:
        """One group in full; None if there is no such group."""

    def past(self, group: str, since_ms: int | None = None, *, cluster: str | None = None) -> Told | None:
        """One group's events; None if there is and was no such group."""

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        """The newest event of each finding that is open, or was since a time."""


class Away(Exception):
    """The source cannot be reached, or does not answer as it should; it may be back later."""


class NotReady(Away):
    """The source is there, and has no whole answer yet."""
