"""Consumers that restart often, each time as a new member: what static membership (KIP-345) would have saved.

A dynamic member that goes makes a rebalance, and one more when it comes back. A static one (`group.instance.id`) that
is back before its session ends makes none; but meanwhile its partitions stand still, since nobody takes them over. So
what is saved is the standstill of all *less* that of the one. Where nothing is left of it there is no advice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec import Struct

from agent.core.causes import Cause
from agent.core.inference.facts import Departure
from agent.core.protocol.client_libraries import STATIC_MEMBERSHIP, lacks, spell_settings
from agent.core.protocol.states import GroupType
from agent.core.shadow.transitions import Rebalanced, StaticMemberReplaced, Transition
from agent.core.shadow.views import Member
from agent.core.state_fields import StateFields, shared
from analyzers.api import Analyzer, Condition, GroupContext, Settings, Severity, Verdict, setting
from analyzers.formatting import (
    count_text,
    distinct_names,
    duration_text,
    milliseconds,
    names_text,
    round_up_to_seconds_ms,
)
from analyzers.windows import NONE_BY_KEY, RecentItems, counted, departed, found_members, partitions_held

DEFAULT_SESSION_MS = 45_000
"""The clients' own session timeout since Kafka 3.0: less is not advised."""

RESTART_CAUSES = (Cause.MEMBER_LEFT, Cause.SESSION_TIMEOUT)
"""How a client goes that is restarted. Who does not poll loses its place with an instance id too."""

CONSOLE_CLIENT = "console-consumer"
"""How Kafka's console tool names itself, and its group if it is given none: people who look, and look again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMembershipAdviceSettings(Settings):
    """A day shows deploys and restarts as they usually are. Longer than ten minutes nobody wants partitions to stand
    still for; a broker allows half an hour at most (group.max.session.timeout.ms)."""

    close_after_s: float = setting(0.0, "seconds that it must be gone before the finding closes")
    window_s: float = setting(86400.0, "seconds over which restarts are counted", least=1)
    return_s: float = setting(600.0, "seconds within which a client that comes back has restarted", least=1)
    min_restarts: int = setting(3, "restarts within window_s that are worth it", least=1)
    min_rebalances: int = setting(3, "rebalances within window_s that would have been saved", least=1)
    min_standstill_s: float = setting(1.0, "standstill saved within window_s, partition-seconds")


@shared
class RebalanceRound(Struct, gc=False):
    """A rebalance with the cooperative rounds that followed. `unexplained`: who came or went and did not restart."""

    unexplained: int
    disturbs: bool
    stopped_ms: int
    rounds: int = 1


@shared
class AbsentClient(Struct, frozen=True, eq=False, gc=False):
    """A client that went. `from_ms` is when it was last seen to work."""

    member: Member
    from_ms: int
    round: RebalanceRound


class Restart(Struct, frozen=True, gc=False):
    """One that came back, after `away_ms`."""

    member: Member
    away_ms: int


class StaticMembershipAdvice(Analyzer):
    """Counts restarts and what static membership would have saved: rule, thresholds and false alarms are below."""

    STATE: ClassVar = StateFields(
        {
            "_rounds": RecentItems[RebalanceRound],
            "_restarts": RecentItems[Restart],
            "_away": RecentItems[AbsentClient],
            "_away_by_client": dict[str, list[AbsentClient]],
            "_here": Counter[str],
            "_last": RebalanceRound | None,
            "_changed": bool,
            "_condition": Condition | None,
        }
    )

    name: ClassVar[str] = "static_membership_advice"
    rule: ClassVar[str] = (
        "Dynamic members of a classic group, with others that stay, left and joined again within return_s under the "
        "same client id (from the same host, or as the only one with that id) min_restarts times within window_s; "
        "and min_rebalances and min_standstill_s would have been saved. Info."
    )
    false_alarms: ClassVar[str] = (
        "A crash loop, where the crash is what to fix. Not seen: clients whose id changes with each "
        "start, members of libraries without static membership, members that never commit (nothing tells when they "
        "went), KIP-848 groups (a restart stops nobody else there) and Connect (which waits "
        "scheduled.rebalance.max.delay.ms by itself)."
    )
    settings_class: ClassVar[type[Settings]] = StaticMembershipAdviceSettings
    settings: StaticMembershipAdviceSettings

    __slots__ = ("_away", "_away_by_client", "_changed", "_condition", "_here", "_last", "_restarts", "_rounds")

    def __init__(self, settings: StaticMembershipAdviceSettings) -> None:
        super().__init__(settings)
        window_ms = milliseconds(settings.window_s)
        self._rounds: RecentItems[RebalanceRound] = RecentItems(window_ms)
        self._restarts: RecentItems[Restart] = RecentItems(window_ms)
        self._away: RecentItems[AbsentClient] = RecentItems(milliseconds(settings.return_s))
        self._away_by_client: dict[str, list[AbsentClient]] = NONE_BY_KEY
        self._here: Counter[str] = Counter()
        self._last: RebalanceRound | None = None
        self._changed = False
        self._condition: Condition | None = None

    def after_restore(self) -> None:
        """What is empty is shared."""
        self._away_by_client = self._away_by_client or NONE_BY_KEY

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Note who went, and who came back."""
        self._here.update(departed(it).client_id for it in found_members(transition, group))
        if isinstance(transition, StaticMemberReplaced):
            # It may have another client id.
            self._here[departed(transition.old).client_id] -= 1
            self._here[departed(transition.new).client_id] += 1
            self._here = +self._here
        if not isinstance(transition, Rebalanced) or transition.group_type != GroupType.CLASSIC:
            return
        self._prune(group.now_ms)
        stopped_ms = transition.stopped_partition_ms or 0
        followup = transition.inferred.cause is Cause.COOPERATIVE_FOLLOWUP
        if followup and self._last is not None and not transition.joined and not transition.left:
            self._last.rounds += 1
            self._last.stopped_ms += stopped_ms
            self._changed = True
            return
        changes = len(transition.joined) + len(transition.left)
        disturbs = transition.members > len(transition.joined) and changes > 0
        this = self._last = RebalanceRound(changes, disturbs, stopped_ms)
        self._rounds.add(group.now_ms, this)
        here = dict(self._here)
        for gone in transition.left:
            member, how = departed(gone), transition.inferred.departures.get(gone.member_id)
            self._here[member.client_id] -= 1
            if how is None or how.cause not in RESTART_CAUSES:
                # Who comes next comes back from this, which tells nothing of those that went before.
                for away in self._waiting_at(member):
                    self._drop(away)
            elif here.get(member.client_id, 0) > 1 and _never_worked(how):
                # One that is killed as it waits for its first assignment stays beside the one that is started in its
                # place: who comes later is not it.
                pass
            elif this.disturbs and _may_restart(member, group.name):
                self._note_departure(how, this, transition.at.timestamp_ms, group.now_ms)
        for member in map(departed, transition.joined):
            self._note_return(member, this, transition.at.timestamp_ms, group.now_ms)
        self._here = +self._here
        self._changed = True

    def _note_departure(self, how: Departure, this: RebalanceRound, at_ms: int, now_ms: int) -> None:
        member, from_ms = departed(how.member), at_ms if how.departed_ms is None else how.departed_ms
        if how.cause is Cause.SESSION_TIMEOUT:
            # Looks do not show the timeout; then as long as it had been silent.
            silent_ms = how.evidence.get("gap_ms") if member.session_timeout_ms is None else member.session_timeout_ms
            from_ms -= silent_ms or 0
        away = AbsentClient(member, from_ms, this)
        if self._away_by_client is NONE_BY_KEY:
            self._away_by_client = {}
        self._away_by_client.setdefault(member.client_id, []).append(away)
        self._forget(self._away.add(now_ms, away))

    def _note_return(self, member: Member, this: RebalanceRound, at_ms: int, now_ms: int) -> None:
        only = not self._here[member.client_id]
        self._here[member.client_id] += 1
        if member.instance_id is not None:
            return
        same = self._waiting_at(member)
        waiting = same or (self._away_by_client.get(member.client_id, []) if only else [])
        # Who comes takes the place that was left last: of one that went before, nothing says that it is back.
        found = next(reversed(waiting), None)
        if found is None:
            return
        self._drop(found)
        found.round.unexplained -= 1
        this.unexplained -= 1
        self._restarts.add(now_ms, Restart(found.member, max(at_ms - found.from_ms, 0)))

    def _waiting_at(self, member: Member) -> list[AbsentClient]:
        """Those of its client id and host."""
        waiting = self._away_by_client.get(member.client_id, ())
        return [away for away in waiting if away.member.client_host == member.client_host]

    def _drop(self, away: AbsentClient) -> None:
        waiting = self._away_by_client[away.member.client_id]
        waiting.remove(away)
        if not waiting:
            del self._away_by_client[away.member.client_id]

    def _forget(self, gone: Iterable[tuple[int, AbsentClient]]) -> None:
        for _, away in gone:
            if away in self._away_by_client.get(away.member.client_id, ()):
                self._drop(away)

    def _prune(self, now_ms: int) -> None:
        self._forget(self._away.prune(now_ms))
        self._changed |= bool(self._rounds.prune(now_ms)) | bool(self._restarts.prune(now_ms))

    def judge(self, group: GroupContext) -> Verdict:
        """Whether static membership would have helped."""
        self._prune(group.now_ms)
        if self._changed:
            self._changed = False
            self._condition = self._describe(list(self._restarts))
        if self._condition is None:
            return Verdict()
        ends = (self._rounds.expires_ms, self._restarts.expires_ms)
        return Verdict(self._condition, min(it for it in ends if it is not None))

    def _describe(self, restarts: Sequence[Restart]) -> Condition | None:
        settings = self.settings
        if len(restarts) < settings.min_restarts:
            return None
        rounds = [it for it in self._rounds if it.disturbs and it.unexplained == 0]
        saved = sum(it.rounds for it in rounds)
        away_partition_ms = sum(it.away_ms * partitions_held(it.member) for it in restarts)
        stopped_ms = sum(it.stopped_ms for it in rounds) - away_partition_ms
        if saved < settings.min_rebalances or stopped_ms < milliseconds(settings.min_standstill_s):
            return None
        counts = Counter(it.member.client_id for it in restarts)
        clients = sorted(counts, key=lambda client: (-counts[client], client))
        longest_ms = max(it.away_ms for it in restarts)
        sessions = {it.member.session_timeout_ms for it in restarts if it.member.session_timeout_ms is not None}
        advised_ms = max(round_up_to_seconds_ms(longest_ms * 3 // 2), DEFAULT_SESSION_MS, *sessions)
        numbers: dict[str, Any] = {
            "restarts": len(restarts),
            "window_s": settings.window_s,
            "clients": distinct_names(clients),
            "rebalances_saved": saved,
            "stopped_partition_s_saved": round(stopped_ms / 1000),
            "away_partition_s": round(away_partition_ms / 1000),
            "longest_restart_ms": longest_ms,
            "session_timeouts_ms": sorted(sessions)[:5],
            "advised_session_timeout_ms": advised_ms,
        }
        what = (
            f"{counted(len(restarts), 'restart')} of {names_text(clients)} within "
            f"{duration_text(milliseconds(settings.window_s))}"
        )
        standstill = count_text(round(stopped_ms / 1000), "partition-second")
        return Condition(
            Severity.INFO,
            f"{what}: static membership would save {count_text(saved, 'rebalance')} and about {standstill} stopped.",
            spell_settings(
                f"Set group.instance.id, one for each client and the same after a restart, and session.timeout.ms to "
                f"{duration_text(advised_ms)} (longest restart: {duration_text(longest_ms)}); a dead member's "
                "partitions wait that long.",
                {it.member.client_library for it in restarts},
            ),
            numbers,
        )


def _never_worked(how: Departure) -> bool:
    """Whether a member's session ran out without a commit, as far as commits tell how it went."""
    of_commits = how.evidence.get("kind") == "commit_gap"
    return how.cause is Cause.SESSION_TIMEOUT and of_commits and how.evidence["gap_ms"] is None


def _may_restart(member: Member, group: str) -> bool:
    """Whether the member is a dynamic one of a service that could be static: none of Kafka's console tool, nor of a
    library without static membership."""
    is_service = CONSOLE_CLIENT not in member.client_id and not group.startswith(CONSOLE_CLIENT)
    return member.instance_id is None and is_service and not lacks(STATIC_MEMBERSHIP, [member.client_library])
