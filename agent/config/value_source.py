"""A value of an option and where it was given; what is wrong with all of them. Pure."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from msgspec import Struct, field


class ValueSource(IntEnum):
    """Where a value was given; the greatest wins."""

    DEFAULT = 0
    CONTEXT = 1
    FILE = 2
    FILE_SECTION = 3
    FILE_CLUSTER = 4
    ENVIRONMENT = 5
    COMMAND_LINE = 6

    def __str__(self) -> str:
        return ("default", "context", "file", "file", "file", "environment", "command line")[self]


class GivenValue(Struct, frozen=True):
    """`where` is how a message calls the place: `--shard`, `KSHADOW_SHARD`, `kshadow.yaml: run: shard`."""

    value: Any
    source: ValueSource
    place: str

    @property
    def is_given(self) -> bool:
        """Whether it says anything: not the default, and not nothing."""
        return self.source > ValueSource.DEFAULT and self.value not in (None, ())


GivenValues = dict[str, GivenValue]
"""By the option's name."""


class InvalidSettings(ValueError):
    """Settings that cannot be: every problem, a sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Diagnostics(Struct):
    """What is wrong, and what is allowed but perhaps not meant."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
