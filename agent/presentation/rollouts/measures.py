"""What a rollout came to: times, rebalances, stopped time, lag, who left and how. Numbers only; `verdicts` judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from agent.core.causes import TIMEOUT_CAUSES
from agent.core.events.samples import LagNote
from agent.core.inference.origins import OriginKind
from agent.core.protocol.client_libraries import library_named
from agent.core.protocol.states import GroupType
from agent.presentation.rollouts.parameters import PARAMETERS as P
from agent.presentation.rollouts.turnover import Episode, Origin, RolloutDeparture

CLEAN_EXITS = (0, 143)
"""Exit codes of a process that ended in good order: by itself, or by SIGTERM."""
SIGKILL_EXIT = 137
KILLED_AT_STOP = "killed_at_stop"
"""An error of our own name: a pod of the old revision that was killed (137) when its grace period was over."""
LAG_AFTER_MS = 60_000
"""Lag is looked at until so long after the group is steady: samples are taken once a minute."""


class RolloutState(StrEnum):
    """How far a rollout is."""

    RUNNING = "running"
    STEADY = "steady"
    UNSTEADY = "unsteady"


class Rollout(Struct, frozen=True):
    """One rollout in numbers. Times are epoch milliseconds; what is not known is None.

    `is_stopped`: all members left before the group had been steady, and none came until it was over. `ended_ms` is
    when the last member was replaced, `over_ms` from when on changes of members are none of it, `steady_ms` when the
    rebalance was through after which the group came to rest. `last_rebalance_ms` is when the last that is counted was
    through, `rebalances_of_unknown_cost` are missing in `stopped_partition_ms`. `was_empty`: during it the group had
    no members. `lag_peak_at_least`: of some positions, or for some time, lag was not known, so it may have been more.
    `departures` by cause; `errors` by origin. `crash_loops` counts places that new members left again and
    again. `partitions` are the most that were assigned in it, `imbalance_*` the largest share of them in fair ones: 1
    is even.
    """

    state: RolloutState
    is_stopped: bool
    by_kubernetes: bool
    workload: str | None
    revision_from: str | None
    revision_to: str | None
    began_ms: int
    ended_ms: int
    over_ms: int
    steady_ms: int | None
    members_before: int | None
    members_after: int | None
    members_replaced: int
    is_complete: bool
    rebalances: int
    last_rebalance_ms: int | None
    never_completed: int
    stopped_partition_ms: int | None
    rebalances_of_unknown_cost: int
    was_empty: bool
    lag_peak_records: int | None
    lag_peak_s: float | None
    lag_peak_at_least: bool
    departures: Mapping[str, int]
    unclean_ends: int
    errors: Mapping[str, int]
    crash_loops: int
    partitions: int
    imbalance_before: float | None
    imbalance_after: float | None

    @property
    def time_to_steady_ms(self) -> int | None:
        """From its first change of members to the group's rest."""
        return None if self.steady_ms is None else self.steady_ms - self.began_ms

    @property
    def left(self) -> int:
        """How many departures there were."""
        return sum(self.departures.values())


def measure(
    episodes: Sequence[Episode],
    now_ms: int,
    lags: Sequence[LagNote] = (),
    group_type: str = GroupType.CLASSIC,
) -> list[Rollout]:
    """What each of a group's rollouts came to, as of `now_ms`, in their order.

    `lags`: those beside the episodes', in order, noted from the first change of members on. Of a rollout whose first
    are missing (an agent started meanwhile) they say nothing: the peak may be among those.
    """
    out: list[Rollout] = []
    for number, episode in enumerate(episodes):
        is_last = number + 1 == len(episodes)
        is_over = not is_last or now_ms - episode.last_change_ms > P.gap_ms
        until_ms = now_ms if is_last else episodes[number + 1].began_ms
        before = out[-1].revision_to if out else None
        beside = [it for it in lags if episode.began_ms <= it.at_ms <= until_ms]
        if beside and beside[0].at_ms - episode.began_ms > 1_000 * P.least_lag_s:
            beside = []
        out.append(_measure(episode, before, until_ms, beside, group_type, is_over=is_over))
    return out


def _measure(
    episode: Episode,
    revision_before: str | None,
    until_ms: int,
    lags_beside: Sequence[LagNote],
    group_type: str,
    *,
    is_over: bool,
) -> Rollout:
    loops = [it for it in episode.places if len(it.restarts_ms) >= P.crash_restarts]
    ended_ms = episode.replaced_ms if episode.replaced_ms is not None else episode.last_change_ms
    rest_from_ms = max([ended_ms, *(it.restarts_ms[-1] for it in loops)])
    is_through = episode.is_complete or is_over
    steady_ms = _steady_ms(episode, rest_from_ms, until_ms, P.settle_ms) if is_through else None
    is_empty = steady_ms is None and is_through and episode.members_after == 0
    if steady_ms is not None:
        state = RolloutState.STEADY
    elif is_over or (not is_empty and until_ms - rest_from_ms > P.unsteady_ms):
        state = RolloutState.UNSTEADY
    else:
        state = RolloutState.RUNNING
    last_ms = until_ms if steady_ms is None else steady_ms
    done = [it for it in episode.disturbances if it.is_rebalance and it.at_ms <= last_ms]
    known = [it.stopped_ms for it in done if it.stopped_ms is not None]
    lags = [it for it in (*episode.lags, *lags_beside) if it.at_ms <= last_ms + LAG_AFTER_MS]
    return Rollout(
        state=state,
        is_stopped=is_empty and is_over,
        by_kubernetes=episode.is_by_kubernetes,
        workload=episode.workload,
        revision_from=episode.revision_from or (revision_before if revision_before != episode.revision else None),
        revision_to=episode.revision,
        began_ms=episode.began_ms,
        ended_ms=ended_ms,
        over_ms=episode.last_change_ms + P.gap_ms,
        steady_ms=steady_ms,
        members_before=episode.members_before,
        members_after=episode.members_after,
        members_replaced=episode.replaced,
        is_complete=episode.is_complete,
        rebalances=len(done),
        last_rebalance_ms=max((it.at_ms for it in done), default=None),
        never_completed=sum(it.never_completed for it in done),
        # Without a rebalance no partition stopped for one.
        stopped_partition_ms=sum(known) if known or not done else None,
        rebalances_of_unknown_cost=len(done) - len(known),
        was_empty=any(not it.members for it in done),
        lag_peak_records=max((it.records for it in lags if it.records is not None), default=None),
        lag_peak_s=max((it.seconds for it in lags if it.seconds is not None), default=None),
        lag_peak_at_least=any(it.at_least for it in lags),
        departures=dict(Counter(it.cause for it in episode.departures).most_common()),
        unclean_ends=sum(_is_unclean(it, group_type) for it in episode.departures),
        errors=_errors(episode),
        crash_loops=len(loops),
        partitions=episode.partitions,
        imbalance_before=episode.imbalance_before,
        imbalance_after=episode.imbalance_after,
    )


def _steady_ms(episode: Episode, from_ms: int, until_ms: int, settle_ms: int) -> int | None:
    """When the group came to rest: its first rebalance since then that none follows for `settle_ms`."""
    times = [it for it in episode.disturbances if it.at_ms >= from_ms]
    # Records may be late, so there may be none; then nothing follows either.
    for it, following_ms in zip(times, [*(it.at_ms for it in times[1:]), until_ms], strict=False):
        if following_ms - it.at_ms >= settle_ms:
            return it.at_ms if it.members else None
    return None


def _is_unclean(gone: RolloutDeparture, group_type: str) -> bool:
    """Whether it ended without a goodbye: its partitions waited for a timeout. Kafka Streams says one in its own
    groups (KIP-1071) alone."""
    if _is_killed_at_stop(gone.origin):
        return True
    says_goodbye = group_type == GroupType.STREAMS or library_named(gone.member.library).leaves_on_close
    return gone.cause in map(str, TIMEOUT_CAUSES) and says_goodbye


def _is_killed_at_stop(origin: Origin | None) -> bool:
    return (
        origin is not None and origin.get("kind") == OriginKind.ROLLED_OUT and origin.get("exit_code") == SIGKILL_EXIT
    )


def _errors(episode: Episode) -> dict[str, int]:
    """What went wrong by what Kubernetes tells: with new members; with old ones only how they were stopped."""
    found: Counter[str] = Counter()
    for gone in episode.departures:
        origin = gone.origin
        if origin is None:
            continue
        kind, code = origin.get("kind"), origin.get("exit_code")
        if _is_killed_at_stop(origin):
            found[KILLED_AT_STOP] += 1
        elif gone.is_new and (
            kind in (OriginKind.OOM_KILLED, OriginKind.LIVENESS_KILLED, OriginKind.EVICTED)
            or (kind == OriginKind.EXITED and code is not None and code not in CLEAN_EXITS)
        ):
            found[str(kind)] += 1
    return dict(found)
