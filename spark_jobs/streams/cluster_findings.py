"""What only all partitions together show, in a stream: judged by the driver, batch by batch.

Its state is kept in the checkpoint, a file a batch: a batch that is made again begins where the one before it ended.
A window is judged once every partition that had records in a batch is past it; one that had none was at its end when
the batch was planned.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from pyspark.sql import SparkSession

from agent.core.diagnosis.api import Finding
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.errors import SnapshotRefused
from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.errors import StateRefused
from spark_jobs.partition_reducer import analyzers_of
from spark_jobs.rows import Note, PartitionLoads
from spark_jobs.streams.state_format import StateFormat
from spark_jobs.writing import HadoopFileSystem

KEPT = 10
"""Files."""


class FindingsState(Struct, frozen=True):
    """Between two batches."""

    image: bytes
    """With its envelope, which says of which format it is."""
    partitions: list[tuple[int, int]]
    """Each with its clock."""
    loads: list[PartitionLoads]
    """What is not judged yet."""


class ClusterFindings:
    """The analyzers of the cluster, over the batches of a stream."""

    def __init__(self, spark: SparkSession, checkpoint: str, diagnosis: Diagnosis) -> None:
        self._directory = f"{checkpoint}/kshadow-cluster"
        self._files = HadoopFileSystem(spark)
        self._chosen = analyzers_of(diagnosis)

    def findings(self, batch_id: int, notes: Sequence[Note]) -> list[Finding]:
        """What a batch's notes show, with those of the batches before it."""
        if not self._chosen.cluster_analyzers:
            return []
        state = ClusterState(self._chosen._replace(makes=()), remembers=False)
        whole = state.diagnosis
        self._restore(batch_id - 1, state)
        told = [note for note in notes if isinstance(note, PartitionLoads)]
        found: list[Finding] = []
        if told:
            newest_ms = max(note.clock_ms or 0 for note in told)
            for partition in [*whole.partitions]:
                whole.merge_partition(partition, {}, newest_ms)
            for note in told:
                note.add_to(whole)
            least_ms = min(note.clock_ms or 0 for note in told)
            found = [it for it in whole.advance(least_ms, ()) if isinstance(it, Finding)]
        self._store(batch_id, state)
        return found

    def _restore(self, batch_id: int, into: ClusterState) -> None:
        """Raises `StateRefused` for a state that is not read, or of other analyzers or settings."""
        there = [it for it in self._batches() if it <= batch_id]
        if not there:
            return
        kept = self._files.read(self._path(max(there)))
        assert kept is not None, "it was there just now"
        state = STATE.decode(kept)
        try:
            into.restore_cluster(state.image)
        except SnapshotRefused as error:
            raise StateRefused(f"{STATE.name}: {error}") from error
        for partition, clock_ms in state.partitions:
            into.diagnosis.merge_partition(partition, {}, clock_ms)
        for note in state.loads:
            note.add_to(into.diagnosis)

    def _store(self, batch_id: int, state: ClusterState) -> None:
        image, partitions = state.capture_cluster().encode(), sorted(state.diagnosis.partitions.items())
        clocks = [(number, it.clock_ms or 0) for number, it in partitions]
        loads = [PartitionLoads.of(number, it.clock_ms, it.loads) for number, it in partitions if it.loads]
        self._files.write(self._path(batch_id), STATE.encode(FindingsState(image, clocks, loads)))
        for old in sorted(self._batches())[:-KEPT]:
            self._files.remove(self._path(old))

    def _batches(self) -> list[int]:
        return [int(name) for name in self._files.names(self._directory) if name.isdecimal()]

    def _path(self, batch_id: int) -> str:
        return f"{self._directory}/{batch_id}"


STATE = StateFormat("findings of the cluster", FindingsState, version=3)
