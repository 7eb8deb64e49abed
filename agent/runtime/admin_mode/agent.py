"""The agent of `--source admin`: asks the brokers group by group, and answers as the one that reads the topic does.

Owns the pace and the lock. The questions go through the observer's process, whose client may abort. Every group in
turn is described and its committed offsets are fetched, so many groups a second; a list each few seconds shows which
there are and in what state. What is told of a group is as old as its last turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from agent.common import clock
from agent.common.pacing import Interval
from agent.common.threads import BackgroundThread
from agent.config.settings import ClusterSettings
from agent.kafka.admin_api.answers import AdminAnswer, AdminOutcome, ListedGroup, Refusal
from agent.kafka.admin_api.asking import AdminSession, PeriodicQuestion
from agent.kafka.admin_api.describe_scheduler import DescribeScheduler, RateLimiter
from agent.kafka.lag.lag_calculator import lowest_committed
from agent.kafka.lag.watch import LagWatcher
from agent.kafka.source.errors import SourceDenied, SourceUnreachable
from agent.runtime.admin_mode.known import AdminGroups
from agent.runtime.admin_mode.queries import LIMITATIONS, AdminQueries
from agent.runtime.parts import Visibility

log = logging.getLogger("kshadow")

GROUPS_PER_S = 20.0
"""Groups that have their turn in a second: 2,000 groups in 100 s, for some 80 small requests a second in all."""
LIST_S, DESCRIBE_S, RETRY_S = 10.0, 0.25, 5.0
TICK_S = 0.1
MAX_REQUESTS = 8
"""Questions about groups that may be under way."""


class AdminAgent(BackgroundThread):
    """Asks from `start` to `stop`; `queries` answers. Needs Describe on groups and on the topics they commit to."""

    STOP_S = 1.0

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        visibility: Visibility | None = None,
        groups_per_s: float = GROUPS_PER_S,
        lag_interval_s: float | None = 30.0,
    ) -> None:
        """`visibility`: which groups are shown; all unless told. `lag_interval_s`: how often ends are looked at, None
        for never. Raises `SourceMisconfigured`."""
        super().__init__("admin")
        self._visibility = visibility or Visibility()
        self._wake = threading.Event()
        self._session = AdminSession(conf, self._wake.set, self._on_loss)
        self._groups, self._lock = AdminGroups(), threading.Lock()
        self.queries = AdminQueries(self._groups, self._lock, self._session)
        self._lag_watcher = None
        if lag_interval_s is not None:
            self._lag_watcher = LagWatcher(conf, lambda: lowest_committed([self.queries.positions()]), lag_interval_s)
            self.queries.lag_watcher = self._lag_watcher
        self._scheduler, self._rate = DescribeScheduler(), RateLimiter(groups_per_s)
        self._list, self._describe_interval = PeriodicQuestion("list", LIST_S), Interval(DESCRIBE_S)
        self._requests: set[int] = set()
        self._has_list = False

    def change(self, settings: ClusterSettings) -> None:
        """Take what can change while it runs: filters, groups described a second, how often ends are looked at."""
        self._visibility.change(settings.filters)
        self._rate.per_s = settings.admin.groups_per_s
        if self._lag_watcher is not None:
            self._lag_watcher.change_interval(settings.lag.interval_ms / 1000)

    def start(self, timeout_s: float = 10.0) -> None:
        """Begin to ask, in a thread, and wait for the first list of groups. Raises `SourceUnreachable`,
        `SourceDenied`."""
        log.warning("%s", LIMITATIONS)
        super().start()
        deadline = time.monotonic() + timeout_s
        while not self._has_list and time.monotonic() < deadline and self._thread.is_alive():
            time.sleep(TICK_S)
        if not self._has_list:
            refusal = self._session.last_refusal
            self.stop()
            what = "asking for a list of groups"
            if refusal is not None and refusal.outcome is AdminOutcome.DENIED:
                raise SourceDenied(f"{what}: {refusal.reason}", right="ACL operation Describe on the groups")
            raise SourceUnreachable(f"{what}: {'no broker answers' if refusal is None else refusal.reason}")
        if self._lag_watcher is not None:
            self._lag_watcher.start()

    def request_stop(self) -> None:
        """Ask no more. What is under way is let go."""
        super().request_stop()
        self._wake.set()
        if self._lag_watcher is not None:
            self._lag_watcher.stop()

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._tick(time.monotonic())
                self._wake.wait(TICK_S)
                self._wake.clear()
        except BaseException as error:
            # A dead thread must show in /healthz, whatever killed it.
            self.queries.failure = error
            log.exception("no more questions are asked; the agent is blind")
        finally:
            self._session.close()

    def _tick(self, now: float) -> None:
        process = self._session.process(now)
        if process is None:
            return
        for answer in process.take_answers():
            self._take(answer, now)
        self._list.ask(process, now)
        if self._describe_interval.due(now) and len(self._requests) < MAX_REQUESTS:
            count = self._rate.available(now)
            groups = self._scheduler.next_groups(count, now) if count else []
            if groups:
                self._rate.spend(len(groups))
                self._requests |= {process.ask("describe", groups), process.ask("offsets", groups)}

    def _on_loss(self, exit_code: int | None) -> None:
        log.warning("the process that asks the Admin API ended or fell silent; another is started")
        self._list.drop()
        self._requests.clear()

    def _take(self, it: AdminAnswer, now: float) -> None:
        for refusal in it.refusals:
            self._refused(refusal, "a list of groups")
        if self._list.take(it):
            if it.refusals:
                self._list.interval.restart_in(RETRY_S, now)
            if it.groups or not it.refusals:
                self._session.answered(now)
                self._take_list(it.groups, now, is_whole=not it.refusals)
            return
        self._requests.discard(it.number)
        at_ms = clock.now_ms()
        for group, detail in it.descriptions.items():
            if isinstance(detail, Refusal):
                self._group_refused(group, detail, "a description of group", now)
                continue
            self._session.answered(now)
            with self._lock:
                self._groups.update_description(group, detail)
        for group, offsets in it.offsets.items():
            if isinstance(offsets, Refusal):
                self._group_refused(group, offsets, "the offsets of group", now)
                continue
            self._session.answered(now)
            with self._lock:
                self._groups.update_offsets(group, offsets.positions, at_ms)
        self._has_all()

    def _take_list(self, groups: Mapping[str, ListedGroup], now: float, *, is_whole: bool) -> None:
        shown = {group: it for group, it in groups.items() if self._visibility.shows_group(group)}
        with self._lock:
            moved = self._groups.update_list(shown, is_whole=is_whole)
            names = list(self._groups.groups)
        self._scheduler.set_groups(dict.fromkeys(names, 0))
        self._scheduler.prioritize(moved, now)
        self._has_list = True
        self._has_all()

    def _has_all(self) -> None:
        if not self.queries.has_caught_up and self._has_list and not self._groups.pending:
            self.queries.has_caught_up = True
            log.info("every group was asked for once: %d groups", len(self._groups.groups))

    def _group_refused(self, group: str, refusal: Refusal, what: str, now: float) -> None:
        self._refused(refusal, f"{what} {group[:200]!r}")
        if refusal.outcome in (AdminOutcome.DENIED, AdminOutcome.UNSUPPORTED):
            with self._lock:
                self._groups.mark_unavailable(group)
            if refusal.outcome is AdminOutcome.DENIED:
                self._scheduler.suspend(group, now)

    def _refused(self, refusal: Refusal, what: str) -> None:
        if self._session.refused(refusal):
            log.warning("no answer to %s: %s; others are tried", what, refusal.reason)
