"""A group that rebalances again and again: each time all its members stop, or some partitions do.

A deploy rebalances often too. What tells a storm from it is not the rate but repetition: in a deploy each seat (see
`windows`) is left once and taken again. So three things count, each over a window of event time:

- *loops*: a client that goes for the third time in half an hour, the last time within ten minutes. So a container
  that its supervisor restarts with growing pauses (up to five minutes) still shows.
- *churn*: the whole group replaced as often: a deploy or an autoscaler that goes on and on.
- *excess*: generations that nobody's coming and going explains (timeouts, rounds that follow rounds, the same members
  rejoining, generations that never completed): six in ten minutes, if that is thrice the group's normal rate.

Normal is the group's own rate of generations over about a day, without its storms, as it was before the window.

KIP-848, share and streams groups count epochs, which stop nobody who keeps his partitions: only loops and churn count
there, as a warning at most. In Connect groups rebalances without a change of members are how connectors are managed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

from agent.common.units import HOUR_MS
from agent.core.causes import TIMEOUT_CAUSES, Cause
from agent.core.inference.facts import Departure
from agent.core.inference.parameters import PARAMETERS
from agent.core.protocol.client_libraries import UNKNOWN, spell_settings
from agent.core.protocol.states import GroupType
from agent.core.shadow.transitions import AssignmentChanged, Rebalanced, StaticMemberReplaced, Transition
from agent.core.state_fields import StateFields, shared
from analyzers.api import Analyzer, Condition, GroupContext, Settings, Severity, Verdict, setting
from analyzers.formatting import count_text, distinct_names, duration_text, milliseconds, names_text
from analyzers.origins import with_origins
from analyzers.storms import (
    PATTERN_ADVICE,
    SEVERAL_LOOPS_ADVICE,
    BaselineRate,
    StormPattern,
    dominant_pattern,
    pattern_clause,
)
from analyzers.windows import (
    ClientIdentity,
    DepartureCounter,
    RecentItems,
    SeatChains,
    client_of,
    counted,
    found_members,
    identity_of,
    leaves_without_goodbye,
)

EXPECTED_FOLLOWUPS = 2
"""How many cooperative rounds may follow one change: one gives away what was taken back, and one for who came in."""

CRASH_LOOP_MAX_CLIENTS = 3
"""More clients than that, restarted again and again, are no crash loop: someone deploys or scales."""

STALLS = frozenset({Cause.POLL_TIMEOUT, Cause.REJOIN_TIMEOUT})
"""How members go whose processing stands still: which of the two depends on their library, and on who rebalances."""

MIN_DEPARTURES_KEPT = 10_000
"""How many departures are kept at least; of larger groups as many as make a loop of all their members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStormSettings(Settings):
    """Why these: see the module. Half of the window without work, or half an hour of it, is worth waking someone."""

    window_s: float = setting(600.0, "seconds over which rebalances are counted", least=1)
    loop_window_s: float = setting(1800.0, "seconds over which departures of the same client are counted", least=1)
    loop_departures: int = setting(3, "departures of the same client within loop_window_s that are a loop", least=2)
    min_rebalances: int = setting(
        6, "rebalances that no deploy explains within window_s: fewer are no storm", least=1
    )
    times_normal: float = setting(3.0, "how many times the group's normal rate is a storm")
    normal_s: float = setting(86400.0, "seconds over which the group's normal rate is averaged", least=1)
    critical_share: float = setting(0.5, "share of window_s without work that is critical, 0 to 1")
    critical_after_s: float = setting(1800.0, "seconds after which a storm that goes on is critical")


WHOLE_GROUP = ClientIdentity("", "*")
"""What may be left again and again: a seat, all seats of a client id (no host), or the group."""

_NO_EXCESS: Counter[StormPattern] = Counter()
_NOBODY: AbstractSet[ClientIdentity] = frozenset()
"""Stand for none, and stay empty."""


class CountedDeparture(NamedTuple):
    """A departure that disturbed someone. `overlapped`: its successor came before its time had run out."""

    at_ms: int
    seat: ClientIdentity
    cause: Cause
    overlapped: bool
    library: str = UNKNOWN


@shared
class StormRound(Struct, gc=False):
    """One rebalance. `excess`: its generations that nobody's coming or going explains, by what they look like."""

    offset: int
    cause: Cause
    skipped: int
    excess: Counter[StormPattern]
    waited_ms: int | None
    stopped_ms: int | None
    since_previous_ms: int | None
    partitions: int

    @property
    def unstable_ms(self) -> int | None:
        """For how long the group did not work, at least; None where nothing of it is known.

        Partitions stand still for what is said to be the rebalance's cost, on the mean; and not for longer than the
        group waited, through most of which members may work: cooperative ones, and eager ones that have not noticed.
        """
        if self.stopped_ms is None or not self.partitions:
            return None
        bounds = (self.stopped_ms // self.partitions, self.waited_ms, self.since_previous_ms)
        return min(it for it in bounds if it is not None)


class RebalanceStorm(Analyzer):
    """Counts loops, churn and generations that nobody's coming and going explains: the module has the rule."""

    STATE: ClassVar = StateFields(
        {
            "_rounds": RecentItems[StormRound],
            "_excess": Counter[StormPattern],
            "_generations": int,
            "_gone": RecentItems[CountedDeparture],
            "_turnover": DepartureCounter[ClientIdentity],
            "_chains": SeatChains[ClientIdentity],
            "_often": set[ClientIdentity],
            "_normal": BaselineRate,
            "_last": StormRound | None,
            "_last_ms": int | None,
            "_assigned": int,
            "_followups": int,
            "_is_classic": bool,
            "_since_ms": int | None,
            "_storm": tuple[int, int],
        }
    )

    name: ClassVar[str] = "rebalance_storm"
    rule: ClassVar[str] = (
        "The same client left loop_departures times within loop_window_s, or the whole group was replaced as often, "
        "the last time within window_s; or min_rebalances within window_s are not explained by each client coming or "
        "going once, and all together are times_normal the group's normal rate. Warning; critical if the group did "
        "not work for critical_share of window_s, or if it lasts critical_after_s."
    )
    false_alarms: ClassVar[str] = (
        "Three deploys to the same hosts within half an hour; short-lived workers that share a client id; a deploy "
        "that kills its consumers, one after the other, so that each session has to run out. Clients that change "
        "both client id and host at each restart are told by churn alone."
    )
    settings_class: ClassVar[type[Settings]] = RebalanceStormSettings
    settings: RebalanceStormSettings

    __slots__ = (
        "_assigned",
        "_chains",
        "_excess",
        "_followups",
        "_generations",
        "_gone",
        "_is_classic",
        "_last",
        "_last_ms",
        "_normal",
        "_often",
        "_rounds",
        "_since_ms",
        "_storm",
        "_turnover",
        "_window_ms",
    )

    def __init__(self, settings: RebalanceStormSettings) -> None:
        super().__init__(settings)
        self._window_ms = milliseconds(settings.window_s)
        loop_ms = milliseconds(settings.loop_window_s)
        self._rounds: RecentItems[StormRound] = RecentItems(self._window_ms)
        self._excess = _NO_EXCESS
        self._generations = 0
        self._gone: RecentItems[CountedDeparture] = RecentItems(loop_ms, MIN_DEPARTURES_KEPT)
        self._turnover: DepartureCounter[ClientIdentity] = DepartureCounter(
            loop_ms, settings.loop_departures, MIN_DEPARTURES_KEPT
        )
        self._chains: SeatChains[ClientIdentity] = SeatChains()
        # Seats and client ids of which a place was left again and again: looked at again as long as they are.
        self._often = _NOBODY
        self._normal = BaselineRate(milliseconds(settings.normal_s))
        self._last: StormRound | None = None
        self._last_ms: int | None = None
        self._assigned = 0
        self._followups = 0
        self._is_classic = True
        self._since_ms: int | None = None
        # Until when the storm went that is or was last: what leaves the window later, and is of before, is not
        # normal. Images have a pair, whose first nobody reads.
        self._storm = (0, -1)

    # What happens.

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Note a rebalance, and who came and went with it."""
        if isinstance(transition, Rebalanced):
            self._prune(group.now_ms)
            self._is_classic = transition.group_type in (GroupType.CLASSIC, GroupType.CONNECT)
            self._rebalanced(transition, group.now_ms)
        elif isinstance(transition, AssignmentChanged):
            self._assigned = transition.assigned
            if self._last is not None and self._last.offset == transition.at.offset:
                self._last.partitions = transition.assigned
        elif isinstance(transition, StaticMemberReplaced):
            old, new = transition.old, transition.new
            for key_of in (identity_of, client_of):
                self._chains.replace(key_of(old), old.member_id, key_of(new), new.member_id)
        else:
            for _ in found_members(transition, group):
                self._turnover.join(WHOLE_GROUP)

    def _rebalanced(self, rebalance: Rebalanced, now_ms: int) -> None:
        if self._normal.since_ms is None:
            self._normal.since_ms = now_ms
        stayed = rebalance.members > len(rebalance.joined)
        self._count_members(rebalance, stayed, now_ms)
        skipped = 0
        if self._is_classic and rebalance.previous_generation is not None:
            skipped = max(rebalance.generation - rebalance.previous_generation - 1, 0)
        phases = rebalance.join_ms, rebalance.sync_ms
        self._last = StormRound(
            rebalance.at.offset,
            rebalance.inferred.cause,
            skipped,
            self._unexplained(rebalance, skipped, stayed) if self._is_classic else _NO_EXCESS,
            None if None in phases else sum(it for it in phases if it is not None),
            rebalance.stopped_partition_ms,
            None if self._last_ms is None else max(rebalance.at.timestamp_ms - self._last_ms, 0),
            self._assigned,
        )
        self._last_ms = rebalance.at.timestamp_ms
        if self._last.excess:
            self._excess = self._excess + self._last.excess
        self._generations += 1 + skipped
        self._learn_baseline(self._rounds.add(now_ms, self._last))

    def _count_members(self, rebalance: Rebalanced, stayed: bool, now_ms: int) -> None:
        """Count departures and joins by seat. A departure from a group that nobody stays in (a batch job's) disturbs
        nobody."""
        self._gone.kept = max(self._gone.kept, self.settings.loop_departures * rebalance.members)
        self._turnover.raise_capacity(self._gone.kept)
        back = {identity_of(member) for member in rebalance.joined}
        departures = rebalance.inferred.departures
        left: set[ClientIdentity] = set()
        # Dead members in the order in which they died: each may have taken the place of the one before.
        for member in sorted(rebalance.left, key=lambda it: _alive_ms(departures.get(it.member_id)) or now_ms):
            how = departures.get(member.member_id)
            cause = Cause.UNKNOWN_DEPARTURE if how is None else how.cause
            counts = stayed or cause in TIMEOUT_CAUSES
            self._turnover.leave(WHOLE_GROUP, now_ms if counts else None)
            seat = identity_of(member)
            for key in (seat, client_of(member)):
                if not counts:
                    self._chains.discard(key, member.member_id)
                    continue
                self._chains.leave(key, member.member_id, now_ms, _alive_ms(how))
                left.add(key)
            if counts:
                self._gone.add(
                    now_ms,
                    CountedDeparture(
                        now_ms, seat, cause, cause in TIMEOUT_CAUSES and seat in back, member.client_library
                    ),
                )
        if often := {key for key in left if self._is_often(key, now_ms)}:
            self._often |= often
        for member in rebalance.joined:
            self._turnover.join(WHOLE_GROUP)
            for key in (identity_of(member), client_of(member)):
                self._chains.join(key, member.member_id, now_ms)

    def _is_often(self, key: ClientIdentity, now_ms: int) -> bool:
        since_ms = now_ms - milliseconds(self.settings.loop_window_s)
        return self._chains.restarts(key, since_ms) >= self.settings.loop_departures

    def _unexplained(self, rebalance: Rebalanced, skipped: int, stayed: bool) -> Counter[StormPattern]:
        """Generations that a deploy would not make: each coming and going explains one."""
        changes = len(rebalance.joined) + len(rebalance.left)
        out = Counter({StormPattern.NEVER_COMPLETED: max(skipped - max(changes - 1, 0), 0)})
        self._followups = self._followups + 1 if rebalance.inferred.cause is Cause.COOPERATIVE_FOLLOWUP else 0
        how = {departure.cause for departure in rebalance.inferred.departures.values()}
        if not stayed:
            pass
        elif how & STALLS:
            out[StormPattern.POLL_STALLS] = 1
        elif self._are_lost(rebalance):
            out[StormPattern.FLAPPING_SESSIONS] = 1
        elif Cause.SESSION_TIMEOUT in how:
            pass
        elif self._followups > EXPECTED_FOLLOWUPS:
            out[StormPattern.COOPERATIVE_ROUNDS] = 1
        elif not changes and not self._followups:
            out += self._unexplained_same_members(rebalance)
        return +out or _NO_EXCESS

    def _are_lost(self, rebalance: Rebalanced) -> bool:
        """Whether a session ran out that a stop in good order would not have left to run out; else, that one ran out
        before in the same seat."""
        how = rebalance.inferred.departures
        lost = {name for name, departure in how.items() if departure.cause is Cause.SESSION_TIMEOUT}
        dead = [it for it in rebalance.left if it.member_id in lost]
        if not all(map(leaves_without_goodbye, dead)):
            return True
        seats = set(map(identity_of, dead))
        times = Counter(it.seat for it in self._gone if it.seat in seats and it.cause is Cause.SESSION_TIMEOUT)
        return any(count > 1 for count in times.values())

    def _unexplained_same_members(self, rebalance: Rebalanced) -> Counter[StormPattern]:
        """A rebalance in which nobody came or went."""
        match rebalance.inferred.cause:
            case Cause.SUBSCRIPTION_CHANGED as cause:
                # A rolling deploy of static members may change the subscription of each, once.
                before = sum(round_.cause is cause for round_ in self._rounds)
                return Counter({StormPattern.SUBSCRIPTION_CHANGES: int(before >= rebalance.members)})
            case Cause.PARTITIONS_CHANGED:
                return Counter({StormPattern.SUBSCRIPTION_CHANGES: 1})
        return Counter({StormPattern.REJOIN_LOOP: int(rebalance.group_type != GroupType.CONNECT)})

    def _prune(self, now_ms: int) -> None:
        self._learn_baseline(self._rounds.prune(now_ms))
        self._gone.prune(now_ms)
        self._turnover.prune(now_ms)
        self._chains.forget_before(now_ms - milliseconds(self.settings.loop_window_s))
        if self._often:
            self._often = {key for key in self._often if self._is_often(key, now_ms)} or _NOBODY

    def _learn_baseline(self, gone: Iterable[tuple[int, StormRound]]) -> None:
        """What leaves the window becomes normal, unless it was a storm."""
        for at_ms, round_ in gone:
            if round_.excess:
                self._excess = self._excess - round_.excess
            self._generations -= 1 + round_.skipped
            if at_ms > self._storm[1]:
                self._normal.add(at_ms, 1 + round_.skipped)

    # What it comes to.

    def judge(self, group: GroupContext) -> Verdict:
        """Whether there is a storm."""
        now_ms, settings = group.now_ms, self.settings
        self._prune(now_ms)
        often = set(self._often)
        if self._turnover.departures(WHOLE_GROUP) >= settings.min_rebalances:
            often |= self._turnover.frequent()
        loops = self._loops(often, now_ms) if often else []
        normal = self._normal.per_ms(now_ms - self._window_ms, self._window_ms)
        if not loops and not self._is_excess(normal):
            self._since_ms = None
            return Verdict()
        if self._since_ms is None:
            self._since_ms = now_ms
        self._storm = (0, now_ms)
        condition = self._describe(now_ms, self._since_ms, loops, often, normal)
        if group.origins:
            began_ms = now_ms - milliseconds(settings.loop_window_s)
            origins = [it for it in group.origins.values() if it.at_ms >= began_ms]
            is_loop = condition.numbers["pattern"] == StormPattern.CRASH_LOOP
            condition = with_origins(condition, origins, len(loops), without_goodbye=False, explains=is_loop)
        changes = [self._since_ms + milliseconds(settings.critical_after_s), self._rounds.expires_ms]
        changes += [self._gone.expires_ms, loops[-1].at_ms + self._window_ms if loops else None]
        return Verdict(condition, min(it for it in changes if it is not None and it > now_ms))

    def _loops(self, often: set[ClientIdentity], now_ms: int) -> list[CountedDeparture]:
        """The departures of those who go again and again, if they still do."""
        loops = [
            it for it in self._gone if often.intersection((it.seat, ClientIdentity(it.seat.client_id), WHOLE_GROUP))
        ]
        return loops if loops and now_ms < loops[-1].at_ms + self._window_ms else []

    def _is_excess(self, normal: float | None) -> bool:
        if self._excess.total() < self.settings.min_rebalances:
            return False
        return self._generations >= self.settings.times_normal * (normal or 0.0) * self._window_ms

    def _describe(
        self,
        now_ms: int,
        since_ms: int,
        loops: list[CountedDeparture],
        often: set[ClientIdentity],
        normal: float | None,
    ) -> Condition:
        rounds = list(self._rounds)
        causes = Counter(str(round_.cause) for round_ in rounds)
        pattern = dominant_pattern(self._seen(loops, often))
        going = loops or [it for it in self._gone if it.cause in TIMEOUT_CAUSES]
        clients = [name for name, _ in sorted(_names(going).items(), key=lambda item: (-item[1], item[0]))]
        known = [ms for round_ in rounds if (ms := round_.unstable_ms) is not None]
        unstable_ms = sum(known)
        assert self._normal.since_ms is not None, "there was a rebalance"
        watched_ms = max(min(self._window_ms, now_ms - self._normal.since_ms), 1)
        share = round(min(unstable_ms / watched_ms, 1.0), 2) if known and self._is_classic else None
        is_long = now_ms - since_ms >= milliseconds(self.settings.critical_after_s)
        is_down = unstable_ms >= self.settings.critical_share * self._window_ms
        severity = Severity.CRITICAL if self._is_classic and (is_long or is_down) else Severity.WARNING
        never = sum(round_.skipped for round_ in rounds)
        an_hour = None if normal is None else round(normal * HOUR_MS, 2)
        numbers: dict[str, Any] = {
            "rebalances": len(rounds),
            "never_completed": never,
            "window_s": self.settings.window_s,
            "rate_per_hour": round(self._generations * HOUR_MS / self._window_ms, 1),
            "normal_per_hour": an_hour,
            "unstable_share": share,
            "pattern": str(pattern),
            "top_clients": distinct_names(clients),
            "causes": dict(sorted(causes.items())),
        }
        what = f"{counted(len(rounds), 'rebalance')} within {duration_text(self._window_ms)}"
        if never:
            what += f" and {never:,} more that never completed"
        if an_hour is not None:
            what += f" ({an_hour:g} an hour is normal here)"
        times = count_text(len(going), "departure")
        if loops and loops[0].at_ms <= now_ms - self._window_ms:
            times += f" within {duration_text(milliseconds(self.settings.loop_window_s))}"
        if pattern is StormPattern.MIXTURE and loops and len(causes) < 2:
            clause = f"{names_text(clients)} left repeatedly in several ways ({times})"
        else:
            clause = pattern_clause(pattern, clients, times, causes)
        summary = f"{what}: {clause}"
        if share:
            summary += f"; partitions were stopped for at least {share * 100:.0f} % of the time"
        are_several = pattern is StormPattern.CRASH_LOOP and len(clients) > 1
        advice = SEVERAL_LOOPS_ADVICE if are_several else PATTERN_ADVICE[pattern]
        advice = spell_settings(advice, {it.library for it in self._gone})
        return Condition(severity, f"{summary}.", advice, numbers)

    def _seen(self, loops: list[CountedDeparture], often: set[ClientIdentity]) -> Counter[StormPattern]:
        """What it looks like: loops by how they went, and what no loop explains."""
        if not loops:
            return self._excess
        seen: Counter[StormPattern] = Counter()
        alone = self._clients_alone(often)
        clients = len({it.seat if it.seat in often else it.seat.client_id for it in loops})
        for it in loops:
            is_one_client = it.seat in often or it.seat.client_id in alone
            if not is_one_client or (clients > CRASH_LOOP_MAX_CLIENTS and it.cause not in TIMEOUT_CAUSES):
                seen[StormPattern.CHURN] += 1
            elif it.cause in STALLS:
                seen[StormPattern.POLL_STALLS] += 1
            elif it.cause is Cause.SESSION_TIMEOUT and clients > 1 and not it.overlapped:
                seen[StormPattern.FLAPPING_SESSIONS] += 1
            else:
                seen[StormPattern.CRASH_LOOP] += 1
        for pattern, count in self._excess.items():
            if pattern not in (StormPattern.POLL_STALLS, StormPattern.FLAPPING_SESSIONS):
                seen[pattern] += count
        return seen

    def _clients_alone(self, often: set[ClientIdentity]) -> set[str]:
        """Client ids that are one client's, which went again and again."""
        gone = Counter(it.seat.client_id for it in self._gone)
        clients = ((ClientIdentity(name), number) for name, number in gone.items())
        return {it.client_id for it, number in clients if it in often and 2 * self._chains.restarts(it, 0) > number}


def _alive_ms(how: Departure | None) -> int | None:
    """When a member whose session ran out was alive last, by the group's clock; None of others."""
    if how is None or how.cause is not Cause.SESSION_TIMEOUT or how.departed_ms is None:
        return None
    session_ms = how.session_timeout_ms
    return how.departed_ms - (PARAMETERS.kip848_session_timeout_ms if session_ms is None else session_ms)


def _names(gone: Iterable[CountedDeparture]) -> Counter[str]:
    return Counter(it.seat.instance_id or it.seat.client_id for it in gone)
