"""How severe a finding is. Apart from `agent.core.diagnosis.api`, which brings the mirror along: commands start
without that."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How much it matters: worth knowing, worth a look by day, worth waking someone. From the least on."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @classmethod
    def of(cls, text: str) -> Severity:
        """From an event; one that is not known here, of another version's agent, counts as the least."""
        return cls(text) if text in _RANKS else cls.INFO

    @property
    def rank(self) -> int:
        """0 for the least."""
        return _RANKS[self]


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}
