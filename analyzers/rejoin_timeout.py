"""Members that a broker dropped because they did not rejoin a rebalance within the rebalance timeout, or, in KIP-848
groups, did not give up their partitions within it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.causes import Cause
from agent.core.protocol.states import GroupType
from analyzers.api import Condition, Settings, Severity, setting
from analyzers.formatting import count_text, duration_text, milliseconds, names_text
from analyzers.lost_members import Losses, LostMembersAnalyzer, LostMembersSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinTimeoutSettings(LostMembersSettings):
    """Each is worth a look: a classic group stood still for as long as the timeout, in others those partitions did,
    and who was dropped goes on with partitions that others have by then."""

    many: int = setting(3, "repeat offenders that make it critical", least=1)


class RejoinTimeout(LostMembersAnalyzer):
    """Watches for departures caused by `rejoin_timeout`: rule, thresholds and false alarms are below."""

    STATE: ClassVar = LostMembersAnalyzer.STATE

    __slots__ = ()

    name: ClassVar[str] = "rejoin_timeout"
    rule: ClassVar[str] = (
        "A member was removed because it did not rejoin within the group's rebalance timeout (inferred, with at "
        "least min_confidence) within the last window_s. Warning; critical when many clients did so repeats times "
        "each."
    )
    false_alarms: ClassVar[str] = (
        "A consumer that was paused in a debugger, or whose machine slept, as a rebalance began. Members that leave "
        "by themselves when they are away from poll for too long are told as poll_timeout."
    )
    cause: ClassVar[Cause] = Cause.REJOIN_TIMEOUT
    settings_class: ClassVar[type[Settings]] = RejoinTimeoutSettings
    settings: RejoinTimeoutSettings

    def _describe(self, losses: Losses) -> Condition:
        severity = Severity.CRITICAL if len(losses.repeaters) >= self.settings.many else Severity.WARNING
        limits = sorted({it.member.rebalance_timeout_ms or 0 for it in losses.members})
        numbers: dict[str, Any] = {**losses.numbers(self.settings.window_s), "rebalance_timeouts_ms": limits[:5]}
        window = duration_text(milliseconds(self.settings.window_s))
        within = names_text([duration_text(ms) for ms in limits])
        is_classic = losses.group_type == GroupType.CLASSIC
        waited = "and the whole group waited" if is_classic else "and whoever was to get their partitions waited"
        summary = (
            f"{count_text(len(losses.members), 'member')} did not rejoin within the rebalance timeout ({within}) in "
            f"{window}, {waited}: {losses.who}{losses.again}."
        )
        return Condition(severity, summary, _ADVICE, numbers)


_ADVICE = (
    "Stop the work when a rebalance begins (revoke callback, the session's context), or raise rebalance.timeout.ms "
    "above the slowest record; rebalances then wait longer for a stuck member. Its heartbeats continued, so one "
    "record or a handler took too long."
)
