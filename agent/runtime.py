"""The running agent: one thread reads the topic into the mirror, others ask.

Owns the loop, the lock between reading and asking, and what the agent says of its own health. A batch is applied
under the lock (some milliseconds); whoever asks holds it for one partition at a time, so neither waits long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from agent.diagnosis.cluster import NOTHING, Chosen
from agent.diagnosis.engine import Failure, Output
from agent.forms import describe_form, group_form
from agent.history.events import Event
from agent.metrics.collect import Groups, cluster_findings
from agent.metrics.readings import Readings
from agent.observer.observer import Observer
from agent.shadow.told import Witness, Witnesses
from agent.shadow.transitions import Transition
from agent.shadow.views import GroupView
from agent.source.progress import OffsetReset
from agent.source.topic import TopicReader
from agent.state import ClusterState
from agent.story import findings
from agent.story.reading import within

log = logging.getLogger("kshadow")

ADVANCE_S = 1.0
"""How often time passes for partitions that nothing is written to."""

GRACE_S = 5.0
"""How far event time stays behind the clock on the wall then: records on their way, brokers' clocks."""

MOST_BEHIND = 10_000
"""With more records than that to read, some may be older than the grace: then they alone move the clock."""

POLL_S = 0.5
"""How long one poll waits: the longest that a stop takes to be noticed."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the agent is ready, and why not."""

    ready: bool
    reason: str


class Agent:
    """Follows the topic until stopped."""

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        partitions: Collection[int] | None = None,
        groups: Collection[str] | None = None,
        observe: Callable[[list[Output]], None] | None = None,
        witness: Witness | None = None,
        observer: Observer | None = None,
        chosen: Chosen = NOTHING,
    ) -> None:
        """`partitions` to read (all unless told) and `groups` to show (every one found there unless told).

        `witness` may know more of a rebalance than the topic; it is asked in the reader's thread. So may `observer`,
        which is at work from when the topic's end was reached until the agent stops. `chosen` analyzers run along.

        `observe` is called in the reader's thread with what each run changed, once the topic's end was reached.
        """
        self._observe = observe
        self._only = None if groups is None else frozenset(groups)
        self._reader = TopicReader(conf, partitions=partitions)
        self._observer = observer
        witnesses = [it for it in (witness, observer) if it is not None]
        self._state = ClusterState(
            chosen,
            witness=Witnesses(witnesses) if witnesses else None,
            shows=self.shows,
            on_failure=self._on_failure,
        )
        self._lock = threading.Lock()
        self._groups = Groups(self._state, self._lock, shows=self.shows)
        self._stop = threading.Event()
        self.has_caught_up = False
        self._failure: BaseException | None = None
        self._advance_at = 0.0
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)

    def start(self, timeout_s: float = 10.0) -> None:
        """Connect, then read in a thread. Raises what `TopicReader.connect` raises."""
        self._reader.connect(timeout_s)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and let go of the connections."""
        self._stop.set()
        if self._observer is not None:
            self._observer.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._reader.close()

    def _read(self) -> None:
        try:
            while not self._stop.is_set():
                self._step()
        except BaseException as error:
            # A dead reader must show in /healthz, whatever killed it.
            self._failure = error
            log.exception("the reader stopped; the agent is blind")

    def _step(self) -> None:
        runs = self._reader.poll(POLL_S)
        for run in runs:
            if self._observer is not None:
                self._observer.arrived(run.partition, run.timestamps_ms[-1])
            with self._lock:
                outputs = self._state.replay_run(run)
                rejects = self._state.take_rejects(run.partition)
            self._tell(outputs)
            if self._observer is not None:
                self._observer.moved(it.group for it in outputs if isinstance(it, Transition))
            for reject in rejects:
                at = reject.at
                log.warning(
                    "partition %d offset %d: %s: %s", at.partition, at.offset, reject.error.kind, reject.error
                )
        for notice in self._reader.take_notices():
            log.warning("%s", notice)
            if isinstance(notice, OffsetReset):
                # What was mirrored may be gone from the log: begin that partition anew.
                with self._lock:
                    self._state.forget(notice.partition)
        if not self.has_caught_up and self._reader.caught_up:
            self.has_caught_up = True
            log.info("caught up: %d groups", sum(len(it.groups) for it in self._state.mirror.partitions.values()))
            if self._observer is not None:
                self._observer.start(self)

        self._let_time_pass()

    def _let_time_pass(self) -> None:
        """Where nothing is written, what is due comes by the clock on the wall, while nothing can be on its way."""
        now = time.monotonic()
        if not (self.has_caught_up and self._reader.healthy) or now < self._advance_at:
            return
        self._advance_at = now + ADVANCE_S
        if sum(self._reader.behind_records.values()) > MOST_BEHIND:
            return
        with self._lock:
            outputs = self._state.advance(round((time.time() - GRACE_S) * 1000))
        self._tell(outputs)

    def _tell(self, outputs: list[Output]) -> None:
        if self._observe is not None and outputs and self.has_caught_up:
            self._observe(outputs)

    def _on_failure(self, failure: Failure) -> None:
        log.error("%s; it is off for that group", failure, exc_info=failure.__cause__)

    def shows(self, group: str) -> bool:
        """Whether a group of this name is asked for."""
        return self._only is None or group in self._only

    # What others ask.

    def alive(self) -> Health:
        """Whether the process does its work at all: a restart would help if not."""
        if self._failure is not None:
            return Health(False, f"the reader stopped: {self._failure!r}")
        return Health(True, "reading")

    def ready(self) -> Health:
        """Whether answers are whole and fresh."""
        alive = self.alive()
        if not alive.ready:
            return alive
        # The reader is there before the mirror is: the batch that got it there has yet to be applied.
        if not (self.has_caught_up and self._reader.caught_up):
            behind = sum(self._reader.behind_records.values())
            return Health(False, f"catching up with the topic's end: {behind} records to go")
        if not self._reader.healthy:
            return Health(False, f"reading has stopped: {self._reader.last_error}")
        return Health(True, "caught up")

    def groups(self) -> list[dict[str, object]]:
        """Every group's row, by name."""
        return [group_form(view) for view in sorted(self._views(), key=lambda view: view.group)]

    def describe(self, group: str) -> dict[str, object] | None:
        """One group in full, or None."""
        if not self.shows(group):
            return None
        with self._lock:
            found = self._state.mirror.find(group)
        return None if found is None else describe_form(*found)

    def places(self) -> dict[str, int]:
        """The groups that are shown, and the partition each is in."""
        with self._lock:
            partitions = list(self._state.mirror.partitions.values())
        out: dict[str, int] = {}
        for mirror in partitions:
            with self._lock:
                out.update((group, mirror.partition) for group in mirror.groups if self.shows(group))
        return out

    def view(self, group: str) -> GroupView | None:
        """One group that is shown, or None."""
        if not self.shows(group):
            return None
        with self._lock:
            return self._state.mirror.view(group)

    def reads(self) -> Collection[int]:
        """The partitions of the topic that are read."""
        return self._reader.positions

    def behind(self) -> Mapping[int, int]:
        """For each partition that is read how many offsets its end lies ahead, as far as is known."""
        return self._reader.behind_records if self._reader.healthy else {}

    def timeline(
        self, group: str, since_ms: int | None = None, until_ms: int | None = None
    ) -> tuple[list[Event], int | None] | None:
        """One group's events of a range (bounds included), and from when on these are all: None if from the log's
        beginning. None instead of both if there is no such group and nothing is remembered of one."""
        if not self.shows(group):
            return None
        with self._lock:
            kept, complete_since_ms = self._state.recent.timeline(group)
            known = self._state.mirror.find(group) is not None
        events = list(kept)
        return (within(events, since_ms, until_ms), complete_since_ms) if events or known else None

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Event]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""
        with self._lock:
            kept = self._state.recent.findings(group)
        return findings.asked_for(kept, since_ms, until_ms)

    def event_totals(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Rebalances and departures of each group since the log begins, whatever their cause."""
        with self._lock:
            return self._state.counts.totals()

    def readings(self) -> Readings:
        """What a scrape needs."""
        caught_up = self.has_caught_up and self._reader.caught_up
        with self._lock:
            readings = Readings(
                caught_up=self._reader.caught_up_partitions,
                behind_records=self._reader.behind_records,
                healthy=self._reader.healthy,
                record_counts=self._state.mirror.record_counts(),
                error_counts=self._state.mirror.error_counts(),
                findings=cluster_findings(self._state) if caught_up else (),
            )
        if caught_up:
            readings.groups = self._groups.read()
        if self._observer is not None:
            readings.observed = self._observer.observed()
        return readings

    def _views(self) -> list[GroupView]:
        with self._lock:
            names = self._state.mirror.topic_names()
            partitions = list(self._state.mirror.partitions.values())
        views: list[GroupView] = []
        for mirror in partitions:
            with self._lock:
                views += (view for view in mirror.views(names) if self.shows(view.group))
        return views
