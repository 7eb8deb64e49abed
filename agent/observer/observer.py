"""The observer at work: one thread, and a process that asks.

Owns when something is asked. Nothing waits for it: the reader's thread leaves notes and takes what is there, a scrape
reads counts, a stop waits a second at most. Should it fail, the agent goes on without.

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

from agent.metrics.readings import Observed
from agent.observer.agenda import Rate
from agent.observer.asking import Answer, Asker, Outcome, Refusal
from agent.observer.child import clock_ms
from agent.observer.comparing import Comparer, Mirrored
from agent.observer.divergence import Described
from agent.observer.pace import Every, Pauses
from agent.observer.sightings import Sightings
from agent.shadow.told import Told

log = logging.getLogger("kshadow")

GROUPS_PER_S = 20.0
"""Descriptions a second: 2,000 groups in 100 s, for up to 60 small requests a second over all brokers."""
SWEEP_S = 0.25
"""Between two sweeps. A join phase's beginning is known to half of it, and one that is longer is not missed."""
SWEEP_REST = 4.0
"""Times as long as a sweep took there is none: what is slow for the brokers is asked for less often."""
DESCRIBE_S = 0.25
LIST_S, LIST_AGAIN_S = 60.0, 5.0
"""Between two lists, and where one showed something new about the groups that the mirror has not."""
LEADERS_S, KNOW_S = 30.0, 1.0
"""How often the leaders of the topic's partitions are looked up, and which groups the mirror has."""
RETRY_S = 5.0
"""After a list, a sweep or a look-up of leaders that failed."""
RENEW_S = 20.0
"""After so long without an answer the process is started anew: librdkafka 2.16's client may wait for a connection
that never comes again once a broker was restarted."""
NOBODY = -1
"""Leads a partition that has no leader."""
PROCESS = -2
"""Whose pauses are those between two starts of the process: no broker's."""
TICK_S = 0.05
"""The shortest rest of the thread: what is due within it is done together."""
STOP_S = 1.0


class Observer:
    """Started by the agent once it has caught up, stopped with it. A witness (`agent.shadow.told`) all the time."""

    def __init__(self, conf: Mapping[str, str], *, groups_per_s: float = GROUPS_PER_S) -> None:
        """`conf`: librdkafka properties."""
        self._conf = dict(conf)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._asker: Asker | None = None
        self._sightings = Sightings()
        self._rate = Rate(groups_per_s)
        self._pauses = Pauses()
        self._leaders: dict[int, int] = {}
        self._moved: set[str] = set()
        self._moved_lock = threading.Lock()
        self._outcomes = Counter(dict.fromkeys(Outcome, 0))
        self._rebalancing: dict[str, int] = {}
        self._said: set[Outcome] = set()
        # Questions under way, by number; descriptions with the broker that is asked.
        self._sweep: int | None = None
        self._list: int | None = None
        self._looking_up: int | None = None
        self._describing: dict[int, int] = {}
        self._restarts = Pauses()
        self._know, self._look_up = Every(KNOW_S), Every(LEADERS_S)
        self._sweeps, self._lists, self._descriptions = Every(SWEEP_S), Every(LIST_S), Every(DESCRIBE_S)
        self._answered_at = 0.0
        self._comparer: Comparer | None = None

    # What the agent calls. None of it waits.

    def start(self, mirrored: Mirrored) -> None:
        """Begin to ask, in a thread."""
        self._comparer = comparer = Comparer(mirrored)
        self._thread = threading.Thread(target=self._run, args=(comparer,), name="observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more. What is under way is let go; takes `STOP_S` at most."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def change_rate(self, groups_per_s: float) -> None:
        """From now on describe so many groups a second."""
        self._rate.per_s = groups_per_s

    def arrived(self, partition: int, timestamp_ms: int) -> None:
        """Records came, the last of them stamped so, and are about to be replayed."""
        self._sightings.arrived(self._leaders.get(partition, NOBODY), timestamp_ms, clock_ms())

    def moved(self, groups: Iterable[str]) -> None:
        """These groups had a transition."""
        with self._moved_lock:
            self._moved.update(groups)

    def told(self, group: str, generation: int, end_ms: int) -> Told | None:
        """As `agent.shadow.told.Witness`."""
        return self._sightings.told(group, generation, end_ms)

    def observed(self) -> Observed | None:
        """What a scrape exports; None unless the observer is at work."""
        comparer = self._comparer
        if comparer is None or self._thread is None or not self._thread.is_alive():
            return None
        compared = comparer.compared_groups
        return Observed(
            requests={str(outcome): count for outcome, count in self._outcomes.items()},
            compared_groups=compared,
            # Before any group was compared nothing is known, which is not that nothing differs.
            divergences=comparer.counts() if compared else {},
            rebalancing=self._rebalancing,
        )

    # The thread.

    def _run(self, comparer: Comparer) -> None:
        log.info("observing through the Admin API: up to %g groups a second are described", self._rate.per_s)
        try:
            while not self._stop.is_set():
                self._tick(comparer, time.monotonic())
                self._wake.wait(self._rest_s(time.monotonic()))
                self._wake.clear()
        except Exception:
            log.exception("the observer stopped; the agent goes on without")
        finally:
            if self._asker is not None:
                self._asker.close()

    def _rest_s(self, now: float) -> float:
        """Until the next is due; an answer ends it sooner. With one group, waking up is most of the work."""
        due = (self._know, self._look_up, self._sweeps, self._lists, self._descriptions)
        return max(min(it.left_s(now) for it in due), TICK_S)

    def _tick(self, comparer: Comparer, now: float) -> None:
        asker = self._running(now)
        if asker is None:
            return
        for answer in asker.take():
            self._take(comparer, answer, now)
        with self._moved_lock:
            moved, self._moved = self._moved, set()
        if self._know.due(now):
            comparer.know(now)
        comparer.moved(moved, now)
        if self._looking_up is None and self._look_up.due(now):
            self._looking_up = asker.ask("leaders")
        if not self._leaders:
            # Nor is the topic there, perhaps, and then nothing else would be answered.
            return
        if self._sweep is None and self._sweeps.due(now):
            self._sweep = asker.ask("list_rebalancing")
        if self._list is None and self._lists.due(now):
            self._list = asker.ask("list")
        if self._descriptions.due(now):
            self._describe(comparer, asker, now)

    def _running(self, now: float) -> Asker | None:
        """The process, started anew where it ended or fell silent; None in the pause before."""
        asker = self._asker
        if asker is not None:
            code = asker.exit_code
            if code is None and now - self._answered_at <= RENEW_S:
                return asker
            log.warning(
                "the observer's process %s; another is started",
                f"has had no answer for {RENEW_S:g} s" if code is None else f"ended with exit code {code}",
            )
            asker.close()
            self._asker = None
            self._sweep = self._list = self._looking_up = None
            self._describing.clear()
            self._rebalancing = {}
            self._look_up.again_in(0, now)
            self._restarts.failed(PROCESS, now)
        if PROCESS in self._restarts.waits(now):
            return None
        self._answered_at = now
        self._asker = Asker(self._conf, self._wake.set)
        return self._asker

    def _take(self, comparer: Comparer, it: Answer, now: float) -> None:
        for refusal in it.refusals:
            self._refused(refusal, "a list of groups" if it.number != self._looking_up else "the partitions' leaders")
        if it.number == self._looking_up:
            self._looking_up = None
            if it.refusals:
                self._look_up.again_in(RETRY_S, now)
            else:
                self._leaders, self._answered_at = dict(it.leaders), now
        elif it.number == self._sweep:
            self._sweep = None
            self._take_sweep(comparer, it, now)
        elif it.number == self._list:
            self._list = None
            self._take_list(comparer, it, now)
        elif it.number in self._describing:
            self._take_descriptions(comparer, self._describing.pop(it.number), it.described, now)

    def _take_sweep(self, comparer: Comparer, it: Answer, now: float) -> None:
        groups = comparer.ours(it.groups, len(self._leaders))
        preparing = [group for group, listed in groups.items() if listed.state == "PreparingRebalance"]
        self._sightings.swept(preparing, it.asked_ms, it.answered_ms, whole=not it.refusals)
        comparer.moved(groups, now)
        if it.refusals:
            self._rebalancing = {}
            self._sweeps.again_in(RETRY_S, now)
            return
        self._answered(now)
        states = Counter(listed.state for listed in groups.values())
        self._rebalancing = {state: states[state] for state in ("PreparingRebalance", "CompletingRebalance")}
        self._sweeps.no_sooner_than(SWEEP_REST * (it.answered_ms - it.asked_ms) / 1000, now)

    def _take_list(self, comparer: Comparer, it: Answer, now: float) -> None:
        if it.refusals:
            self._lists.again_in(RETRY_S, now)
            return
        self._answered(now)
        if comparer.listed(it.groups, len(self._leaders), now):
            self._lists.again_in(LIST_AGAIN_S, now)

    def _take_descriptions(
        self, comparer: Comparer, broker: int, described: Mapping[str, Described | Refusal], now: float
    ) -> None:
        failed = False
        for group, answer in described.items():
            if not isinstance(answer, Refusal):
                self._answered(now)
                comparer.described(group, answer, now)
                continue
            self._refused(answer, f"a description of group {group[:200]!r}")
            if answer.outcome in (Outcome.DENIED, Outcome.UNSUPPORTED):
                comparer.leave_alone(group, now)
            else:
                failed = True
        if failed:
            self._pauses.failed(broker, now)
        else:
            self._pauses.answered(broker)

    def _describe(self, comparer: Comparer, asker: Asker, now: float) -> None:
        count = self._rate.take(now)
        if not count:
            return
        # A partition without a leader has nobody to ask, as if its leader were busy.
        busy = self._pauses.waits(now) | set(self._describing.values()) | {NOBODY}
        led = self._leaders
        batches: dict[int, list[str]] = {}
        waiting = {partition for partition, broker in led.items() if broker in busy}
        for group, partition in comparer.next(count, now, waiting).items():
            # A new partition of the topic's may not be known here yet.
            if partition in led:
                batches.setdefault(led[partition], []).append(group)
        for broker, groups in batches.items():
            self._describing[asker.ask("describe", groups)] = broker
            self._rate.spend(len(groups))

    def _answered(self, now: float) -> None:
        self._outcomes[Outcome.ANSWERED] += 1
        self._answered_at = now
        self._restarts.answered(PROCESS)

    def _refused(self, refusal: Refusal, what: str) -> None:
        self._outcomes[refusal.outcome] += 1
        if refusal.outcome in self._said:
            return
        self._said.add(refusal.outcome)
        match refusal.outcome:
            case Outcome.DENIED:
                text = "the observer has no right to %s, ACL operation Describe on the group: %s; others are tried"
            case Outcome.UNSUPPORTED:
                text = "the observer has no answer to %s: %s; others are tried"
            case _:
                text = "the observer has no answer to %s: %s; it goes on trying"
        log.warning(text, what, refusal.reason)
