"""The typed errors of all sources.

Owns what can keep a source from being read at all. What is wrong with *parts* of the data (a torn batch, a
bad line) is no exception: sources yield it in place, as `SegmentProblem` or `LineProblem`, and read on.
"""

from __future__ import annotations


class SourceError(Exception):
    """A source cannot be read. The message says what was expected, what came, and where."""


class SourcePathError(SourceError):
    """A PATH is none of the forms that hold records."""


class SourceMisconfigured(SourceError):
    """A client property that librdkafka does not accept, or a partition that the topic does not have."""


class SourceUnreachable(SourceError):
    """No broker answers, or none that leads a partition. Trying again may help (exit code 3)."""


class TopicMissing(SourceUnreachable):
    """The cluster has no such topic. `__consumer_offsets` is made when the first group asks for a coordinator."""


class PartitionsMissing(SourceUnreachable):
    """The topic has fewer partitions than are read: it may be another one of that name by now."""


class SourceDenied(SourceError):
    """The cluster answers and refuses: `right` names what to grant (exit code 3)."""

    def __init__(self, message: str, *, right: str) -> None:
        super().__init__(f"{message}; needed: {right}")
        self.right = right
