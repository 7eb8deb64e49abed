"""Connect's incremental cooperative assignor (KIP-415), with what the leader remembers between rounds.

Work that was assigned and that no worker holds is *lost*: its worker has gone. It stays unassigned for the scheduled
rebalance delay, so that a worker that restarts finds it; then workers that were idle meanwhile get it, or
all share it. What a worker has too much of is revoked in one round and assigned in the next; a second round of
revocations in a row waits, ever longer.

After `IncrementalCooperativeAssignor` of Kafka 4.3, and held to its answers
(`tests/unit/simulation/groups/test_connect.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from agent.core.protocol.assignors.problem import java_sort_key
from agent.core.protocol.hashing import hash_map_order
from agent.simulation.groups.connect import (
    DEFAULT_MAX_DELAY_MS,
    NOTHING,
    ConnectAssignmentProblem,
    ConnectAssignments,
    ConnectWork,
    WorkerAssignment,
    config_mismatch,
)

_BACKOFF_BASE = 40


class _WorkerLoads:
    """What each worker is to hold behind this round, as it is being made up: its connectors, and its tasks."""

    def __init__(self, held: Mapping[str, ConnectWork]) -> None:
        self.workers = held.keys()
        self._kinds = [{worker: list(work[kind]) for worker, work in held.items()} for kind in range(2)]

    def of(self, worker: str) -> ConnectWork:
        return ConnectWork._make(tuple(loads[worker]) for loads in self._kinds)

    def all(self) -> ConnectWork:
        return NOTHING.union(*map(self.of, self.workers))

    def idle(self) -> list[str]:
        return [worker for worker in self.workers if not self.of(worker)]

    def take(self, revoked: Mapping[str, ConnectWork]) -> None:
        for worker, work in revoked.items():
            for loads, left in zip(self._kinds, self.of(worker).difference(work), strict=True):
                loads[worker] = list(left)

    def give_in_turn(self, workers: Sequence[str], work: ConnectWork) -> None:
        """One to each of the workers in turn, whatever they hold."""
        for loads, units in zip(self._kinds, work, strict=True):
            for worker, unit in zip(cycle(workers), units, strict=False):
                loads[worker].append(unit)

    def give_to_least(self, work: ConnectWork) -> None:
        """Each to the worker that holds least of its kind."""
        for loads, units in zip(self._kinds, work, strict=True):
            _level(loads, units)

    def beyond_fair(self, configured: ConnectWork) -> dict[str, ConnectWork]:
        """What each worker holds beyond an even share of all that is configured."""
        if not configured:
            return {}  # a worker may run what another leader deleted; this one does not know it for deleted
        beyond = [_beyond_fair(loads, len(units)) for loads, units in zip(self._kinds, configured, strict=True)]
        return {
            worker: ConnectWork._make(tuple(kind.get(worker, ())) for kind in beyond)
            for worker in {**beyond[0], **beyond[1]}
        }


class IncrementalAssignor:
    """The assignor of one worker; it has memory only while that worker leads.

    A worker that has just come to lead knows of nothing lost: what no worker holds is new to it, and assigned at
    once.
    `scheduled_ms` is when a delay ends, None without one; `delay_ms` the delay that the latest round announced.
    """

    def __init__(self, max_delay_ms: int = DEFAULT_MAX_DELAY_MS) -> None:
        self.max_delay_ms = max_delay_ms
        self.scheduled_ms: int | None = None
        self.delay_ms = 0
        self._generation = -1
        self._workers: frozenset[str] = frozenset()
        self._assigned = NOTHING  # behind the previous round, lost work with it
        self._revoked = NOTHING  # in the previous round
        self._candidates: dict[str, None] = {}
        self._revoking = False
        self._revoking_again = 0

    def assign(self, problem: ConnectAssignmentProblem, now_ms: int) -> ConnectAssignments:
        """One round. Where it cannot agree on a configuration, all get an error and nothing is remembered."""
        config = problem.agreed()
        if config is None:
            return config_mismatch(problem)
        held = {worker: problem.members[worker].work for worker in hash_map_order(problem.members)}
        revoked, loads = self._share(held, config.work(), problem, now_ms)
        url = problem.members[problem.leader].url
        return {
            worker: WorkerAssignment(
                problem.leader,
                url,
                config.offset,
                loads.of(worker).difference(work),
                revoked.get(worker, NOTHING),
                self.delay_ms,
            )
            for worker, work in held.items()
        }

    def _share(
        self, held: Mapping[str, ConnectWork], configured: ConnectWork, problem: ConnectAssignmentProblem, now_ms: int
    ) -> tuple[dict[str, ConnectWork], _WorkerLoads]:
        active = NOTHING.union(*held.values())
        self._recall(problem.last_generation, active)
        deleted = self._assigned.difference(configured)
        lost = self._assigned.difference(active, deleted).in_name_order()
        created = configured.difference(self._assigned, active)

        to_stop = deleted.union(_held_twice(held.values()))
        revoked = {worker: work.intersection(to_stop) for worker, work in held.items()}
        loads = _WorkerLoads(held)
        loads.take(revoked)

        to_assign = created.union(self._settle_lost(lost, loads, now_ms))
        for worker, work in self._balance(configured, loads, now_ms).items():
            revoked[worker] = revoked[worker].union(work)
        loads.take(revoked)
        loads.give_to_least(to_assign)

        self._revoked = NOTHING.union(*revoked.values())
        self._assigned = loads.all().difference(self._revoked).union(lost)
        self._generation = problem.generation
        self._workers = frozenset(held)
        return revoked, loads

    def _recall(self, last_generation: int, active: ConnectWork) -> None:
        """Drop what is no longer to be believed of the previous round."""
        if self._generation != last_generation:
            # The previous round did not reach this worker, or another has led since.
            self._assigned = NOTHING
        if self._revoked.intersection(active):
            # Somebody has not stopped what was revoked: go by what is.
            self._assigned = active

    def _settle_lost(self, lost: ConnectWork, loads: _WorkerLoads, now_ms: int) -> ConnectWork:
        """What of the lost work is to be assigned like new work; the rest waits, or went to who was idle."""
        if not lost and not self._revoking:
            self._end_delay()
            return NOTHING
        nobody_left = self.scheduled_ms is None and self._workers <= loads.workers
        if nobody_left or self.max_delay_ms == 0:
            # An assignment did not reach its worker; or delays are switched off.
            return lost
        if self.scheduled_ms is None or now_ms < self.scheduled_ms:
            self._delay(loads, now_ms)
            return NOTHING
        candidates = [worker for worker in self._candidates if worker in loads.workers]
        self._end_delay()
        self._revoking = False
        if not candidates:
            return lost
        loads.give_in_turn(candidates, lost)
        return NOTHING

    def _delay(self, loads: _WorkerLoads, now_ms: int) -> None:
        """Begin a delay, or go on with one. Who is idle meanwhile may be a worker that has come back."""
        self._candidates |= dict.fromkeys(hash_map_order(loads.idle()))
        if self.scheduled_ms is None:
            self.scheduled_ms = now_ms + self.max_delay_ms
        self.delay_ms = self.scheduled_ms - now_ms

    def _end_delay(self) -> None:
        self._candidates = {}
        self.scheduled_ms = None
        self.delay_ms = 0

    def _balance(self, configured: ConnectWork, loads: _WorkerLoads, now_ms: int) -> dict[str, ConnectWork]:
        """What to revoke for balance: nothing during a delay, nor (but for a wait) twice in a row."""
        if self.delay_ms:
            self._revoking = False
            return {}
        excess = loads.beyond_fair(configured)
        if not excess:
            if self._revoking:
                self._revoking = False
                self._revoking_again = 0
            return {}
        if not self._revoking:
            self._revoking = True
            return excess
        self._revoking_again += 1
        self.delay_ms = self._backoff_ms(self._revoking_again)
        if not self.delay_ms:
            return excess
        self.scheduled_ms = now_ms + self.delay_ms
        return {}

    def _backoff_ms(self, times: int) -> int:
        """40 ms, 1.6 s, 64 s, then the longest delay."""
        if self.max_delay_ms <= 1:
            return self.max_delay_ms
        power = min(times, math.log(self.max_delay_ms) / math.log(_BACKOFF_BASE))
        return min(int(_BACKOFF_BASE**power), self.max_delay_ms)


def _held_twice(held: Iterable[ConnectWork]) -> ConnectWork:
    seen = twice = NOTHING
    for work in held:
        twice = twice.union(work.intersection(seen))
        seen = seen.union(work)
    return twice


def _level(loads: Mapping[str, list[Any]], units: Sequence[Any]) -> None:
    order = sorted(loads, key=lambda worker: (len(loads[worker]), java_sort_key(worker)))
    for unit in units:
        least = min(order, key=lambda worker: len(loads[worker]))  # the first of those that hold least
        loads[least].append(unit)


def _beyond_fair(loads: Mapping[str, list[Any]], total: int) -> dict[str, list[Any]]:
    """The first workers that hold more than the even share may keep one more each, while there are such."""
    fair, extras = divmod(total, len(loads))
    beyond = {}
    for worker, units in loads.items():
        if len(units) <= fair:
            continue
        keeps = fair + (extras > 0)
        extras -= extras > 0
        if len(units) > keeps:
            beyond[worker] = units[: len(units) - keeps]
    return beyond
