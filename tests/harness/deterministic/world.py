"""One run: an agent, all around it, and what is seen of it, by a seed.

Owns what stands in for what, the lives of the agent's process, and what each fault does. What is right is said by
`truth`.
"""

from __future__ import annotations

import errno
import gc
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import msgspec

from agent.common import pacing
from agent.config.settings import PLAIN_CLUSTER, ClusterSettings, ReadSettings, SnapshotSettings
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.events.events import Event
from agent.core.shadow import mirror as mirror_module
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import LogPosition
from agent.kafka.admin_api import session_settings
from agent.kafka.source import identity, open_transactions, topic
from agent.kafka.source.errors import SourceError
from agent.persistence.cluster_state import ReplayPosition
from agent.persistence.export import sink_worker, spool
from agent.persistence.export.buffer import EventBuffer
from agent.persistence.export.errors import ExportError, PositionRefused
from agent.persistence.export.history_position import PartitionLog as PartitionLogId
from agent.persistence.export.history_position import decode_position
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import BatchLimits
from agent.persistence.snapshot import directory_store, envelope, image_codec
from agent.persistence.snapshot.image_codec import _Version
from agent.persistence.snapshot.migrations import FORMAT
from agent.persistence.snapshot.store import StoreError
from agent.presentation.json_views import describe_json
from agent.runtime import reader_loop, transaction_watch
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.serving.metrics.exporter import Exporter, MetricsSource
from analyzers.registry import select_analyzers
from tests.harness.deterministic import faults, workload
from tests.harness.deterministic.cluster import AdminClient, Cluster, Consumer, Cut, Move, PartitionLog, Span
from tests.harness.deterministic.disk import Disk, Files
from tests.harness.deterministic.faults import Fault, Kind
from tests.harness.deterministic.scheduler import STEADY_S, Scheduler, Task
from tests.harness.deterministic.sinks import ClockedSink, SimulatedSink, Store
from tests.harness.deterministic.workload import START_MS, Workload

FRESH_S = 30.0
"""How long a record may be unknown to an agent that calls itself ready: brokers that fall silent are noticed by the
end of a poll (10 s here) and a probe."""

STALLED_S = 110.0
"""The same where fetches get nothing though brokers answer: two probes tell that, 30 s apart, after the first 30."""

SETTLES_S = 150.0
"""After the last record and fault: for what is under way to come to its end."""

IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Plan:
    """A run, all of it: the same plan gives the same trace."""

    seed: int
    log: Workload
    faults: tuple[Fault, ...]

    @classmethod
    def of(cls, seed: int) -> Plan:
        """A seed's."""
        log = workload.choose(seed)
        return cls(seed, log, tuple(faults.choose(seed, log.partitions)))


@dataclass(slots=True)
class Knobs:
    """What differs between runs though nothing is wrong: settings of the agent, and numbers of its code."""

    begins_s: float
    """When the agent starts, after the first record."""
    snapshot_s: float
    poll_s: float
    batch_records: int
    memory_bytes: int
    has_spool: bool
    has_snapshots: bool
    looks_s: float
    """How often it is asked."""
    preempted: float
    """How often a thread is made to wait where it could go on."""
    large_group: int
    """From which size on a group's records are worked out aside."""
    shares: bool = False
    """Whether it shares the topic with other agents, which take partitions at times."""

    @classmethod
    def of(cls, seed: int) -> Knobs:
        """A seed's."""
        rng = random.Random(f"knobs {seed}")
        return cls(
            begins_s=rng.choice((0.0, rng.uniform(1, 1800))),
            snapshot_s=rng.choice((30.0, 120.0, 300.0, 300.0)),
            poll_s=rng.choice((0.5, 2.0, 2.0, 5.0, 5.0, 5.0, *[10.0] * 4)),
            batch_records=rng.choice((3, 20, 2500)),
            memory_bytes=rng.choice((20_000, 64 * 1024 * 1024)),
            has_spool=rng.random() < 0.8,
            has_snapshots=rng.random() < 0.9,
            looks_s=rng.choice((60.0, 200.0, 400.0)),
            preempted=rng.choice((0.01, 0.05, 0.3)),
            large_group=rng.choice((-1, 5, 500)),
            shares=faults.shares(seed),
        )


class Process:
    """One life of the agent."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tasks: list[Task] = []
        self.agent: Agent | None = None
        self.connected_s = 0.0
        self.is_stopping = False
        self.exporter: Exporter | None = None
        self.counters: dict[str, float] = {}
        """As they were read last."""


@dataclass(slots=True)
class Look:
    """What was answered at one moment, of one partition as far as it was read."""

    life: int
    at_s: float
    partition: int
    next_offset: int
    groups: dict[str, bytes]
    """Each group's members and positions, as it was described."""


@dataclass(slots=True)
class Seen:
    """What a run left for `truth` to judge."""

    failures: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    lives: int = 0
    crashes: int = 0
    interruptions: int = 0
    """Lives after which events may be told once more."""
    ready: int = 0
    asked: int = 0
    final: dict[int, dict[str, bytes]] = field(default_factory=dict)
    """How groups stood at the end, by partition."""
    clocks: dict[int, int] = field(default_factory=dict)
    """Up to when time has passed at the end, by partition, epoch milliseconds."""


class World:
    """Everything of one run."""

    def __init__(
        self,
        plan: Plan,
        root: Path,
        say: Callable[[str], None] | None = None,
        *,
        knobs: Knobs | None = None,
        logs: Mapping[int, PartitionLog] | None = None,
    ) -> None:
        self.plan, self.knobs = plan, knobs or Knobs.of(plan.seed)
        self.scheduler = Scheduler(str(plan.seed), start_s=START_MS / 1000)
        self.scheduler.say, self.scheduler.preempted = say, self.knobs.preempted
        self._right_offset_s = self.scheduler.wall_offset_s
        self.logs = workload.make(plan.log, STEADY_S) if logs is None else logs
        self.cluster = Cluster(self.scheduler, self.logs)
        self.disk = Disk(root, random.Random(f"disk {plan.seed}"), self._on_wait)
        self.disk.fails = self._disk_fails
        self.stores = [Store("topic"), Store("parquet")]
        self.seen = Seen()
        self.ends_s = STEADY_S + plan.log.duration_ms / 1000
        self._full: list[tuple[str, Span]] = []
        self._process: Process | None = None
        self._armed: tuple[int, Fault] | None = None
        self._is_over = False
        self._is_later_release = False

    # The run.

    def run(self) -> Seen:
        """Play it to its end."""
        scheduler = self.scheduler
        with self._patched():
            scheduler.spawn(self._faults, "faults")
            scheduler.spawn(self._lives, "lives")
            scheduler.run(lambda: self._is_over)
            if self._process is not None:
                scheduler.kill(self._process, self._process.tasks)
        return self.seen

    def fail(self, what: str) -> None:
        """Something is not as it should be."""
        self.scheduler.note(f"FAILED: {what}")
        if len(self.seen.failures) < 20:
            self.seen.failures.append(f"{self.scheduler.now_s - STEADY_S:.3f} s: {what}")

    @contextmanager
    def _patched(self) -> Iterator[None]:
        def owner() -> Process:
            task = self.scheduler.current
            owner = None if task is None else task.owner
            assert isinstance(owner, Process), "threads are the agent's"
            return owner

        batching = self.knobs.batch_records
        with ExitStack() as stack:
            stack.enter_context(self.scheduler.in_place_of_threads(owner))
            for module, name, value in (
                (topic, "new_consumer", lambda conf, logger: Consumer(self.cluster, conf)),
                (open_transactions, "new_consumer", lambda conf: Consumer(self.cluster, conf)),
                (transaction_watch, "LOOK_S", max(1.0, self.knobs.poll_s)),
                (topic, "BATCH_RECORDS", batching),
                (identity, "new_admin_client", lambda conf: AdminClient(self.cluster)),
                (session_settings, "_admin_client", lambda conf: AdminClient(self.cluster)),
                (directory_store, "os", self.disk.os_of_store()),
                (spool, "sqlite3", self.disk.sqlite()),
                (sink_worker, "os", self.disk.os_of_sinks()),
                # Who shares the topic takes a pause of seconds for a sign that the others have its partitions.
                (reader_loop, "POLL_S", min(self.knobs.poll_s, 5.0) if self.knobs.shares else self.knobs.poll_s),
                # Nor is a pause a standstill, which an agent that asks twice a second tells from it by its length.
                (pacing, "STOOD_STILL_S", max(pacing.STOOD_STILL_S, self.knobs.poll_s + 1)),
                (mirror_module, "LARGE_BYTES", self.knobs.large_group),
                (mirror_module, "LARGE_GROUP", self.knobs.large_group),
                (EventBuffer.__init__, "__kwdefaults__", {"clock": self.scheduler.monotonic}),
                # Of each release as it starts.
                (envelope, "FORMAT", FORMAT),
            ):
                stack.enter_context(patch.object(module, name, value))
            stack.enter_context(self._logged())
            yield

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """The agent's log: told where steps are, and what it says of its own faults fails the run."""
        logger = logging.getLogger("kshadow")
        before = logger.level, logger.propagate, logger.handlers
        handler = _Handler(self)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if self.scheduler.say is not None else logging.ERROR)
        try:
            yield
        finally:
            logger.level, logger.propagate, logger.handlers = before
            logger.setLevel(before[0])

    # The lives of the process.

    def _lives(self) -> None:
        scheduler = self.scheduler
        scheduler.sleep(self.knobs.begins_s)
        self._start()
        last_s = max([self.ends_s, *(STEADY_S + it.at_s + it.lasts_s for it in self.plan.faults)])
        scheduler.sleep(last_s - scheduler.now_s)
        self._arm(None)
        scheduler.sleep(SETTLES_S)
        self._check_whole()
        self._stop_process(lambda: self._finish())

    def _check_whole(self) -> None:
        """With nothing wrong for minutes the agent has read all, and says so."""
        agent = None if self._process is None else self._process.agent
        if agent is None:
            self.fail("the agent does not start")
            return
        health = agent.queries.ready()
        if not health.ready:
            self.fail(f"not ready after {SETTLES_S} s with nothing wrong: {health.reason}")
        for number, log in self.logs.items():
            last = next(log.given_before(log.end), None)
            position = agent.state.position(number).next_offset
            if last is not None and position <= last.offset:
                self.fail(f"partition {number} was read to {position}, expected {last.offset + 1}")
            mirror = agent.state.mirror.partition(number)
            self.seen.final[number] = {it: described(mirror, it) for it in mirror.groups}

    def _finish(self) -> None:
        self._is_over = True

    def _start(self) -> None:
        # After half a minute without a record of now an agent that has just started believes its wall: as is meant.
        self.scheduler.wall_offset_s = self._right_offset_s
        envelope.FORMAT = FORMAT + self._is_later_release
        process = self._process = Process(self.seen.lives)
        self.seen.lives += 1
        self.scheduler.note(f"process {process.number} starts")
        task = self.scheduler.spawn(lambda: self._main(process), f"main-{process.number}", process)
        process.tasks.append(task)

    def _main(self, process: Process) -> None:
        """As `kshadow run`: make the agent, start it, and answer until the end."""
        try:
            agent = Agent(self._options())
            process.connected_s = self.scheduler.now_s
            agent.start()
            process.agent = agent
        except (SourceError, ExportError, StoreError) as error:
            self.scheduler.note(f"process {process.number} ends: {error}")
            self.scheduler.after_step.append(lambda: self._crash(machine=False, away_s=5.0))
            self.scheduler.wait()
            return
        while not process.is_stopping:
            self.scheduler.sleep(self.knobs.looks_s * (0.5 + self.scheduler.random.random()))
            if not process.is_stopping:
                self._look(process, agent)

    def _options(self) -> AgentOptions:
        knobs, directory = self.knobs, self.disk.directory
        settings: ClusterSettings = replace(
            PLAIN_CLUSTER,
            bootstrap_server="simulated:9092",
            snapshots=SnapshotSettings(interval_ms=round(knobs.snapshot_s * 1000)),
            read=ReadSettings(share_group="agents" if knobs.shares else None),
        )
        sinks = [
            SimulatedSink(self.stores[0], self.scheduler, BatchLimits(100, 1_000_000, 0)),
            ClockedSink(self.stores[1], self.scheduler, BatchLimits(50, 1_000_000, 30.0)),
        ]
        exports = ExportPipeline(
            sinks,
            spool=SpoolSettings(directory, "simulated") if knobs.has_spool else None,
            memory_bytes=knobs.memory_bytes if knobs.has_spool else 64 * 1024 * 1024,
        )
        exports.put = self._checked_put(exports)  # type: ignore[assignment, method-assign]

        def opened(cluster_id: str) -> directory_store.DirectoryStore:
            return directory_store.DirectoryStore(directory / "snapshots")

        return AgentOptions(
            conf=settings.conf,
            settings=settings,
            analyzers=all_analyzers(),
            exports=exports,
            open_store=opened if knobs.has_snapshots else None,
            wall_s=self.scheduler.wall_s,
        )

    def _checked_put(self, exports: ExportPipeline) -> Callable[[Sequence[Event]], None]:
        """What is put, unless it was safe by what is on the disk: that must not be told again."""
        put, buffers = exports.put, [it._buffer for it in exports._workers]
        safe: dict[int, ReplayPosition] = {}
        for number in self.logs:
            path = self.disk.directory / "snapshots" / f"history-parquet.topic-{number}.snapshot"
            if path.exists():
                log = PartitionLogId(self.cluster.cluster_id, self.cluster.topic_id, number)
                with suppress(PositionRefused):
                    safe[number] = decode_position(path.read_bytes(), log)

        def checked(events: Sequence[Event]) -> None:
            for event in events:
                at = LogPosition(event["partition"], event["offset"], event["at_ms"])
                if event["group"] is not None and at.partition in safe and safe[at.partition].includes(at):
                    self.fail(f"told again: {event['event_id']}, position {safe[at.partition]}")
            before = [it.dropped["full"] for it in buffers]
            put(events)
            for store, count, buffer in zip(self.stores, before, buffers, strict=True):
                if buffer.dropped["full"] > count:
                    store.dropped.update(it["event_id"] for it in events)

        return checked

    def _stop_process(self, then: Callable[[], None]) -> None:
        """Stop the agent as a signal does, and go on once its process has ended."""
        process = self._process
        if process is None or process.agent is None or process.is_stopping:
            self.scheduler.after_step.append(lambda: self._crash(machine=False, away_s=1.0, then=then))
            return
        process.is_stopping = True
        agent = process.agent
        state = agent.state

        def stop() -> None:
            self.scheduler.note(f"process {process.number} is stopped")
            agent.stop()
            self.scheduler.note(f"process {process.number} has stopped")
            self.scheduler.after_step.append(ended)
            self.scheduler.wait()

        def ended() -> None:
            self._process = None
            kept = None if agent._parts.checkpointer is None else agent._parts.checkpointer.reading()
            if kept is None or kept.error is not None:
                self.seen.interruptions += 1
            self.seen.clocks = {it: state.position(it).clock_ms for it in state.partitions}
            self.scheduler.kill(process, process.tasks)
            self.disk.stopped()
            then()

        process.tasks.append(self.scheduler.spawn(stop, f"stop-{process.number}", process))

    def _crash(self, *, machine: bool, away_s: float, then: Callable[[], None] | None = None) -> None:
        """The process, or its machine, is gone; another one starts later. Called by who drives, not by a task."""
        process, self._process = self._process, None
        self._arm(None)
        if process is None:
            return
        self.seen.crashes += 1
        self.seen.interruptions += 1
        self.scheduler.note(f"process {process.number} is gone{', with its machine' if machine else ''}")
        self.disk.is_alive = False
        self.scheduler.kill(process, process.tasks)
        self.disk.crash(machine=machine)
        kept = [*self.disk.snapshots().glob("partition-*.snapshot")] if self.knobs.has_snapshots else None
        if machine and kept is not None and len(kept) < self.plan.log.partitions:
            # Of a partition without one the log tells again, and so does the spool, which forgets what was sent.
            self.seen.interruptions += 1

        def again() -> None:
            self.scheduler.sleep(away_s)
            if then is not None:
                then()
            elif self._process is None:
                self._start()

        self.scheduler.spawn(again, "again")

    def _arm(self, armed: tuple[int, Fault] | None) -> None:
        """Crash after so many calls more; None for not."""
        self._armed = armed
        # Most of the time nothing is due, and each wait would ask.
        self.scheduler.on_wait = None if armed is None else self._on_wait

    def _on_wait(self, what: str) -> None:
        """Where the agent may die: a call of it that reaches what survives it, or may let others come first."""
        task = self.scheduler.current
        if self._armed is None or task is None or task.owner is not self._process or self._process is None:
            return
        calls, fault = self._armed
        if not what.startswith(fault.where):
            return
        if calls > 0:
            self._armed = calls - 1, fault
            return
        self._arm(None)
        self.scheduler.note(f"crash in {task.name} at {what}")
        away_s = self.scheduler.random.choice((0.5, 5.0, 60.0))
        self.scheduler.after_step.append(lambda: self._crash(machine=fault.kind is Kind.POWER, away_s=away_s))
        self.scheduler.wait()

    # Faults.

    def _faults(self) -> None:
        for fault in self.plan.faults:
            self.scheduler.sleep(max(0.0, STEADY_S + fault.at_s - self.scheduler.now_s))
            self.scheduler.note(f"fault {fault}")
            self._apply(fault)

    def _apply(self, it: Fault) -> None:
        now_s, cluster = self.scheduler.now_s, self.cluster
        span = Span(now_s, now_s + it.lasts_s)
        of_partition = replace(span, partition=it.partition)
        store = self.stores[round(it.size)]
        match it.kind:
            case Kind.KILL | Kind.POWER:
                self._arm((it.calls, it))
            case Kind.STOP | Kind.RELEASE:
                if it.kind is Kind.RELEASE:
                    self._is_later_release = not self._is_later_release
                if self._process is not None and self._process.agent is not None:
                    self._stop_process(self._start)
            case Kind.SILENCE:
                cluster.silences.append(span)
            case Kind.LEADERLESS:
                cluster.silences.append(of_partition)
            case Kind.STALL:
                cluster.stalls.append(of_partition)
            case Kind.SLOW_BROKER:
                cluster.slow_s = 1.5
                self._later(it.lasts_s, lambda: setattr(cluster, "slow_s", 0.0))
            case Kind.LOST_OFFSET:
                cluster.lost_offsets.append((now_s, it.partition))
            case Kind.SINK_DOWN:
                store.down.append(span)
            case Kind.SINK_UNSURE:
                store.share_lost = 0.7
                self._later(it.lasts_s, lambda: setattr(store, "share_lost", 0.0))
            case Kind.SINK_SLOW:
                store.slow_s = 20.0
                self._later(it.lasts_s, lambda: setattr(store, "slow_s", 0.0))
            case Kind.SNAPSHOTS_FULL:
                self._full.append(("snapshot", span))
            case Kind.SPOOL_FULL:
                self._full.append(("spool", span))
            case Kind.TORN_SNAPSHOT:
                self._later(0.0, self._tear)
            case Kind.WALL_JUMP:
                # A wall that is behind by more than records may be ahead is believed until partitions disagree: an
                # agent with few of them finds otherwise then, and is meant to. So is one to which no record has told
                # another time than its wall.
                agent = None if self._process is None else self._process.agent
                if agent is not None and agent._parts.event_clock._ahead_ms is not None:
                    self.scheduler.wall_offset_s = self._right_offset_s + 604 * it.size - 4
            case Kind.MOVE:
                cluster.moves.append(Move(of_partition, it.size < 0.3))
                # What it told of the partition since it was kept last is told again.
                self.seen.interruptions += 1
            case Kind.OLD_DISK:
                files = self.disk.backup()
                noticed = [cut for log in self.logs.values() for cut in log.cuts if cut.is_noticed]
                self._later(it.lasts_s * 10, lambda: self._give_back(files, noticed))
            case Kind.COMPACT:
                # What was written lately is in the segment that is written to, which is left alone.
                self.logs[it.partition].compact(now_s, 900.0)
            case Kind.DELETE_RECORDS:
                self.logs[it.partition].delete_records(now_s, it.size)
            case Kind.TRUNCATE:
                log = self.logs[it.partition]
                log.cut(now_s, log.high_watermark(now_s) - it.calls)
            case Kind.RECREATE:
                cluster.topic_id += "1"
                for log in self.logs.values():
                    log.first, log.firsts = 0, [0]
                    log.cut(now_s, 0)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        def wait() -> None:
            self.scheduler.sleep(seconds)
            what()

        self.scheduler.spawn(wait, "later")

    def _tear(self) -> None:
        def torn() -> None:
            self._crash(machine=False, away_s=1.0)
            self.disk.damage("snapshots/")

        self.scheduler.after_step.append(torn)

    def _give_back(self, files: Files, noticed: list[Cut]) -> None:
        def given_back() -> None:
            self._crash(machine=False, away_s=1.0)
            self.disk.restore(files)
            # It may be of before a cut, which nothing shows who goes on from it in a log that has grown since.
            for log in self.logs.values():
                for cut in log.cuts:
                    cut.is_noticed = any(cut is it for it in noticed)
            self.seen.interruptions += 1

        self.scheduler.after_step.append(given_back)

    def _disk_fails(self, what: str) -> int | None:
        now_s = self.scheduler.now_s
        is_full = any(what.startswith(name) and span.holds(now_s) for name, span in self._full)
        return errno.ENOSPC if is_full else None

    # What is seen of the agent.

    def _look(self, process: Process, agent: Agent) -> None:
        """Ask it as HTTP's routes do."""
        seen = self.seen
        seen.asked += 1
        alive = agent.queries.alive()
        if not alive.ready:
            self.fail(f"the reader has ended: {alive.reason}")
            return
        asked_s = self.scheduler.now_s
        if agent.queries.ready().ready:
            seen.ready += 1
            self._check_ready(process, agent, asked_s)
        self._describe(process, agent)

    def _check_ready(self, process: Process, agent: Agent, asked_s: float) -> None:
        """What is called ready knows all that was there as the agent started, and what came since but for what it
        cannot have noticed yet."""
        for number, log in self.logs.items():
            if any(it.span.partition == number and it.span.end_s > asked_s - FRESH_S for it in self.cluster.moves):
                continue
            is_stalled = any(it.partition == number and it.end_s > asked_s - STALLED_S for it in self.cluster.stalls)
            known_s = max(process.connected_s, asked_s - (STALLED_S if is_stalled else FRESH_S))
            last = next(log.given_before(log.stable_end(known_s)), None)
            position = agent.state.position(number).next_offset
            if last is not None and position <= last.offset:
                self.fail(
                    f"ready with partition {number} read to {position}, expected {last.offset + 1}, which was there"
                    f" {asked_s - known_s:.1f} s before"
                )

    def _scrape(self, process: Process, agent: Agent) -> None:
        """Read the metrics: counters never go back in a life, and groups are told of as they are."""
        if process.exporter is None:
            process.exporter = Exporter([MetricsSource(None, agent.queries.readings)], process=False)
        mirrors = agent.state.mirror.partitions
        before = {number: it.next_offset for number, it in mirrors.items()}
        was_read_anew = self.cluster.resets or self.cluster.moves or any(it.cuts for it in self.logs.values())
        series = {}
        for line in b"".join(process.exporter.render()).decode().splitlines():
            if not line.startswith("#"):
                name, _, text = line.rpartition(" ")
                series[name] = float(text)
        for name, value in process.counters.items():
            is_of_group = name.startswith(("kshadow_group", "kshadow_records_ahead"))
            if series.get(name, value if is_of_group else 0.0) < value and not (is_of_group and was_read_anew):
                self.fail(f"{name}: expected {value:g} or more, got {series.get(name)}")
        process.counters = {name: it for name, it in series.items() if "_total" in name.partition("{")[0]}
        for number, mirror in mirrors.items():
            if mirror.next_offset != before.get(number):
                continue
            for view in mirror.views():
                shown = series.get(f'kshadow_group_members{{group="{view.group}"}}')
                if shown is not None and shown != len(view.members):
                    self.fail(f"{view.group}: expected {len(view.members)} members in the metrics, got {shown}")

    def _describe(self, process: Process, agent: Agent) -> None:
        queries, state = agent.queries, agent.state
        self._scrape(process, agent)
        for group, partition in queries.group_partitions().items():
            with agent.lock:
                mirror = state.mirror.partitions.get(partition)
                if mirror is None or group not in mirror.groups:
                    continue
                position = mirror.next_offset
                form = described(mirror, group)
            self.seen.looks.append(Look(process.number, self.scheduler.now_s, partition, position, {group: form}))


def described(mirror: PartitionMirror, group: str) -> bytes:
    """A group as it is answered, as JSON that is equal where the answer is; by what its partition knows of names."""
    view = mirror.view(group)
    return b"" if view is None else msgspec.json.encode(describe_json(view, mirror.committed(group)))


class _Handler(logging.Handler):
    """Hears what the agent logs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def createLock(self) -> None:
        """None is needed: there is one thread."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        scheduler = self._world.scheduler
        task = scheduler.current
        if task is None or task.is_killed:
            return
        if scheduler.say is not None:
            scheduler.say(f"{'':9} {record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info and record.exc_info[0] is not None:
            import traceback

            text = "".join(traceback.format_exception(*record.exc_info))
            self._world.fail(f"{record.getMessage()}: {text[-1500:]}")


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one: `trace` is the same for the same plan."""

    plan: Plan
    failures: tuple[str, ...]
    trace: str
    seen: Seen
    steps: int
    events: int


@cache
def _found() -> AnalyzerSelection:
    return select_analyzers()


def all_analyzers() -> AnalyzerSelection:
    """As an agent has them that has just started; looked up once, which takes a twentieth of a run."""
    makes, spanning = _found()
    return AnalyzerSelection(makes, tuple(type(it)(it.settings) for it in spanning))


@contextmanager
def images_of_all() -> Iterator[None]:
    """All agents have the same analyzers, and so the same form of images, which is made once."""
    with patch.object(image_codec, "_Version", lambda number, _, mirror: _image_version(number, mirror)):
        yield


@cache
def _image_version(version: int, mirror_class: type[PartitionMirror]) -> object:
    return _Version(version, all_analyzers(), mirror_class)


def play(plan: Plan, say: Callable[[str], None] | None = None) -> Run:
    """Play a plan, and judge what came of it."""
    from tests.harness.deterministic import truth

    root = Path(tempfile.mkdtemp(prefix="kshadow-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        world = World(plan, root, say)
        try:
            with images_of_all():
                world.run()
                events = truth.judge(world)
        except AssertionError as error:
            world.fail(repr(error))
            events = 0
        return Run(plan, tuple(world.seen.failures), world.scheduler.trace, world.seen, world.scheduler.steps, events)
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if was_collecting:
            gc.enable()
