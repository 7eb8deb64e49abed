"""The mirrors of all partitions that are read, as one: find a group, list all, sum the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import copy

from agent.core.inference.external_evidence import EvidenceSource
from agent.core.inference.origins import OriginSource
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Transition
from agent.core.shadow.views import CommittedOffset, GroupView, one_of_each, precedence_of
from agent.core.wire.primitives import Uuid


class ClusterMirror:
    """Mirrors by partition, made as records of a partition come."""

    def __init__(
        self,
        evidence_source: EvidenceSource | None = None,
        mirror_class: type[PartitionMirror] = PartitionMirror,
        origin_source: OriginSource | None = None,
    ) -> None:
        """`evidence_source` and `origin_source`: see `PartitionMirror`.

        `mirror_class`: how one partition is mirrored; `SampledMirror` where groups are looked at."""
        self.partitions: dict[int, PartitionMirror] = {}
        self.mirror_class = mirror_class
        self._evidence_source, self._origin_source = evidence_source, origin_source
        self._dropped: dict[int, tuple[Counter[str], Counter[str]]] = {}
        """What was counted of partitions before they were begun anew: what was read stays read."""
        self._names: Mapping[Uuid, str] = {}
        self._named_by: list[tuple[PartitionMirror, int]] = []
        """The mirrors whose names were put together last, and which versions of them."""

    def partition(self, number: int) -> PartitionMirror:
        """The mirror of one partition."""
        mirror = self.partitions.get(number)
        if mirror is None:
            mirror = self.partitions[number] = self.mirror_class(number, self._evidence_source, self._origin_source)
        return mirror

    def replay_batch(self, batch: RecordBatch) -> list[Transition]:
        """Apply consecutive records of one partition."""
        return self.partition(batch.partition).replay_batch(batch)

    def replay(self, record: RawRecord) -> list[Transition]:
        """Apply one record."""
        return self.partition(record.partition).replay(record)

    def forget(self, partition: int) -> None:
        """Drop what was mirrored of a partition, to begin it anew."""
        mirror = self.partitions.pop(partition, None)
        if mirror is not None:
            records, errors = self._dropped.get(partition, (Counter(), Counter()))
            self._dropped[partition] = records + mirror.record_counts, errors + mirror.error_counts

    def put(self, mirror: PartitionMirror) -> None:
        """Go on from one that was kept, of a partition that was forgotten, or of which there was nothing."""
        if mirror.partition in self._dropped:
            # It may count the same records, and others that somebody else has read.
            records, errors = self._dropped[mirror.partition]
            self._dropped[mirror.partition] = records - mirror.record_counts, errors - mirror.error_counts
        self.partitions[mirror.partition] = mirror

    def fork(self, partition: int, group: str) -> ClusterMirror:
        """See `PartitionMirror.fork`."""
        out = copy(self)
        out.partitions = {partition: self.partitions[partition].fork(group)}
        return out

    def topic_names(self) -> Mapping[Uuid, str]:
        """Topic names by id, as all partitions' records have shown them: the same object until they show others."""
        # Who asks about each of many groups would else put together all names of all partitions for each.
        named_by = [(it, it.names_version) for it in list(self.partitions.values())]
        if named_by != self._named_by:
            names: dict[Uuid, str] = {}
            for mirror, _ in named_by:
                names.update(mirror.names)
            self._named_by = named_by
            # Several partitions show the same topics: who keeps the names then compares objects, not content.
            if names != self._names:
                self._names = names
        return self._names

    def views(self) -> list[GroupView]:
        """Every group, by name within its partition."""
        names = self.topic_names()
        return one_of_each(view for _, mirror in sorted(self.partitions.items()) for view in mirror.views(names))

    def mirror_of(self, group: str) -> PartitionMirror | None:
        """The mirror that has a group, or None; of several the one that tells how it is."""
        having = [it for it in list(self.partitions.values()) if group in it.groups]
        if len(having) > 1:
            views = [(view, it) for it in having if (view := it.view(group)) is not None]
            having = [max(views, key=lambda found: precedence_of(found[0]))[1]]
        return having[0] if having else None

    def view(self, group: str) -> GroupView | None:
        """One group, or None."""
        mirror = self.mirror_of(group)
        return None if mirror is None else mirror.view(group, self.topic_names())

    def find(self, group: str) -> tuple[GroupView, tuple[CommittedOffset, ...]] | None:
        """One group with its committed offsets, or None."""
        mirror = self.mirror_of(group)
        if mirror is None:
            return None
        view = mirror.view(group, self.topic_names())
        return None if view is None else (view, mirror.committed(group))

    def record_counts(self) -> Counter[str]:
        """Records read, by type: never less than before, whatever was begun anew."""
        dropped = (records for records, _ in list(self._dropped.values()))
        return sum((mirror.record_counts for mirror in list(self.partitions.values())), sum(dropped, Counter()))

    def error_counts(self) -> Counter[str]:
        """Records that could not be decoded, by the kind of error, in the same way."""
        dropped = (errors for _, errors in list(self._dropped.values()))
        return sum((mirror.error_counts for mirror in list(self.partitions.values())), sum(dropped, Counter()))
