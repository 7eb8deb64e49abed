"""When a condition becomes a finding, and when that closes: so that none flaps."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, NamedTuple

from msgspec import Struct

from agent.core.diagnosis.api import Condition, FindingState, Settings, Severity, Verdict
from agent.core.state_fields import StateFields


class FindingChange(NamedTuple):
    """What happened to a finding: it opened, changed its severity, or closed."""

    state: FindingState
    since_ms: int
    condition: Condition


class Hysteresis(Struct, gc=False):
    """One finding that may be: waiting to open, open, or waiting to close. Times are epoch milliseconds."""

    STATE: ClassVar = StateFields(
        {
            "open": Condition | None,
            "since_ms": int,
            "due_ms": int | None,
            "_holds_ms": int | None,
            "_gone_ms": int | None,
            "_milder_ms": int | None,
        }
    )

    open_after_ms: int
    close_after_ms: int
    open: Condition | None = None
    """The condition as it last held, if the finding is open, with the severity that was told."""
    since_ms: int = 0
    due_ms: int | None = None
    """When to judge again, whatever happens before."""
    # Since when: the condition holds while the finding is not open; it is gone, or milder, while it is.
    _holds_ms: int | None = None
    _gone_ms: int | None = None
    _milder_ms: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Hysteresis:
        """With the times of an analyzer's settings."""
        return cls(_milliseconds(settings.open_after_s), _milliseconds(settings.close_after_s))

    def apply(self, judgement: Verdict, now_ms: int) -> FindingChange | None:
        """Apply a judgement of now; what it changes."""
        condition, wake = judgement
        assert wake is None or wake > now_ms, f"woken at {now_ms}, an analyzer asks to be woken at {wake}"
        if self.open is None:
            change, deadline = self._while_closed(condition, now_ms)
        elif condition is None:
            change, deadline = self._while_gone(self.open, now_ms)
        else:
            change, deadline = self._while_open(self.open, condition, now_ms)
        self.due_ms = deadline if wake is None else wake if deadline is None else min(wake, deadline)
        return change

    def is_due(self, now_ms: int) -> bool:
        """Whether it is to be judged by now."""
        return self.due_ms is not None and self.due_ms <= now_ms

    @property
    def is_idle(self) -> bool:
        """Whether it is as a new one."""
        return self.due_ms is None and self.open is None and not self.since_ms

    def close(self) -> FindingChange | None:
        """The group is gone: so is its finding."""
        if self.open is None:
            return None
        change = FindingChange(FindingState.RESOLVED, self.since_ms, self.open)
        self.open = None
        return change

    def _while_closed(self, condition: Condition | None, now_ms: int) -> tuple[FindingChange | None, int | None]:
        if condition is None:
            self._holds_ms = None
            return None, None
        if self._holds_ms is None:
            self._holds_ms = now_ms
        if now_ms < self._holds_ms + self.open_after_ms:
            return None, self._holds_ms + self.open_after_ms
        self.open, self.since_ms = condition, self._holds_ms
        self._holds_ms = self._gone_ms = self._milder_ms = None
        return FindingChange(FindingState.FIRING, self.since_ms, condition), None

    def _while_gone(self, before: Condition, now_ms: int) -> tuple[FindingChange | None, int | None]:
        if self._gone_ms is None:
            self._gone_ms = now_ms
        if now_ms < self._gone_ms + self.close_after_ms:
            return None, self._gone_ms + self.close_after_ms
        self.open = None
        return FindingChange(FindingState.RESOLVED, self.since_ms, before), None

    def _while_open(
        self, before: Condition, condition: Condition, now_ms: int
    ) -> tuple[FindingChange | None, int | None]:
        self._gone_ms = None
        if condition.severity.rank >= before.severity.rank:
            self._milder_ms = None
        elif self._milder_ms is None:
            self._milder_ms = now_ms
        if self._milder_ms is not None and now_ms < self._milder_ms + self.close_after_ms:
            self.open = _as_severe(condition, before.severity)
            return None, self._milder_ms + self.close_after_ms
        self.open, self._milder_ms = condition, None
        if condition.severity is before.severity:
            return None, None
        return FindingChange(FindingState.FIRING, self.since_ms, condition), None


@lru_cache(maxsize=256)
def _milliseconds(time_s: float) -> int:
    """Whole ones; the same object for all groups."""
    return round(time_s * 1000)


def _as_severe(condition: Condition, severity: Severity) -> Condition:
    return Condition(severity, condition.summary, condition.advice, condition.numbers, condition.partition)
