"""Where snapshots are kept: a directory, or a compacted topic."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class StoreErrorReason(StrEnum):
    """Why a store does not do what it is asked to."""

    FULL = "full"
    DENIED = "denied"
    UNREACHABLE = "unreachable"
    IN_USE = "in_use"
    MISSING = "missing"
    MISCONFIGURED = "misconfigured"
    BROKEN = "broken"


class StoreError(Exception):
    """A snapshot could not be kept or fetched. What was kept before is as it was."""

    def __init__(self, reason: StoreErrorReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SnapshotStore(Protocol):
    """Keeps bytes by name; what is kept is there whole or not at all. Every method raises `StoreError`."""

    def load(self, names: Iterable[str]) -> dict[str, bytes | StoreError]:
        """The newest of each of these, of those that there are; or why it cannot be read, whatever its name."""

    def save(self, name: str, blob: bytes) -> None:
        """Keep it in place of what is there; when this returns, it is safe."""

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of these that are known to be there no more, whoever took them."""

    def delete(self, name: str) -> None:
        """Keep it no longer; nothing, if there is none."""

    def close(self) -> None:
        """Let go of everything."""


def checked_name(name: str) -> str:
    """A name that is fit for a file and for a key; any other is the fault of who calls (`ValueError`)."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"expected a name of letters, digits, '.', '_' and '-', got {name!r}")
    return name
