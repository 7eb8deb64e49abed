"""The typed errors of history sinks: each message says what was expected, what came, and where."""

from __future__ import annotations


class ExportError(Exception):
    """History cannot be written."""


class ExportMisconfigured(ExportError):
    """A setting that cannot work: a property, a URL, a missing package (exit code 2)."""


class SpoolLocked(ExportError):
    """Another process writes to this spool (exit code 3)."""


class SpoolUnusable(ExportError):
    """A directory that no spool can be kept in, as where the disk is full (exit code 3)."""


class SinkDown(ExportError):
    """The sink takes nothing now. Trying again may help, perhaps after somebody granted the right it names."""


class PositionRefused(ExportError):
    """A stored history position is not of this log, or cannot be read."""
