"""The broker's log as the rig reads it: with the agent's forms of lines, and UTC, in which the rig starts its broker.

What the lines mean `truth` says for itself: the yardstick must not be the thing that is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.core.brokerlog.lines import LineReader, LogEvent

__all__ = ["LogEvent", "parse_line", "parse_log"]


def parse_log(lines: Iterable[str]) -> Iterator[LogEvent]:
    """The events of a broker's log, in its order; every other line is skipped."""
    return LineReader().parse_all(lines)


def parse_line(line: str) -> LogEvent | None:
    """What one line says, None if it says nothing about a group's membership."""
    return LineReader().parse(line)
