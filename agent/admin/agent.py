"""The agent of `--source admin`: asks the brokers group by group, and answers as the one that reads the topic does.

Owns the pace and the lock. The questions go through the observer's process, whose client may abort. Every group in
turn is described and its committed offsets are fetched, so many groups a second; a list each few seconds shows which
there are and in what state. What is told of a group is as old as its last turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from agent.admin.known import Known, description, row
from agent.history.events import Event
from agent.lag.ends import NOTHING_KNOWN, Ends
from agent.lag.once import lag_of
from agent.lag.sums import PartitionLag, Positions, Sums, TopicLag, lags, lowest, partition_lags, totals
from agent.lag.watch import LagReadings, LagWatch
from agent.metrics.readings import GroupReading, Observed, Readings, Shape
from agent.observer.agenda import Agenda, Rate
from agent.observer.asking import Answer, Asker, Outcome, Refusal
from agent.observer.divergence import Listed
from agent.observer.observer import RENEW_S
from agent.observer.pace import Every, Pauses
from agent.runtime import Health
from agent.shadow.views import GroupView
from agent.source.errors import SourceDenied, SourceUnreachable
from analyzers.balance import assignment_imbalance

log = logging.getLogger("kshadow")

GROUPS_PER_S = 20.0
"""Groups that have their turn in a second: 2,000 groups in 100 s, for some 80 small requests a second in all."""
LIST_S, ASK_S, RETRY_S = 10.0, 0.25, 5.0
STALE_S = 60.0
"""After so long without an answer the agent is not ready."""
TICK_S = 0.1
STOP_S = 1.0
PROCESS = 0
"""Whose pauses are those between two starts of the process."""

LOST = (
    "asking the Admin API, as the topic is not read: no history, no causes of rebalances, no findings, no counts of "
    "rebalances, no times of commits"
)
"""What is said at the start, in /readyz and on the page."""


class AdminAgent:
    """`agent.http.Answering` without the topic. Needs Describe on groups and on the topics they commit to."""

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        groups: Collection[str] | None = None,
        is_shown: Callable[[str], bool] = lambda group: True,
        groups_per_s: float = GROUPS_PER_S,
        lag_interval_s: float | None = 30.0,
    ) -> None:
        """`groups` to show (every one unless told), of which `is_shown` tells again which. `lag_interval_s`: how
        often ends are looked at, None for never. Raises `SourceMisconfigured`."""
        self._conf = dict(conf)
        self._only = None if groups is None else frozenset(groups)
        self._is_shown = is_shown
        self._known = Known()
        self._lock = threading.Lock()
        self._sums = Sums()
        self._watch = None if lag_interval_s is None else LagWatch(conf, self._wanted, lag_interval_s)
        self._agenda, self._rate = Agenda(), Rate(groups_per_s)
        self._outcomes = Counter(dict.fromkeys(Outcome, 0))
        self._said: set[Outcome] = set()
        self._asker: Asker | None = None
        self._restarts = Pauses()
        self._lists, self._turns = Every(LIST_S), Every(ASK_S)
        self._list: int | None = None
        self._asking: set[int] = set()
        self._answered_at = 0.0
        self._refusal: Refusal | None = None
        self._has_list = False
        self.has_caught_up = False
        self._failure: BaseException | None = None
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)

    def change_pace(self, groups_per_s: float, lag_interval_s: float) -> None:
        """From now on describe so many groups a second, and look that often where partitions end."""
        self._rate.per_s = groups_per_s
        if self._watch is not None:
            self._watch.change_interval(lag_interval_s)

    def start(self, timeout_s: float = 10.0) -> None:
        """Begin to ask, in a thread, and wait for the first list of groups. Raises `SourceUnreachable`,
        `SourceDenied`."""
        log.warning("%s", LOST)
        self._thread.start()
        deadline = time.monotonic() + timeout_s
        while not self._has_list and time.monotonic() < deadline and self._thread.is_alive():
            time.sleep(TICK_S)
        if not self._has_list:
            refusal = self._refusal
            self.stop()
            what = "asking for a list of groups"
            if refusal is not None and refusal.outcome is Outcome.DENIED:
                raise SourceDenied(f"{what}: {refusal.reason}", right="ACL operation Describe on the groups")
            raise SourceUnreachable(f"{what}: {'no broker answers' if refusal is None else refusal.reason}")
        if self._watch is not None:
            self._watch.start()

    def stop(self) -> None:
        """Ask no more. What is under way is let go."""
        self._stop.set()
        self._wake.set()
        if self._watch is not None:
            self._watch.stop()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._tick(time.monotonic())
                self._wake.wait(TICK_S)
                self._wake.clear()
        except BaseException as error:
            # A dead thread must show in /healthz, whatever killed it.
            self._failure = error
            log.exception("no more questions are asked; the agent is blind")
        finally:
            if self._asker is not None:
                self._asker.close()

    def _tick(self, now: float) -> None:
        asker = self._running(now)
        if asker is None:
            return
        for answer in asker.take():
            self._take(answer, now)
        if self._list is None and self._lists.due(now):
            self._list = asker.ask("list")
        if self._turns.due(now) and len(self._asking) < 8:
            count = self._rate.take(now)
            groups = self._agenda.next(count, now) if count else []
            if groups:
                self._rate.spend(len(groups))
                self._asking |= {asker.ask("detail", groups), asker.ask("offsets", groups)}

    def _running(self, now: float) -> Asker | None:
        """The process, started anew where it ended or fell silent; None in the pause before."""
        asker = self._asker
        if asker is not None:
            if asker.exit_code is None and now - self._answered_at <= RENEW_S:
                return asker
            log.warning("the process that asks the Admin API ended or fell silent; another is started")
            asker.close()
            self._asker = self._list = None
            self._asking.clear()
            self._restarts.failed(PROCESS, now)
        if PROCESS in self._restarts.waits(now):
            return None
        self._answered_at = now
        self._asker = Asker(self._conf, self._wake.set)
        return self._asker

    def _take(self, it: Answer, now: float) -> None:
        for refusal in it.refusals:
            self._refused(refusal, "a list of groups")
        if it.number == self._list:
            self._list = None
            if it.refusals:
                self._lists.again_in(RETRY_S, now)
            if it.groups or not it.refusals:
                self._answered(now)
                self._take_list(it.groups, now, is_whole=not it.refusals)
            return
        self._asking.discard(it.number)
        at_ms = _now_ms()
        for group, detail in it.details.items():
            if isinstance(detail, Refusal):
                self._turn_refused(group, detail, "a description of group", now)
                continue
            self._answered(now)
            with self._lock:
                self._known.detailed(group, detail)
        for group, positions in it.offsets.items():
            if isinstance(positions, Refusal):
                self._turn_refused(group, positions, "the offsets of group", now)
                continue
            self._answered(now)
            with self._lock:
                self._known.fetched(group, positions, at_ms)
        self._has_all()

    def _take_list(self, groups: Mapping[str, Listed], now: float, *, is_whole: bool) -> None:
        shown = {group: it for group, it in groups.items() if self.shows(group)}
        with self._lock:
            moved = self._known.listed(shown, is_whole=is_whole)
            names = list(self._known.groups)
        self._agenda.know(dict.fromkeys(names, 0))
        self._agenda.moved(moved, now)
        self._has_list = True
        self._has_all()

    def _has_all(self) -> None:
        if not self.has_caught_up and self._has_list and not self._known.waiting:
            self.has_caught_up = True
            log.info("every group was asked for once: %d groups", len(self._known.groups))

    def _turn_refused(self, group: str, refusal: Refusal, what: str, now: float) -> None:
        self._refused(refusal, f"{what} {group[:200]!r}")
        if refusal.outcome in (Outcome.DENIED, Outcome.UNSUPPORTED):
            with self._lock:
                self._known.unavailable(group)
            if refusal.outcome is Outcome.DENIED:
                self._agenda.leave_alone(group, now)

    def _answered(self, now: float) -> None:
        self._outcomes[Outcome.ANSWERED] += 1
        self._answered_at = now
        self._refusal = None
        self._restarts.answered(PROCESS)

    def _refused(self, refusal: Refusal, what: str) -> None:
        self._outcomes[refusal.outcome] += 1
        self._refusal = refusal
        if refusal.outcome not in self._said:
            self._said.add(refusal.outcome)
            log.warning("no answer to %s: %s; others are tried", what, refusal.reason)

    # What others ask.

    def shows(self, group: str) -> bool:
        """Whether a group of this name is asked for."""
        return (self._only is None or group in self._only) and self._is_shown(group)

    def alive(self) -> Health:
        """Whether the process does its work at all."""
        if self._failure is not None:
            return Health(False, f"no more questions are asked: {self._failure!r}")
        return Health(True, "asking the Admin API")

    def ready(self) -> Health:
        """Whether answers are whole and fresh."""
        alive = self.alive()
        if not alive.ready:
            return alive
        if not self.has_caught_up:
            return Health(False, f"{self._known.waiting} groups have yet to be asked for; {LOST}")
        silent_s = time.monotonic() - self._answered_at
        if silent_s > STALE_S:
            why = "" if self._refusal is None else f": {self._refusal.reason}"
            return Health(False, f"no answer from the brokers for {silent_s:.0f} s{why}")
        return Health(True, LOST)

    def groups(self) -> list[dict[str, object]]:
        """Every group's row, by name."""
        with self._lock:
            views = self._known.views()
        lag = totals(self.topic_lags())
        return [row(view, lag.get(view.group)) for view in views]

    def describe(self, group: str) -> dict[str, object] | None:
        """One group in full, or None."""
        with self._lock:
            found = self._known.find(group)
        return None if found is None else description(*found, lag_of(self._ends(), _now_ms()))

    def timeline(
        self, group: str, since_ms: int | None = None, until_ms: int | None = None
    ) -> tuple[list[Event], int | None] | None:
        """No events, and that these are all holds from now on only."""
        with self._lock:
            return ([], _now_ms()) if group in self._known.groups else None

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Event]:
        """None are made."""
        return []

    def readings(self) -> Readings:
        """What a scrape needs; of groups nothing before all were asked for."""
        with self._lock:
            views = self._known.views() if self.has_caught_up else []
        topics: dict[str, list[TopicLag]] = {}
        for group, lag in self.topic_lags():
            topics.setdefault(group, []).append(lag)
        groups = [_reading(view, topics.get(view.group, ())) for view in views]
        requests = {str(outcome): count for outcome, count in self._outcomes.items()}
        return Readings(
            caught_up={},
            behind_records={},
            healthy=self.ready().ready,
            record_counts={},
            error_counts={},
            groups=sorted(groups, key=lambda it: it.shape.group),
            observed=Observed(requests=requests, compared_groups=0, divergences={}, rebalancing={}),
        )

    def topic_lags(self) -> Iterator[tuple[str, TopicLag]]:
        """The lag of each group in each topic."""
        return lags(self._positions(), self._ends(), _now_ms())

    def partition_lags(self) -> Iterator[PartitionLag]:
        """The same by partition."""
        return partition_lags(self._positions(), self._ends(), _now_ms())

    def lag_readings(self) -> LagReadings | None:
        """What the watch over the ends says of itself; None without one."""
        return None if self._watch is None else self._watch.readings()

    def _ends(self) -> Ends:
        return NOTHING_KNOWN if self._watch is None else self._watch.snapshot()

    def _positions(self) -> Positions:
        with self._lock:
            return self._sums.take(0, self._known.offsets)

    def _wanted(self) -> dict[str, dict[int, int]]:
        return lowest([self._positions()])


def _reading(view: GroupView, topics: Sequence[TopicLag]) -> GroupReading:
    members = view.members
    shape = Shape(
        view.group,
        str(view.group_type),
        str(view.state),
        view.generation,
        len(members),
        sum(1 for member in members if not member.partitions),
        assignment_imbalance(view),
        view.state_since_ms,
        view.protocol,
    )
    return GroupReading(shape, last_commit_ms=view.last_commit_ms, topics=topics)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
