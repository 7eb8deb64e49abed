"""One partition of the topic on its way through the agent's own reducer: what batch and stream have in common.

Its state can be taken as bytes and put back: the agent's images, without what it remembers for its API.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

from agent.common.clock import now_ms
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.inference.external_evidence import KnownSessions
from agent.core.record_time import Lookahead
from agent.core.records import RecordBatch
from agent.persistence.cluster_state import ClusterState
from agent.tools.spark_submit.jobs import Diagnosis
from analyzers.registry import parse_analyzer_names, select_analyzers
from spark_jobs.rows import DecodeErrors, Note, PartitionDone, PartitionLoads, SourceProblem

SHOWN = 5
"""Of the records of a partition that cannot be decoded."""


def analyzers_of(diagnosis: Diagnosis) -> AnalyzerSelection:
    """The analyzers that a job names. Raises `AnalyzerConfigError`."""
    leave_jars_out()
    return select_analyzers(parse_analyzer_names(diagnosis.analyzers), diagnosis.tuned)


class TaskState(ClusterState):
    """The states of a task's partitions, one after the other: what describes their images takes a while to make."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        """Raises `AnalyzerConfigError`."""
        self.failed: list[str] = []
        """What analyzers have failed with since this was looked at."""
        super().__init__(
            analyzers_of(diagnosis),
            witness=KnownSessions(diagnosis.sessions) if diagnosis.sessions else None,
            on_failure=lambda it: self.failed.append(str(it)),
            remembers=False,
        )


class PartitionReducer:
    """A partition's mirror and its analyzers, in the state of a task."""

    def __init__(self, partition: int, state: TaskState, *, is_live: bool = False) -> None:
        """`is_live`: it is read as it is written."""
        self.partition = partition
        self._state = state
        self._records = self._errors = 0
        self._lookahead = Lookahead(is_history=not is_live)

    def take(self, run: RecordBatch) -> list[DiagnosisOutput]:
        """Apply consecutive records, as far as it is known what follows them: what comes of it."""
        self._records += len(run)
        return [out for it in self._lookahead.put(run, now_ms()) for out in self._state.replay_batch(*it)]

    def take_rest(self) -> list[DiagnosisOutput]:
        """Nothing follows for now: what comes of the records that are left. To be asked before `finish`, `notes` and
        `image`."""
        return [out for it in self._lookahead.take(now_ms()) for out in self._state.replay_batch(*it)]

    def finish(self) -> Iterator[Note]:
        """The partition was read to its end: what else there is to say of it. Nothing is known of it afterwards."""
        diagnosis = self._state.diagnosis.partition(self.partition)
        if diagnosis is not None:
            diagnosis.end_loads()
        yield from self.notes()
        self._state.forget(self.partition)

    def notes(self) -> Iterator[Note]:
        """What there is to say of the records since `restore`."""
        yield PartitionDone(self.partition, self._records)
        yield from map(SourceProblem, self._state.failed)
        self._state.failed.clear()
        mirror = self._state.mirror.partition(self.partition)
        errors = sum(mirror.error_counts.values()) - self._errors
        if errors:
            rejects = mirror.take_rejects()[-SHOWN:]
            texts = [f"partition {at.partition}, offset {at.offset}: {e.kind}: {e}" for at, e in rejects]
            yield DecodeErrors(self.partition, errors, texts)
        diagnosis = self._state.diagnosis.partition(self.partition)
        if diagnosis is not None:
            yield PartitionLoads.of(self.partition, diagnosis.clock_ms, diagnosis.loads)
            diagnosis.forget_loads(max(diagnosis.loads, default=0))

    @property
    def next_offset(self) -> int:
        """Behind the last record."""
        return self._state.position(self.partition).next_offset

    def image(self) -> bytes:
        """The state, to go on from. Then nothing is known of the partition any more."""
        image = self._state.capture(self.partition).encode()
        self._state.forget(self.partition)
        return image

    def restore(self, image: bytes) -> None:
        """Go on from a state. Raises `SnapshotRefused` for one of another version, or of other analyzers or
        settings."""
        self._state.restore(self.partition, image)
        mirror = self._state.mirror.partition(self.partition)
        self._errors = sum(mirror.error_counts.values())
        mirror.take_rejects()


def leave_jars_out() -> None:
    """Take Java's archives off Python's path, where Spark puts those of `--packages`. There is nothing for Python in
    them; but whoever looks for installed analyzers opens each and keeps its list of files: 40,000 in Hadoop's."""
    sys.path[:] = [it for it in sys.path if not it.endswith(".jar")]


def relax() -> None:
    """As `agent.cli.main` does: looking for cycles took a third of the time, and there are next to none.

    A worker does task after task: what the one before left behind goes here, and only what all need, the modules, is
    never looked at again.
    """
    gc.collect()
    if not gc.get_freeze_count():
        gc.freeze()
        gc.set_threshold(500_000, 50, 100)
