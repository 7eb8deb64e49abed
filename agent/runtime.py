"""The running agent: one thread reads the topic into the mirror, others ask.

Owns the loop, the lock between reading and asking, and what the agent says of its own health. A batch is applied
under the lock (some milliseconds); whoever asks holds it for one partition at a time, so neither waits long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from agent.diagnosis.cluster import NOTHING, Chosen
from agent.diagnosis.engine import Failure, Output
from agent.export.pipeline import Exports
from agent.exported import Exported
from agent.forms import describe_form, group_form
from agent.history.events import Event, event_of
from agent.keeping import INTERVAL_S, Keeper, OpenStore
from agent.lag.ends import NOTHING_KNOWN, Ends
from agent.lag.once import lag_of
from agent.lag.scraped import ScrapedLags, Taken
from agent.lag.sums import lowest, totals
from agent.lag.watch import LagWatch, Wanted
from agent.metrics.collect import Groups, cluster_findings
from agent.metrics.readings import Granularity, Readings, SinkReading, SnapshotReading
from agent.observer.observer import Observer
from agent.passing import Passing
from agent.sampling import Sampler
from agent.shadow.told import Witness, Witnesses
from agent.shadow.transitions import Transition
from agent.shadow.views import GroupView
from agent.source.progress import Notice, OffsetReset, TopicRecreated
from agent.source.shared import SharedTopicReader
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
"""Records to the end of a partition: with fewer, what is known of it is as of now."""

STOP_S = 13.0
"""For all of a stop: what does not come to its end by then is left."""

POLL_S = 0.5
"""How long one poll waits: the longest that a stop takes to be noticed."""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the agent is ready, and why not."""

    ready: bool
    reason: str


class Sharing(NamedTuple):
    """The group of replicas that share the partitions out, and this one's name in it (None: none that lasts)."""

    group: str
    instance_id: str | None = None


class Agent:
    """Follows the topic until stopped."""

    def __init__(
        self,
        conf: Mapping[str, str],
        *,
        cluster: str | None = None,
        partitions: Collection[int] | Callable[[int], bool] | None = None,
        sharing: Sharing | None = None,
        groups: Collection[str] | None = None,
        is_shown: Callable[[str], bool] = lambda group: True,
        observe: Callable[[list[Output]], None] | None = None,
        witness: Witness | None = None,
        observer: Observer | None = None,
        chosen: Chosen = NOTHING,
        exports: Exports | None = None,
        lag_interval_s: float | None = None,
        shows_topic: Callable[[str], bool] = lambda topic: True,
        granularity: Granularity = Granularity.TOPIC,
        open_store: OpenStore | None = None,
        scope: str = "",
        snapshot_interval_s: float = INTERVAL_S,
        sample_interval_s: float | None = None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """`cluster` is its name in events. `partitions` to read (all unless told; a rule holds for those to come), or
        `sharing` with other replicas. `groups` to show (every one found there unless told), of which `is_shown` tells
        again which; it may change its mind.

        `witness` may know more of a rebalance than the topic; it is asked in the reader's thread. So may `observer`,
        which is at work from when the topic's end was reached until the agent stops. `chosen` analyzers run along.

        `observe` is called in the reader's thread with what each run changed, once the topic's end was reached.
        With `lag_interval_s` the ends of the groups' partitions are asked for that often; `shows_topic` tells of
        which topics anything is shown, `granularity` how finely metrics tell of groups.

        Events go to `exports`, which is started and stopped here; so do samples of all groups, each
        `sample_interval_s` (None: never). The state is kept across restarts in what
        `open_store` opens; `scope` names the partitions that are read, if they are some of them. `wall_s` is the
        clock on the wall, which may jump.
        """
        self.cluster = cluster
        self._observe = observe
        self._only = None if groups is None else frozenset(groups)
        self.is_shown = is_shown
        self._observer = observer
        witnesses = [it for it in (witness, observer) if it is not None]
        self.state = ClusterState(
            chosen,
            witness=Witnesses(witnesses) if witnesses else None,
            shows=self.shows,
            on_failure=self._on_failure,
            cluster=cluster,
        )
        self.lock = threading.Lock()
        """Held for whatever is read from or done to the state."""
        self.exports = exports
        self.exported = Exported()
        self._keeper = (
            None
            if open_store is None
            else Keeper(
                open_store,
                self.state,
                self.lock,
                self.exported,
                exports,
                is_current=self._is_current,
                scope=scope if sharing is None else None,
                interval_s=snapshot_interval_s,
            )
        )
        starts = None if self._keeper is None else self._keeper.starts
        self._reader: TopicReader
        if sharing is None:
            self._reader = TopicReader(conf, partitions=partitions, start=starts)
        else:
            self._reader = SharedTopicReader(
                conf, group=sharing.group, instance_id=sharing.instance_id, owner=self, start=starts
            )
        self._shows_topic = shows_topic
        self._lags = ScrapedLags(self._ends, lambda topic: self._shows_topic(topic))
        self.granularity = granularity
        self._told = self._groups_told()
        self.lag = None if lag_interval_s is None else LagWatch(conf, self._wanted, lag_interval_s)
        """What watches the ends of the groups' partitions, if anything does."""
        self.sampler = (
            None
            if exports is None
            else Sampler(
                self.state,
                self.lock,
                self._lags,
                exports,
                cluster=cluster,
                shows=self.shows,
                is_current=lambda: self.ready().ready,
                interval_s=sample_interval_s,
            )
        )
        """What puts samples of groups among the events, if there are any."""
        self._stop = threading.Event()
        self.has_caught_up = False
        self._failure: BaseException | None = None
        self._advance_at = 0.0
        self._passing, self._wall_s = Passing(), wall_s
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)

    def start(self, timeout_s: float = 10.0) -> None:
        """Connect, then read in a thread. Raises what `TopicReader.connect` raises."""
        self._reader.connect(timeout_s)
        if self.exports is not None:
            self.exports.start()
        if self._keeper is not None:
            self._keeper.start()
        self._thread.start()

    def _is_current(self, partition: int) -> bool:
        return self._reader.healthy and self._reader.behind_records.get(partition, MOST_BEHIND) < MOST_BEHIND

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Stop reading, make safe what is known and what happened, and let go of the connections."""
        deadline = time.monotonic() + timeout_s
        self._stop.set()
        if self._observer is not None:
            self._observer.stop()
        if self.lag is not None:
            self.lag.stop()
        if self.sampler is not None:
            self.sampler.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_s / 3)
        # Partitions that are shared are given up here, and kept once more before.
        self._reader.close()
        if self._keeper is not None:
            self._keeper.stop(max(1.0, (deadline - time.monotonic()) / 2))
        if self.exports is not None:
            self.exports.stop(max(1.0, deadline - time.monotonic()))

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
            self._passing.read(run.timestamps_ms[-1])
            if self.has_caught_up:
                self._passing.arrived(run.timestamps_ms[-1], time.monotonic())
            with self.lock:
                outputs = self.state.replay_run(run)
                rejects = self.state.take_rejects(run.partition)
                self._export(outputs)
                self.exported.passed(run.partition, self.state.position(run.partition))
            self._tell(outputs)
            if self._observer is not None:
                self._observer.moved(it.group for it in outputs if isinstance(it, Transition))
            for reject in rejects:
                at = reject.at
                log.warning(
                    "partition %d offset %d: %s: %s", at.partition, at.offset, reject.error.kind, reject.error
                )
            self._wait_for_sinks()
        for notice in self._reader.take_notices():
            self._heed(notice)
        if not self.has_caught_up and self._reader.caught_up:
            self.has_caught_up = True
            log.info("caught up: %d groups", sum(len(it.groups) for it in self.state.mirror.partitions.values()))
            if self._observer is not None:
                self._observer.start(self)
            if self.lag is not None:
                self.lag.start()
            if self.sampler is not None:
                self.sampler.start()
        self._let_time_pass()

    def _heed(self, notice: Notice) -> None:
        """News that what was mirrored is not what the log holds."""
        log.warning("%s", notice)
        match notice:
            case OffsetReset(partition=partition):
                # It may be gone from the log: begin that partition anew, without telling again what was told.
                with self.lock:
                    self.exported.learn(partition, self.state.position(partition))
                    self.state.forget(partition)
            case TopicRecreated():
                with self.lock:
                    self.exported.forget()
                    for partition in list(self.state.partitions):
                        self.state.forget(partition)

    def given_up(self, partitions: Collection[int], *, lost: bool) -> None:
        """As `agent.source.shared.Owner`."""
        log.info("partitions %s are another replica's%s", sorted(partitions), " (lost)" if lost else "")
        if self._keeper is not None:
            self._keeper.given_up(partitions, lost=lost)
        with self.lock:
            for partition in partitions:
                self.state.forget(partition)
            self.exported.forget(partitions)

    def _export(self, outputs: list[Output]) -> None:
        """Hand on what happened. The caller holds the lock: so what the state has told, the exports have."""
        if self.exports is not None and outputs:
            self.exports.put([event_of(it, self.cluster) for it in self.exported.fresh(outputs)])

    def _wait_for_sinks(self) -> None:
        """The log can wait, and a history of years comes faster than sinks take it: so it does not fill the spool."""
        while self.exports is not None and not self.has_caught_up and self.exports.is_crowded:
            if self._stop.wait(0.05):
                return

    def _let_time_pass(self) -> None:
        """Where nothing is written, what is due comes by the time that passes, as far as all is known to be read.

        Not being told of anything to read is not to know it: a broker that is silent, a network that is cut or an
        open transaction may hold back what was written long before.
        """
        now_s = time.monotonic()
        if not self.has_caught_up or now_s < self._advance_at:
            return
        self._advance_at = now_s + ADVANCE_S
        # What was asked a moment ago is as good as now: that is less than the grace.
        read = [number for number, until_s in self._reader.read_until_s.items() if now_s - until_s < GRACE_S / 2]
        if not read:
            return
        now_ms = self._passing.now_ms(now_s, round(self._wall_s() * 1000))
        if now_ms is None:
            return
        with self.lock:
            outputs = self.state.advance(now_ms - round(GRACE_S * 1000), read)
            self._export(outputs)
        self._tell(outputs)

    def _tell(self, outputs: list[Output]) -> None:
        if self._observe is not None and outputs and self.has_caught_up:
            self._observe(outputs)

    def _on_failure(self, failure: Failure) -> None:
        log.error("%s; it is off for that group", failure, exc_info=failure.__cause__)

    def shows(self, group: str) -> bool:
        """Whether a group of this name is asked for."""
        return (self._only is None or group in self._only) and self.is_shown(group)

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
        if not self._is_sure:
            return Health(False, "no word from the brokers for long: other replicas may have these partitions now")
        return Health(True, "; ".join(["caught up", *self._worries()]))

    @property
    def _is_sure(self) -> bool:
        """Whether what this agent reads is no other replica's by now."""
        return not isinstance(self._reader, SharedTopicReader) or self._reader.is_sure

    def _worries(self) -> Iterator[str]:
        """What is not as it should be, while answers are whole and fresh all the same."""
        if self.exports is not None and (backing_up := self.exports.health()) is not None:
            yield backing_up
        if self._keeper is not None and (failing := self._keeper.reading().error) is not None:
            yield f"snapshots fail: {failing}"

    def status(self) -> dict[str, object]:
        """How it goes, for people and scripts: where each partition is, what is kept, what goes where."""
        reached, behind = self._reader.caught_up_partitions, self._reader.behind_records
        with self.lock:
            clocks = {number: self.state.position(number).clock_ms for number in self.state.partitions}
        kept = None if self._keeper is None else self._keeper.reading()
        log_id = self._reader.log_id
        return {
            "cluster_id": None if log_id is None else log_id.cluster_id,
            "topic_id": None if log_id is None else log_id.topic_id,
            "partitions": {
                str(number): {
                    "next_offset": position,
                    "behind_records": behind.get(number),
                    "caught_up": reached.get(number, False),
                    "clock_ms": clocks.get(number),
                }
                for number, position in sorted(self._reader.positions.items())
            },
            "snapshots": None if kept is None else kept._asdict(),
            "history": None if self.exports is None else [asdict(reading) for reading in self.exports.readings()],
            "worries": [*self._worries()],
        }

    def groups(self) -> list[dict[str, object]]:
        """Every group's row, by name."""
        lags = self._lag_totals()
        views = sorted(self._views(), key=lambda view: view.group)
        return [group_form(view, lags.get(view.group)) for view in views]

    def describe(self, group: str) -> dict[str, object] | None:
        """One group in full, or None."""
        if not self.shows(group):
            return None
        with self.lock:
            found = self.state.mirror.find(group)
        if found is None:
            return None
        view, offsets = found
        shown = tuple(it for it in offsets if self._shows_topic(it.topic))
        ends = None if self.lag is None else lag_of(self.lag.snapshot(), time.time_ns() // 1_000_000)
        return describe_form(view, shown, ends)

    def places(self) -> dict[str, int]:
        """The groups that are shown, and the partition each is in."""
        with self.lock:
            partitions = list(self.state.mirror.partitions.values())
        out: dict[str, int] = {}
        for mirror in partitions:
            with self.lock:
                out.update((group, mirror.partition) for group in mirror.groups if self.shows(group))
        return out

    def view(self, group: str) -> GroupView | None:
        """One group that is shown, or None."""
        if not self.shows(group):
            return None
        with self.lock:
            return self.state.mirror.view(group)

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
        with self.lock:
            kept, complete_since_ms = self.state.recent.timeline(group)
            known = self.state.mirror.find(group) is not None
        events = list(kept)
        return (within(events, since_ms, until_ms), complete_since_ms) if events or known else None

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Event]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""
        with self.lock:
            kept = self.state.recent.findings(group)
        return findings.asked_for(kept, since_ms, until_ms)

    def event_totals(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Rebalances and departures of each group since the log begins, whatever their cause."""
        with self.lock:
            return self.state.counts.totals()

    def readings(self) -> Readings:
        """What a scrape needs."""
        caught_up = self.has_caught_up and self._reader.caught_up and self._is_sure
        with self.lock:
            readings = Readings(
                caught_up=self._reader.caught_up_partitions,
                behind_records=self._reader.behind_records,
                healthy=self._reader.healthy,
                record_counts=self.state.mirror.record_counts(),
                error_counts=self.state.mirror.error_counts(),
                findings=cluster_findings(self.state) if caught_up else (),
            )
        if caught_up:
            readings.groups = self._told.read()
        if self._observer is not None:
            readings.observed = self._observer.observed()
        if self._keeper is not None:
            kept = self._keeper.reading()
            readings.snapshots = SnapshotReading(kept.oldest_age_s, kept.writes, kept.refused)
        if self.exports is not None:
            readings.history = {
                it.name: SinkReading(it.events, it.buffered, sum(it.dropped.values()), it.oldest_age_s)
                for it in self.exports.readings()
            }
        if self.lag is not None:
            readings.lag_requests = self.lag.readings().requests
        if isinstance(self._reader, SharedTopicReader):
            readings.partitions_owned = len(self._reader.positions)
        return readings

    def change_granularity(self, granularity: Granularity) -> None:
        """From the next scrape on, tell groups that finely."""
        if granularity is not self.granularity:
            self.granularity = granularity
            self._told = self._groups_told()

    def _groups_told(self) -> Groups:
        return Groups(self.state, self.lock, granularity=self.granularity, lags=self._lags, shows=self.shows)

    def _ends(self) -> Ends:
        return NOTHING_KNOWN if self.lag is None else self.lag.snapshot()

    def _taken(self) -> Iterator[Taken]:
        """What all groups have committed, a partition at a time."""
        with self.lock:
            mirrors = list(self.state.mirror.partitions.values())
        for mirror in mirrors:
            with self.lock:
                yield self._lags.take(mirror.partition, mirror.offsets)

    def _wanted(self) -> Wanted:
        found = lowest([it.positions for it in self._taken()])
        return {topic: partitions for topic, partitions in found.items() if self._shows_topic(topic)}

    def _lag_totals(self) -> Mapping[str, int]:
        return totals(it for taken in self._taken() for it in taken.topics()) if self.lag is not None else {}

    def _views(self) -> list[GroupView]:
        with self.lock:
            names = self.state.mirror.topic_names()
            partitions = list(self.state.mirror.partitions.values())
        views: list[GroupView] = []
        for mirror in partitions:
            with self.lock:
                views += (view for view in mirror.views(names) if self.shows(view.group))
        return views
