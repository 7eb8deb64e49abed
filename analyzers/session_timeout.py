"""Members that the group lost because their session ran out: no heartbeat arrived for `session.timeout.ms`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agent.shadow.causes import Cause
from analyzers.api import Condition, Settings, Severity, setting
from analyzers.losses import LossAnalyzer, LossSettings, hosts
from analyzers.naming import counted, milliseconds, named, span, whole_seconds_ms
from analyzers.windows import Lost, Seat, goes_silently


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimeoutSettings(LossSettings):
    """An hour shows who does it again, and one timeout is news for no longer; two of one client are no chance, and
    three are more than one bad node. What comes back within two minutes was restarted by its supervisor, or had only
    stalled: garbage collectors and throttled CPUs take seconds to a minute."""

    many: int = setting(3, "timeouts within window_s that are many", least=1)
    return_s: float = setting(120.0, "seconds within which a member that comes back may only have stalled")


class SessionTimeout(LossAnalyzer):
    """See the module."""

    name: ClassVar[str] = "session_timeout"
    rule: ClassVar[str] = (
        "A member went because its session ran out (inferred, with at least min_confidence) within the last "
        "window_s. Info for one; warning for a client that did so repeats times, or for many; critical when that "
        "many clients are repeat offenders."
    )
    false_alarms: ClassVar[str] = (
        "Static members and Kafka Streams say no goodbye, so their planned stop looks the same; so does any client "
        "that is killed in a deploy. Members that never commit leave no trace of how they went: no finding."
    )
    cause: ClassVar[Cause] = Cause.SESSION_TIMEOUT
    settings_class: ClassVar[type[Settings]] = SessionTimeoutSettings
    settings: SessionTimeoutSettings

    def _describe(self, lost: Sequence[Lost], seats: Sequence[Seat], repeaters: Sequence[Seat]) -> Condition:
        unplanned = [it for it in lost if not _may_be_planned(it)]
        many = self.settings.many
        if len(repeaters) >= many:
            severity = Severity.CRITICAL
        elif repeaters or len(unplanned) >= many:
            severity = Severity.WARNING
        else:
            severity = Severity.INFO
        timeouts = sorted({it.member.session_timeout_ms for it in lost if it.member.session_timeout_ms is not None})
        stalled = [it for it in lost if self._may_have_stalled(it)]
        needed = [
            it.away_ms + it.member.session_timeout_ms
            for it in stalled
            if it.away_ms is not None and it.member.session_timeout_ms is not None
        ]
        numbers: dict[str, Any] = {
            **self._who(lost, seats, repeaters),
            "session_timeouts_ms": timeouts[:5],
            "came_back": sum(it.back_ms is not None for it in lost),
            "overlapped": sum(it.overlapped for it in lost),
            "needed_session_timeout_ms": whole_seconds_ms(max(needed)) if needed else None,
        }
        return Condition(
            severity, self._summary(lost, seats, repeaters, timeouts), _advice(lost, stalled, numbers), numbers
        )

    def _may_have_stalled(self, it: Lost) -> bool:
        return it.away_ms is not None and not it.overlapped and it.away_ms <= milliseconds(self.settings.return_s)

    def _summary(
        self, lost: Sequence[Lost], seats: Sequence[Seat], repeaters: Sequence[Seat], timeouts: Sequence[int]
    ) -> str:
        what = f"{counted(len(lost), 'session')} ran out within {span(milliseconds(self.settings.window_s))}"
        who = f"{named([seat.name for seat in seats])} on {hosts(lost)}"
        after = f" after {named([span(ms) for ms in timeouts])}" if timeouts else ""
        again = f"; again and again: {named([seat.name for seat in repeaters])}" if repeaters else ""
        back = sum(it.back_ms is not None for it in lost)
        if back:
            again += f"; {counted(back, 'member')} came back"
        return f"{what}: {who}{after}{again}."


def _may_be_planned(it: Lost) -> bool:
    """Whether the whole group may have been stopped in good order."""
    return it.with_all and goes_silently(it.member)


def _advice(lost: Sequence[Lost], stalled: Sequence[Lost], numbers: dict[str, Any]) -> str:
    parts: list[str] = []
    died = [it.seat.name for it in lost if it.overlapped]
    if died:
        parts.append(
            f"{named(died)} came back before the old session had ended, so the process had died without a goodbye: "
            "look for why (exit code, OOM kill, liveness probe), and call close() on shutdown."
        )
    needed = numbers["needed_session_timeout_ms"]
    if stalled:
        within = span(max(it.away_ms or 0 for it in stalled))
        text = f"{named([it.seat.name for it in stalled])} came back within {within}"
        if needed is not None:
            text += (
                f": if it stalled rather than restarted (garbage collection, throttled CPU, network), a "
                f"session.timeout.ms of at least {needed} would have kept it, with heartbeat.interval.ms at most a "
                "third of it."
            )
        else:
            text += ": if it stalled rather than restarted, its session timeout is too tight for that."
        parts.append(text)
    gone = [it for it in lost if it.back_ms is None]
    if gone:
        parts.append(f"Check whether {named([it.seat.name for it in gone])} should still run.")
    if any(_may_be_planned(it) for it in gone):
        parts.append("If all were stopped on purpose nothing is wrong: static members and Streams say no goodbye.")
    if any(it.seat.instance_id is not None for it in lost):
        parts.append("For static members session.timeout.ms must be longer than a restart takes.")
    if any(not it.member.uses_classic_protocol for it in lost):
        parts.append(
            "Under group.protocol=consumer the timeout is the broker's: group.consumer.session.timeout.ms, or for "
            "this group alone its config consumer.session.timeout.ms."
        )
    return " ".join(parts)
