"""Members that the group lost because they stayed away from poll() for longer than `max.poll.interval.ms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.causes import Cause
from agent.core.protocol.client_libraries import StallEnd, library_named
from agent.core.shadow.views import Member
from analyzers.api import Condition, Settings, Severity, setting
from analyzers.formatting import duration_text, milliseconds, names_text, round_up_to_seconds_ms
from analyzers.lost_members import Losses, LostMembersAnalyzer, LostMembersSettings
from analyzers.windows import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class PollTimeoutSettings(LostMembersSettings):
    """The limit is 5 minutes by default, so a client that exceeds it every time does so at most 10 times an hour: two
    hours show the repeat offender also where batches are slow. Each timeout is worth a look: the records of the batch
    are processed once more by another member."""

    window_s: float = setting(7200.0, "seconds for which a timeout counts", least=1)
    many: int = setting(3, "repeat offenders that make it critical", least=1)


class PollTimeout(LostMembersAnalyzer):
    """Watches for departures caused by `poll_timeout`: rule, thresholds and false alarms are below."""

    STATE: ClassVar = LostMembersAnalyzer.STATE

    __slots__ = ()

    name: ClassVar[str] = "poll_timeout"
    rule: ClassVar[str] = (
        "A member left because it did not poll for its max.poll.interval.ms (inferred, with at least min_confidence) "
        "within the last window_s. Warning; critical when many clients did so repeats times each."
    )
    false_alarms: ClassVar[str] = (
        "A consumer that was paused in a debugger, or whose machine slept. A member that died where session and poll "
        "timeout are the same looks alike, and is left out. Members that never commit leave no trace: no finding. "
        "Clients without such a limit (Sarama, franz-go, kafka-go, kafkajs) never leave so."
    )
    cause: ClassVar[Cause] = Cause.POLL_TIMEOUT
    settings_class: ClassVar[type[Settings]] = PollTimeoutSettings
    settings: PollTimeoutSettings

    def _describe(self, losses: Losses) -> Condition:
        lost = losses.members
        severity = Severity.CRITICAL if len(losses.repeaters) >= self.settings.many else Severity.WARNING
        limits = sorted({limit for it in lost if (limit := _limit_ms(it.member)) is not None})
        beyond = [(it.away_ms, _limit_ms(it.member)) for it in lost if it.away_ms is not None]
        needed = max((away + limit for away, limit in beyond if limit is not None), default=None)
        numbers: dict[str, Any] = {
            **losses.numbers(self.settings.window_s),
            "max_poll_intervals_ms": limits[:5],
            "came_back": len(beyond),
            "longest_beyond_ms": max((away for away, _ in beyond), default=None),
            "needed_max_poll_interval_ms": None if needed is None else round_up_to_seconds_ms(needed),
        }
        return Condition(severity, self._summary(losses, numbers), _advice(numbers), numbers)

    def _summary(self, losses: Losses, numbers: dict[str, Any]) -> str:
        limits = names_text([duration_text(ms) for ms in numbers["max_poll_intervals_ms"]])
        window = duration_text(milliseconds(self.settings.window_s))
        what = (
            f"{counted(len(losses.members), 'member')} did not poll within max.poll.interval.ms"
            f"{f' ({limits})' if limits else ''} in {window}"
        )
        more = losses.again
        if numbers["longest_beyond_ms"] is not None:
            more += f"; joined again up to {duration_text(numbers['longest_beyond_ms'])} later"
        return f"{what}: {losses.who}{more}."


def _limit_ms(member: Member) -> int | None:
    """The `max.poll.interval.ms` of a member; None where its library does not join with it."""
    joins_with_it = library_named(member.client_library).stall_end is StallEnd.REBALANCE_TIMEOUT
    return member.rebalance_timeout_ms if joins_with_it else None


def _advice(numbers: dict[str, Any]) -> str:
    needed = numbers["needed_max_poll_interval_ms"]
    enough = "above the slowest batch" if needed is None else f"to at least {duration_text(needed)}"
    return (
        f"Lower max.poll.records (or the bytes of a fetch), or raise max.poll.interval.ms {enough}; a stuck consumer "
        "is then detected later. Or process records off the poll thread (pause(), keep polling, resume()): what was "
        "processed since the last commit is processed again by another member."
    )
