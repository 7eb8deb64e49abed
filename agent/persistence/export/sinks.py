"""What a sink is, and what is told of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.log_clock import LogClock


class RejectedEvent(NamedTuple):
    """A line that a sink can never take, and why (a short text without anything of strangers in it)."""

    event: EncodedEvent | None
    """None where the sink only says how many they are."""
    reason: str


class BatchLimits(Struct, frozen=True):
    """How much a sink wants at once: it is told a batch as soon as there are so many lines or bytes of bodies, or as
    the oldest line is so old (0: whatever there is, at once)."""

    events: int
    size_bytes: int
    age_s: float


class Sink(Protocol):
    """Somewhere that events go. Used by one thread."""

    @property
    def name(self) -> str:
        """Its name in metrics and logs and of its spool: `topic`, `parquet`."""

    @property
    def batching(self) -> BatchLimits:
        """How much it wants at once."""

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        """Make the lines durable, in their order for each key; return when they are, with those it can never take.

        Raises `SinkDown` if it cannot now: then the next call is with the very same object, and some lines of it may
        have been written already.
        """

    def close(self) -> None:
        """Let go of connections and files; nothing is written any more."""


@runtime_checkable
class KeepsClock(Protocol):
    """A sink that keeps beside the events up to when time has passed."""

    def tell_clock(self, clock: LogClock) -> None:
        """Keep it: all events up to then are written. Raises `SinkDown` where it cannot."""


class SinkReading(Struct, frozen=True):
    """What is told of a sink: counts since the process began, and how it stands now."""

    name: str
    events: int
    """Written, and durable there."""
    buffered: int
    """Waiting, in memory or in the spool."""
    dropped: Mapping[str, int]
    """By reason: a name of `buffer.DROP_REASONS`."""
    oldest_age_s: float | None
    """For how long the oldest that waits has been waiting; None where none does."""
    healthy: bool
    """Whether the latest attempt to write succeeded."""
    last_error: str | None
    """Why it failed, while it fails."""
    spool_bytes: int
    """On disk."""
    spool_error: str | None
    """Why the spool takes nothing, while it does not."""
