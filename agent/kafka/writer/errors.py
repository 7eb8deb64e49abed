"""The typed errors of all sinks: each message says what was expected, what came, and where."""

from __future__ import annotations


class SinkError(Exception):
    """Records cannot be written."""


class SinkPathError(SinkError):
    """A path that cannot be written to, or that holds something already (exit code 2)."""


class RecordRefused(SinkError):
    """A record that this sink cannot hold: the fault of who made it."""


class SinkMisconfigured(SinkError):
    """A client property that librdkafka does not accept, or that would lose records (exit code 2)."""


class SinkUnreachable(SinkError):
    """No broker answers, or not all records were taken. Trying again may help (exit code 3)."""


class TopicMissing(SinkUnreachable):
    """The cluster has no such topic (exit code 3)."""


class SinkDenied(SinkError):
    """The cluster answers and refuses: `right` names what to grant (exit code 3)."""

    def __init__(self, message: str, *, right: str) -> None:
        super().__init__(f"{message}; needed: {right}")
        self.right = right


class PartitionCountDiffers(SinkError):
    """The topic has another number of partitions than the records were placed for (exit code 2)."""
