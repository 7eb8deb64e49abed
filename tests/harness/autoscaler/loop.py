"""The closed loop: lag makes the autoscaler scale, scaling makes rebalances, rebalances make lag.

Lag is a balance: what is produced, less what running members consume while no rebalance stops their partitions. How
long partitions are stopped is the simulation's, of the members that came and went so far. The autoscaler is a
HorizontalPodAutoscaler over KEDA's lag (`ceil(lag / lagThreshold)`, no scaling within a tenth of the target).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.simulation.generator.seeded_random import SeededRandom
from agent.simulation.groups.script import BrokerSettings, ClientSettings, Close, Script, Start, Step
from agent.simulation.groups.simulate import simulate

GROUP, TOPIC, PARTITIONS = "payments", "orders", 24
START_MS = 1_795_000_000_000
SYNC_MS = 15_000
"""How often a HorizontalPodAutoscaler looks (`--horizontal-pod-autoscaler-sync-period`)."""
POD_START_MS = 20_000
"""Until a new pod's consumer joins."""
BEGIN_MS = 120_000
"""The group begins, and has settled, before anything is counted."""
TOLERANCE = 0.1
"""Within so much of the target it does not scale (`--horizontal-pod-autoscaler-tolerance`)."""
SETTLED_MS = 60_000
"""So long after a step the group has long settled: no partition is stopped any more."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """Settings of a ScaledObject: `lagThreshold`, replicas, `scaleDown.stabilizationWindowSeconds`; and the clients'
    assignors."""

    lag_threshold: int
    least: int
    most: int
    stabilization_s: int
    assignors: tuple[str, ...] = ("range",)


@dataclass(slots=True)
class Outcome:
    """What came of an hour or so: rebalances, lag at each look, members at each look, the script that was played."""

    rebalances: int
    stopped_partition_ms: int
    lags: list[float]
    members: list[int]
    script: Script

    def lag_percentile(self, share: float) -> float:
        """The lag that is not exceeded in that share of the looks, in records."""
        found = sorted(self.lags)
        return found[min(len(found) - 1, math.ceil(share * len(found)) - 1)]

    @property
    def mean_members(self) -> float:
        """How many pods ran."""
        return sum(self.members) / len(self.members)


@dataclass(slots=True)
class _Pods:
    """Which members run: a StatefulSet's, so the last ordinal goes first. Steps are in order of time."""

    settings: ClientSettings
    random: SeededRandom
    running: int = 0
    steps: list[Step] = field(default_factory=list)

    def scale(self, to: int, at_ms: int) -> None:
        for number in range(self.running, to):
            starts_ms = at_ms + POD_START_MS + self.random.integer(0, 4_000)
            self.steps.append(Start(starts_ms, f"{GROUP}-{number}", _named(self.settings, number)))
        for number in range(to, self.running):
            # Ends are never before their starts.
            self.steps.append(Close(max(at_ms, self._started_ms(number)) + 1_000, f"{GROUP}-{number}"))
        self.running = to
        self.steps.sort(key=lambda it: it.at_ms)

    def _started_ms(self, number: int) -> int:
        name = f"{GROUP}-{number}"
        return max(it.at_ms for it in self.steps if isinstance(it, Start) and it.client == name)

    def there(self, at_ms: int) -> int:
        """How many consume at a time."""
        last: dict[str, Step] = {}
        for it in self.steps:
            if isinstance(it, Start | Close) and it.at_ms <= at_ms:
                last[it.client] = it
        return sum(isinstance(it, Start) for it in last.values())


def _named(settings: ClientSettings, number: int) -> ClientSettings:
    return ClientSettings(
        f"{GROUP}-{number}",
        settings.topics,
        client_host=f"/10.0.0.{number + 1}",
        assignors=settings.assignors,
        rejoin_delay_ms=settings.rejoin_delay_ms + 37 * number % 300,
    )


def play(scaler: Autoscaler, seed: int, minutes: int = 40) -> Outcome:
    """The group under that autoscaler, with the load of a seed: a level that changes slowly, and noise."""
    random = SeededRandom("autoscaler", seed)
    per_member = random.integer(80, 120)
    level = per_member * random.integer(35, 55) / 10
    # How long a member works on its batch before it polls again, and so how long a rebalance waits for it.
    settings = ClientSettings(
        "", frozenset({TOPIC}), assignors=scaler.assignors, rejoin_delay_ms=random.integer(2_000, 6_000)
    )
    pods = _Pods(settings, random)
    begun = max(scaler.least, math.ceil(level / per_member))
    pods.scale(begun, START_MS - POD_START_MS)
    end_ms = START_MS + BEGIN_MS + 60_000 * minutes
    lag, stopped_before = 0.0, _stopped(pods.steps, START_MS + BEGIN_MS, seed)
    out = Outcome(0, 0, [], [], Script(GROUP, {TOPIC: PARTITIONS}, (), end_ms))
    wanted: deque[tuple[int, int]] = deque()
    before_first = stopped_before
    load = level
    for at_ms in range(START_MS + BEGIN_MS, end_ms, SYNC_MS):
        now_ms = at_ms + SYNC_MS
        load += (level - load) / 8 + level * random.integer(-60, 60) / 1_000
        stopped = stopped_before
        if any(at_ms - SETTLED_MS <= it.at_ms <= now_ms for it in pods.steps):
            stopped = _stopped(pods.steps, now_ms, seed)
        share = max(0.0, 1 - (stopped - stopped_before) / (PARTITIONS * SYNC_MS))
        stopped_before = stopped
        lag = max(0.0, lag + (load - pods.there(now_ms) * per_member * share) * SYNC_MS / 1_000)
        out.lags.append(lag)
        out.members.append(pods.there(now_ms))
        _autoscale(pods, scaler, lag, now_ms, wanted)
    script = _script(pods.steps, end_ms, seed)
    result = simulate(script)
    out.rebalances = sum(it.began_ms >= START_MS + BEGIN_MS for it in result.rebalances)
    out.stopped_partition_ms = sum(result.stopped) - before_first
    out.script = script
    return out


def _autoscale(pods: _Pods, scaler: Autoscaler, lag: float, now_ms: int, wanted: deque[tuple[int, int]]) -> None:
    ratio = lag / (scaler.lag_threshold * pods.running)
    desired = pods.running if abs(ratio - 1) <= TOLERANCE else math.ceil(lag / scaler.lag_threshold)
    desired = min(max(desired, scaler.least), scaler.most)
    wanted.append((now_ms, desired))
    while wanted[0][0] < now_ms - 1_000 * scaler.stabilization_s:
        wanted.popleft()
    # Down only to the most that was wanted within the window.
    to = desired if desired >= pods.running else min(pods.running, max(it for _, it in wanted))
    if to != pods.running:
        pods.scale(to, now_ms)


def _script(steps: Sequence[Step], until_ms: int, seed: int) -> Script:
    kept = tuple(it for it in steps if it.at_ms < until_ms)
    return Script(
        GROUP, {TOPIC: PARTITIONS}, kept, until_ms, BrokerSettings(replication_ms=2), latency_ms=2, seed=seed
    )


def _stopped(steps: Sequence[Step], until_ms: int, seed: int) -> int:
    """Partition-milliseconds in which partitions were stopped, by then."""
    return sum(simulate(_script(steps, until_ms, seed)).stopped)
