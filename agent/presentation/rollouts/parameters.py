"""The numbers of the rules for rollouts and their verdicts, each with its unit and its reason."""

from __future__ import annotations

from msgspec import Struct

from agent.common.units import MINUTE_MS


class RolloutParameters(Struct, frozen=True, kw_only=True):
    """Chosen on scripts of the simulation with seeds below 100 (`python -m tests.harness.verdicts`), and told on
    others. Times are milliseconds."""

    gap_ms: int = 10 * MINUTE_MS
    """Longer than this between two changes of members, and the later one belongs to no earlier rollout. As the
    episodes of `kshadow history rollup`; Kubernetes' `progressDeadlineSeconds` is ten minutes, too."""
    replaced_share: float = 0.5
    """More than this share of the members replaced is a rollout where no Kubernetes says so: fewer may be crashes."""
    least_members: int = 2
    """Of a group with fewer a rollout cannot be told from a restart, where no Kubernetes says so."""
    settle_ms: int = 30_000
    """Steady is a group without a rebalance for so long: several times what a round of joins takes (heartbeats come
    each 3 s, a cooperative follow-up within 5 s), and half of the 60 s within which a verdict is to be there."""
    begin_ms: int = 10_000
    """A group that began has all its members if nobody has joined for so long before the first leaves: three times
    the brokers' pause before a group's first rebalance (`group.initial.rebalance.delay.ms`)."""
    unsteady_ms: int = 10 * MINUTE_MS
    """A group that is not steady so long after the last member was replaced did not become steady."""
    crash_restarts: int = 2
    """New members that left one place before it is a crash loop: one may be an accident, or the next rollout."""
    clean_share: float = 0.67
    """Of the departures so soon after a rollout, from this share on with a goodbye they are another rollout: with
    fewer they may be new members of the first that do not hold. Crash loops of the simulation have up to a half."""
    unclean_share: float = 0.2
    """From this share of the departures on, unclean ends are the rollout's: one of five pods that was killed."""
    stopped_factor: float = 2.0
    """Stopped time and lag's peak that differ by less than this factor are the same: of 300 pairs of alike deploys in
    the simulation, with other pauses and moments, stopped time differed by more in three."""
    rebalances_factor: float = 1.5
    """The same for rebalances; those pairs differed by up to 1.33."""
    least_stopped_ms: int = 10_000
    """Partition-milliseconds: less of a difference in stopped time is the same."""
    least_stopped_each_ms: int = 3_000
    """The same for each partition: it waits until the others hear by their heartbeats that its owner left, which
    takes from nothing to `heartbeat.interval.ms` (3 s by default). Those 300 pairs differed by up to 1.7 s."""
    least_rebalances: int = 2
    """A smaller difference in rebalances is the same: which joins share a round is chance."""
    least_lag_s: float = 30.0
    """Seconds: ends of partitions are looked up every 30 s, so a smaller difference in the peak of lag is chance. In
    that time lag grows by no more, so the peak is known where notes begin so soon after the rollout, or sooner."""
    imbalance_growth: float = 0.5
    """Of the largest share of partitions, in fair shares: half a share more than before is a lopsided group."""


PARAMETERS = RolloutParameters()
