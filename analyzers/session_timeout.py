"""Members that the group lost because their session ran out: no heartbeat arrived for `session.timeout.ms`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.causes import Cause
from agent.core.inference.parameters import PARAMETERS
from agent.core.protocol.states import GroupType
from analyzers.api import Condition, Settings, Severity, setting
from analyzers.formatting import count_text, duration_text, milliseconds, names_text, round_up_to_seconds_ms
from analyzers.lost_members import Losses, LostMembersAnalyzer, LostMembersSettings
from analyzers.windows import ClientIdentity, LostMember, counted, leaves_without_goodbye


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimeoutSettings(LostMembersSettings):
    """An hour shows who does it again, and one timeout is news for no longer; two of one client are no chance, and
    three are more than one bad node. What comes back within two minutes was restarted by its supervisor, or had only
    stalled: garbage collectors and throttled CPUs take seconds to a minute."""

    many: int = setting(3, "timeouts within window_s that are many", least=1)
    return_s: float = setting(120.0, "seconds within which a member that comes back may only have stalled")


class SessionTimeout(LostMembersAnalyzer):
    """Watches for departures caused by `session_timeout`: rule, thresholds and false alarms are below."""

    STATE: ClassVar = LostMembersAnalyzer.STATE

    __slots__ = ()

    name: ClassVar[str] = "session_timeout"
    rule: ClassVar[str] = (
        "A member was removed because its session timed out (inferred, with at least min_confidence) within the last "
        "window_s. Info for one; warning for a client that did so repeats times, or for many; critical when that "
        "many clients are repeat offenders."
    )
    false_alarms: ClassVar[str] = (
        "Static members and Kafka Streams send no LeaveGroup, so a planned stop looks the same (static members of "
        "KIP-848 groups say that they close, so the advice does); so does any client that is killed in a deploy. "
        "Members that never commit leave no trace of why they left: no finding."
    )
    cause: ClassVar[Cause] = Cause.SESSION_TIMEOUT
    settings_class: ClassVar[type[Settings]] = SessionTimeoutSettings
    settings: SessionTimeoutSettings

    def _describe(self, losses: Losses) -> Condition:
        lost = losses.members
        timeouts = sorted({it.member.session_timeout_ms for it in lost if it.member.session_timeout_ms is not None})
        stalled = [it for it in lost if self._may_have_stalled(it)]
        needed = [
            it.away_ms + it.member.session_timeout_ms
            for it in stalled
            if it.away_ms is not None and it.member.session_timeout_ms is not None
        ]
        numbers: dict[str, Any] = {
            **losses.numbers(self.settings.window_s),
            "session_timeouts_ms": timeouts[:5],
            "came_back": sum(it.returned_ms is not None for it in lost),
            "overlapped": sum(it.overlapped for it in lost),
            "needed_session_timeout_ms": round_up_to_seconds_ms(max(needed)) if needed else None,
        }
        advice = _advice(losses, stalled, numbers)
        return Condition(self._severity(losses), self._summary(losses, timeouts), advice, numbers)

    def _severity(self, losses: Losses) -> Severity:
        many = self.settings.many
        if len(losses.repeaters) >= many:
            return Severity.CRITICAL
        unplanned = [it for it in losses.members if not _may_be_planned(it)]
        return Severity.WARNING if losses.repeaters or len(unplanned) >= many else Severity.INFO

    def _may_have_stalled(self, lost: LostMember) -> bool:
        return (
            lost.away_ms is not None and not lost.overlapped and lost.away_ms <= milliseconds(self.settings.return_s)
        )

    def _summary(self, losses: Losses, timeouts: Sequence[int]) -> str:
        lost = losses.members
        window = duration_text(milliseconds(self.settings.window_s))
        what = f"{counted(len(lost), 'session')} timed out within {window}"
        after = f" after {names_text([duration_text(ms) for ms in timeouts])}" if timeouts else ""
        again = losses.again
        back = sum(it.returned_ms is not None for it in lost)
        if back:
            again += f"; {count_text(back, 'member')} joined again"
        return f"{what}: {losses.who}{after}{again}."


def _may_be_planned(lost: LostMember) -> bool:
    """Whether it closed, as far as the log tells, or the whole group may have been stopped in good order."""
    return lost.member.left_for_restart or (lost.emptied_group and leaves_without_goodbye(lost.member))


_SET_BY_BROKERS: dict[str | None, str] = {
    GroupType.CONSUMER: "With group.protocol=consumer",
    GroupType.SHARE: "In share groups",
    GroupType.STREAMS: "With group.protocol=streams",
}
"""By group type, of whose members the brokers set the session timeout."""


def _advice(losses: Losses, stalled: Sequence[LostMember], numbers: dict[str, Any]) -> str:
    lost, parts = losses.members, list[str]()
    died = [it for it in lost if it.overlapped]
    seats_at: defaultdict[int, set[ClientIdentity]] = defaultdict(set)
    for it in died:
        seats_at[it.offset].add(it.identity)
    if together := [it.identity.name for it in died if len(seats_at[it.offset]) > 1]:
        parts.append(
            f"Find what {names_text(together)} had in common as their sessions timed out at once: brokers "
            "or a network that did not answer, a host that stopped, or a restart without close()."
        )
    alone = [it.identity for it in died if len(seats_at[it.offset]) == 1]
    if looping := {seat.name for seat in alone if seat in losses.repeaters}:
        stops, whom, its = ("stops", "it", "its") if len(looping) == 1 else ("stop", "them", "their")
        parts.append(
            f"Find why {names_text(sorted(looping))} {stops} without close() (log, exit code, OOM kills, liveness "
            f"probe), and keep {whom} stopped until then; the price is {its} capacity."
        )
    if once := [seat.name for seat in alone if seat not in losses.repeaters]:
        parts.append(
            f"Find why {names_text(once)} stopped without close() (log, exit code, OOM kills, liveness probe)."
        )
    needed = numbers["needed_session_timeout_ms"]
    whose = _SET_BY_BROKERS.get(losses.group_type)
    is_theirs = whose is not None and any(not it.member.uses_classic_protocol for it in lost)
    setting = f"group.{losses.group_type}.%s.ms" if is_theirs else "%s.ms"
    if stalled:
        within = duration_text(max(it.away_ms or 0 for it in stalled))
        who = names_text([it.identity.name for it in stalled])
        if needed is not None:
            session, beat, most = (
                setting % name for name in ("session.timeout", "heartbeat.interval", "max.session.timeout")
            )
            is_too_long = is_theirs and needed > PARAMETERS.kip848_longest_session_timeout_ms
            above = f" (and {most} above it)" if is_too_long else ""
            parts.append(
                f"If {who} only paused (garbage collection, CPU limit, network) for {within}, set {session} "
                f"to at least {duration_text(needed)}{above}; a dead member is then detected later."
            )
            parts.append(f"Keep {beat} at a third of it or less.")
        else:
            parts.append(f"If {who} only paused for {within}, the session timeout is too short for that.")
    away = [it for it in lost if it.returned_ms is None]
    closed = [it for it in away if it.member.left_for_restart]
    if closed:
        names = names_text([it.identity.name for it in closed])
        parts.append(f"{names} closed: if that was a restart, find why it took longer than the session timeout.")
    gone = [it for it in away if not it.member.left_for_restart]
    if gone:
        who = names_text([it.identity.name for it in gone])
        parts.append(
            f"Find why {who} stopped sending heartbeats, unless that was planned (log, exit code, OOM kills, "
            "liveness probe)."
        )
    if any(_may_be_planned(it) for it in gone):
        parts.append("Static members and Kafka Streams send no LeaveGroup: a planned stop looks the same.")
    if any(it.identity.instance_id is not None for it in lost):
        parts.append(
            "Static members need a session.timeout.ms longer than a restart; a dead one is then detected later."
        )
    if is_theirs:
        name = f"{losses.group_type}.session.timeout.ms"
        parts.append(f"{whose} the brokers set the timeout: group.{name}, or for this group its config {name}.")
    return " ".join(parts)
