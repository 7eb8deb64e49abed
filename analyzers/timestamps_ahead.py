"""Records keep coming to `__consumer_offsets` whose timestamps are ahead of the records around them,
or of the clock of the machine that reads them as they come.

Rule: window after window of five minutes, at least one such record came to some partition.
Known false alarms: `TimestampsAhead.false_alarms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.state_fields import StateFields
from analyzers.api import ClusterAnalyzer, Condition, LoadWindow, Settings, Severity, Verdict, setting
from analyzers.formatting import count_text, duration_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampsAheadSettings(Settings):
    """Why these: a broker's clock that is stepped makes some such records once. Two windows after the first one it is
    no accident."""

    open_after_s: float = setting(600.0, "seconds that the condition must hold before a finding opens")
    close_after_s: float = setting(600.0, "seconds that it must be gone before the finding closes")
    min_records: int = setting(1, "records in a window below which none are reported", least=1)


class TimestampsAhead(ClusterAnalyzer):
    """Reports the partition with the most of them."""

    STATE: ClassVar = StateFields({})

    name = "timestamps_ahead"
    rule = (
        "In consecutive windows of five minutes a partition of __consumer_offsets received at least `min_records` "
        "records whose timestamps are more than five seconds ahead of the records around them, or, live, of the "
        "agent's clock. Such a timestamp does not move the clock by which groups are judged."
    )
    false_alarms = (
        "Clocks of brokers or of the agent that are more than five seconds apart. What compaction has removed is not "
        "counted."
    )
    settings_class = TimestampsAheadSettings
    settings: TimestampsAheadSettings

    def judge(self, window: LoadWindow) -> Verdict:
        """Look at one window; the hysteresis asks for several in a row."""
        ahead = {number: it for number, it in window.loads.items() if it.records_ahead >= self.settings.min_records}
        if not ahead:
            return Verdict()
        partition, load = max(ahead.items(), key=lambda it: (it[1].records_ahead, -it[0]))
        numbers = {
            "partition": partition,
            "partitions_affected": len(ahead),
            "records_ahead": load.records_ahead,
            "records": load.records,
            "farthest_ahead_s": load.farthest_ahead_ms / 1000,
        }
        return Verdict(Condition(Severity.WARNING, _summary(numbers), _advice(numbers), numbers, partition))


def _summary(numbers: Mapping[str, Any]) -> str:
    others = numbers["partitions_affected"] - 1
    also = f", and so did {count_text(others, 'other partition')}" if others else ""
    return (
        f"Partition {numbers['partition']} of __consumer_offsets received "
        f"{count_text(numbers['records_ahead'], 'record')} dated up to "
        f"{duration_text(numbers['farthest_ahead_s'] * 1000)} ahead{also}."
    )


def _advice(numbers: Mapping[str, Any]) -> str:
    return (
        f"Compare the clocks of the agent and of the brokers that led partition {numbers['partition']} (kshadow "
        "doctor does): a coordinator dates what it writes. If they agree, a client writes to the topic: allow Write "
        "on __consumer_offsets to no principal, and find the client in the brokers' request logs."
    )
