"""The observer at work: one thread, and a process that asks.

Owns when something is asked. Nothing waits for it: the reader's thread leaves notes and takes what is there, a scrape
reads counts, a stop waits a second at most. While it fails, the agent goes on without.

Three questions, each at its own pace. *Sweeps* ask which groups are rebalancing now, one request to each broker
whatever the number of groups; they time join phases. *Descriptions*, so many groups a second, are what the mirror is
compared with. *Lists* show groups of which the mirror has no record.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from agent.common.pacing import Backoff, Interval
from agent.common.threads import BackgroundThread
from agent.core.inference.external_evidence import EvidenceSource, RebalanceReport
from agent.core.protocol.hashing import GroupPartitioner
from agent.kafka.admin_api.answers import AdminAnswer, AdminOutcome, DescribedGroup, Refusal
from agent.kafka.admin_api.asking import AdminProcess, AdminSession, PeriodicQuestion
from agent.kafka.admin_api.child import monotonic_ms
from agent.kafka.admin_api.comparing import MirrorComparison, MirrorQueries
from agent.kafka.admin_api.describe_scheduler import RateLimiter
from agent.kafka.admin_api.divergence import ObserverReading
from agent.kafka.admin_api.join_phase_observations import JoinPhaseObservations

log = logging.getLogger("kshadow")

GROUPS_PER_S = 20.0
"""Descriptions a second: 2,000 groups in 100 s, for up to 60 small requests a second over all brokers."""
SWEEP_S = 0.25
"""Between two sweeps. A join phase's beginning is known to half of it, and one that is longer is not missed."""
SWEEP_PAUSE_FACTOR = 4.0
"""Times as long as a sweep took there is none: what is slow for the brokers is asked for less often."""
DESCRIBE_S = 0.25
LIST_S, LIST_AGAIN_S = 60.0, 5.0
"""Between two lists, and where one showed something new about the groups that the mirror has not."""
LEADERS_S, GROUPS_S = 30.0, 1.0
"""How often the leaders of the topic's partitions are looked up, and which groups the mirror has."""
RETRY_S = 5.0
"""After a list, a sweep or a look-up of leaders that failed."""
NO_BROKER = -1
"""Leads a partition that has no leader."""
TICK_S = 0.05
"""The shortest rest of the thread: what is due within it is done together."""


class AdminObserver(BackgroundThread, EvidenceSource):
    """At work from `observe`, once the agent has caught up, to `stop`. A witness
    (`agent.core.inference.external_evidence`) all the time."""

    STOP_S = 1.0

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        groups_per_s: float = GROUPS_PER_S,
        partitioner: GroupPartitioner | None = None,
    ) -> None:
        """`conf`: librdkafka properties. `partitioner`: by which hash groups are placed, if that is known."""
        super().__init__("observer")
        self._partitioner = partitioner
        self._wake = threading.Event()
        self._session = AdminSession(conf, self._wake.set, self._on_loss)
        self._join_phases = JoinPhaseObservations()
        self._rate = RateLimiter(groups_per_s)
        self._backoff = Backoff[int]()
        """Of brokers, by id."""
        self._leaders: Mapping[int, int] = {}
        self._moved: set[str] = set()
        self._moved_lock = threading.Lock()
        self._rebalancing: dict[str, int] = {}
        self._look_up = PeriodicQuestion("leaders", LEADERS_S)
        self._sweep = PeriodicQuestion("list_rebalancing", SWEEP_S)
        self._list = PeriodicQuestion("list", LIST_S)
        self._groups_interval, self._describe_interval = Interval(GROUPS_S), Interval(DESCRIBE_S)
        self._describe_requests: dict[int, int] = {}
        """Descriptions under way: by number the broker that is asked."""
        self._comparison: MirrorComparison | None = None

    # What the agent calls. None of it waits.

    def observe(self, mirrored: MirrorQueries) -> None:
        """Begin to ask, in a thread."""
        self._comparison = MirrorComparison(mirrored, self._partitioner)
        self.start()

    def request_stop(self) -> None:
        """Ask no more. What is under way is let go."""
        super().request_stop()
        self._wake.set()

    def change_rate(self, groups_per_s: float) -> None:
        """From now on describe so many groups a second."""
        self._rate.per_s = groups_per_s

    def record_arrived(self, partition: int, timestamp_ms: int) -> None:
        """Records came, the last of them stamped so, and are about to be replayed."""
        self._join_phases.record_arrived(self._leaders.get(partition, NO_BROKER), timestamp_ms, monotonic_ms())

    def groups_changed(self, groups: Iterable[str]) -> None:
        """These groups had a transition."""
        # What moved in the topic's past, which is read before the start, does not come first: that is every group.
        if self._comparison is not None:
            with self._moved_lock:
                self._moved.update(groups)

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """What sweeps saw of a rebalance's join phase, None where nothing: an `EvidenceSource` of the mirror."""
        return self._join_phases.rebalance_report(group, generation, end_ms)

    def readings(self) -> ObserverReading | None:
        """What a scrape exports; None unless the observer is at work."""
        comparer = self._comparison
        if comparer is None or not self._thread.is_alive() or self.failure is not None:
            return None
        compared = comparer.compared_groups
        return ObserverReading(
            requests={str(outcome): count for outcome, count in self._session.outcomes.items()},
            compared_groups=compared,
            # Before any group was compared, while no question for one is answered, and while the topic is not read,
            # nothing is known, which is not that nothing differs.
            divergences=comparer.counts() if compared and comparer.is_at_work else {},
            rebalancing=self._rebalancing,
        )

    # The thread.

    def _run(self) -> None:
        comparer = self._comparison
        assert comparer is not None, "set as it is started"
        log.info("observing through the Admin API: up to %g groups a second are described", self._rate.per_s)
        try:
            while not self._stop.is_set():
                self._tick(comparer, time.monotonic())
                self._wake.wait(self._wait_s(time.monotonic()))
                self._wake.clear()
        finally:
            self._session.close()
            self._on_loss()

    def _wait_s(self, now: float) -> float:
        """Until the next is due; an answer ends it sooner. With one group, waking up is most of the work."""
        questions = (it.interval for it in (self._look_up, self._sweep, self._list))
        due = (self._groups_interval, self._describe_interval, *questions)
        return max(min(it.remaining_s(now) for it in due), TICK_S)

    def _tick(self, comparer: MirrorComparison, now: float) -> None:
        process = self._session.process(now)
        if process is None:
            return
        for answer in process.take_answers():
            self._take(comparer, answer, now)
        with self._moved_lock:
            moved, self._moved = self._moved, set()
        if self._groups_interval.due(now):
            comparer.refresh_groups(now)
        comparer.scheduler.prioritize(moved, now)
        self._look_up.ask(process, now)
        if not self._leaders:
            # Nor is the topic there, perhaps, and then nothing else would be answered.
            return
        self._sweep.ask(process, now)
        self._list.ask(process, now)
        if self._describe_interval.due(now):
            self._describe(comparer, process, now)

    def _on_loss(self) -> None:
        for question in (self._look_up, self._sweep, self._list):
            question.drop()
        self._describe_requests.clear()
        self._backoff = Backoff()
        self._rebalancing = {}
        self._look_up.interval.restart_in(0, time.monotonic())

    def _take(self, comparer: MirrorComparison, it: AdminAnswer, now: float) -> None:
        if self._look_up.take(it):
            self._refused(it.refusals, "the partitions' leaders")
            if it.refusals:
                self._look_up.interval.restart_in(RETRY_S, now)
            else:
                self._leaders, self._session.answered_at = it.leaders, now
            return
        self._refused(it.refusals, "a list of groups")
        if self._sweep.take(it):
            self._take_sweep(comparer, it, now)
        elif self._list.take(it):
            self._take_list(comparer, it, now)
        elif it.number in self._describe_requests:
            self._take_descriptions(comparer, self._describe_requests.pop(it.number), it.descriptions, now)

    def _take_sweep(self, comparer: MirrorComparison, it: AdminAnswer, now: float) -> None:
        groups = comparer.in_mirror(it.groups, len(self._leaders))
        preparing = [group for group, listed in groups.items() if listed.state == "PreparingRebalance"]
        self._join_phases.add_sweep(preparing, it.asked_ms, it.answered_ms, whole=not it.refusals)
        comparer.scheduler.prioritize(groups, now)
        if it.refusals:
            self._session.brokers_away()
            self._rebalancing = {}
            self._sweep.interval.restart_in(RETRY_S, now)
            return
        self._session.answered(now)
        states = Counter(listed.state for listed in groups.values())
        self._rebalancing = {state: states[state] for state in ("PreparingRebalance", "CompletingRebalance")}
        self._sweep.interval.not_before(SWEEP_PAUSE_FACTOR * (it.answered_ms - it.asked_ms) / 1000, now)

    def _take_list(self, comparer: MirrorComparison, it: AdminAnswer, now: float) -> None:
        if it.refusals:
            self._list.interval.restart_in(RETRY_S, now)
            return
        self._session.answered(now)
        if comparer.compare_list(it.groups, len(self._leaders), now):
            self._list.interval.restart_in(LIST_AGAIN_S, now)

    def _take_descriptions(
        self, comparer: MirrorComparison, broker: int, described: Mapping[str, DescribedGroup | Refusal], now: float
    ) -> None:
        failed = timed_out = False
        for group, answer in described.items():
            if not isinstance(answer, Refusal):
                self._session.answered(now)
                comparer.compare_description(group, answer, now)
                continue
            self._refused([answer], f"a description of group {group[:200]!r}")
            comparer.not_answered(group)
            if answer.outcome in (AdminOutcome.DENIED, AdminOutcome.UNSUPPORTED):
                comparer.scheduler.suspend(group, now)
            else:
                failed, timed_out = True, timed_out or answer.outcome is AdminOutcome.TIMED_OUT
        if timed_out:
            self._session.timed_out(broker, now)
        else:
            self._session.heard_of(broker)
        if failed:
            self._backoff.failed(broker, now)
        else:
            self._backoff.succeeded(broker)

    def _describe(self, comparer: MirrorComparison, process: AdminProcess, now: float) -> None:
        count = self._rate.available(now)
        if not count:
            return
        # A partition without a leader has nobody to ask, as if its leader were busy.
        busy = self._backoff.waiting(now) | set(self._describe_requests.values()) | {NO_BROKER}
        led = self._leaders
        batches: dict[int, list[str]] = {}
        waiting = {partition for partition, broker in led.items() if broker in busy}
        for group, partition in comparer.next_groups(count, now, waiting).items():
            # A new partition of the topic's may not be known here yet.
            if partition in led:
                batches.setdefault(led[partition], []).append(group)
        for broker, groups in batches.items():
            self._describe_requests[process.ask("describe", groups)] = broker
            self._rate.spend(len(groups))

    def _refused(self, refusals: Iterable[Refusal], what: str) -> None:
        for refusal in filter(self._session.refused, refusals):
            match refusal.outcome:
                case AdminOutcome.DENIED:
                    text = (
                        "the observer has no right to %s, ACL operation Describe on the group, and on its topics: "
                        "%s; others are tried"
                    )
                case AdminOutcome.UNSUPPORTED:
                    text = "the observer has no answer to %s: %s; others are tried"
                case _:
                    text = "the observer has no answer to %s: %s; it goes on trying"
            log.warning(text, what, refusal.reason)
