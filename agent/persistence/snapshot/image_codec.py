"""Images: what is known and remembered of one partition, and of what spans them, as bytes and back.

An image is taken in two steps. `capture` copies what there is into plain values, under the lock under which it
changes; `encode` makes bytes of them, without the lock. Going back, msgspec first checks all of it against the types
that the classes declare; then it is put together aside, so that nothing is ever half restored. What the analyzers of
a group know stays as bytes meanwhile, and is checked and put together when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from agent.core.diagnosis.cluster import AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import AnalyzerFailure, PartitionDiagnosis
from agent.core.events.counts import PartitionCounts
from agent.core.events.recent import PartitionRecentEvents, RecentEvent
from agent.core.inference.external_evidence import EvidenceSource
from agent.core.inference.origins import OriginSource
from agent.core.shadow.mirror import PartitionMirror
from agent.core.state_fields import INTERNED, declared_state
from agent.core.wire.offset_commit_fastpath import slot_of
from agent.persistence.snapshot.analyzer_state import (
    AnalyzerStates,
    analyzer_form,
    hysteresis_form,
    settings_text,
)
from agent.persistence.snapshot.codec import Packing, Unpacking, forms_of, generic, row_maker
from agent.persistence.snapshot.envelope import Fingerprints, Header, SnapshotIdentity, fingerprint, open_sealed
from agent.persistence.snapshot.errors import MALFORMED, RefusalReason, SnapshotRefused, UnwritableState
from agent.persistence.snapshot.migrations import FORMAT


class PartitionState(NamedTuple):
    """All that there is of one partition. `clock_ms` is the greatest timestamp that was read."""

    mirror: PartitionMirror
    diagnosis: PartitionDiagnosis | None
    counts: PartitionCounts
    recent: PartitionRecentEvents
    clock_ms: int


class CapturedState(NamedTuple):
    """Plain values that do not change any more, to be encoded; and the analyzers whose state could not be taken, by
    name with what it is that could not."""

    plain: Any
    omitted_analyzers: dict[str, str]


class _Version:
    """The forms, layout and decoders of one version of the format, where these analyzers run."""

    def __init__(self, version: int, selection: AnalyzerSelection, mirror_class: type[PartitionMirror]) -> None:
        forms = forms_of(version)
        self.mirror = forms.of_class(mirror_class)
        self.analyzers = AnalyzerStates(forms, selection.makes)
        self.counts, self.recent = forms.of(PartitionCounts), forms.of(PartitionRecentEvents)
        chosen = selection.cluster_analyzers
        makes = [partial(type(it), it.settings) for it in chosen]
        self.cluster_analyzers = {
            it.name: (analyzer_form(forms, make(), make), hysteresis_form(forms, it.settings))
            for it, make in zip(chosen, makes, strict=True)
        }
        self.settings = [self.analyzers.settings, *(settings_text(it.name, it.settings) for it in chosen)]
        runs = [
            generic(tuple, hysteresis.plain, it.plain) | None for it, hysteresis in self.cluster_analyzers.values()
        ]
        told = self.counts.plain, self.recent.plain
        body = generic(tuple, self.mirror.plain, self.analyzers.form.plain | None, *told, int)
        cluster = generic(tuple, generic(tuple, generic(tuple, *runs), dict[int, int], int), *told)
        tables = generic(tuple, list[tuple[str, int]], *map(_table_type, _TABLES))
        self.decode = msgspec.msgpack.Decoder(generic(tuple, tables, body)).decode
        self.decode_cluster = msgspec.msgpack.Decoder(generic(tuple, tables, cluster)).decode
        layouts = {
            "mirror": self.mirror.layout,
            "analyzers": self.analyzers.form.layout,
            "counts": self.counts.layout,
            "recent": self.recent.layout,
            **{name: it.layout for name, (it, _) in self.cluster_analyzers.items()},
            **{f"table {number}": forms.of(cls).layout for number, cls in enumerate(_TABLES)},
        }
        self.layout = "\n".join(f"{name} {layout}" for name, layout in layouts.items())


class ImageCodec:
    """Takes and reads images of states in which these analyzers run."""

    def __init__(
        self,
        selection: AnalyzerSelection,
        *,
        evidence_source: EvidenceSource | None = None,
        on_failure: Callable[[AnalyzerFailure], None] | None = None,
        mirror_class: type[PartitionMirror] = PartitionMirror,
        origin_source: OriginSource | None = None,
    ) -> None:
        """`mirror_class`: of what class the mirrors are."""
        self._mirror_class, self._origin_source = mirror_class, origin_source
        self._selection, self._evidence_source, self._on_failure = selection, evidence_source, on_failure
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_encoded)
        self._versions = {FORMAT: _Version(FORMAT, selection, mirror_class)}
        self._fingerprints: dict[int, Fingerprints] = {}

    def _version(self, number: int) -> _Version:
        if number not in self._versions:
            self._versions[number] = _Version(number, self._selection, self._mirror_class)
        return self._versions[number]

    def layout(self, version: int = FORMAT) -> str:
        """What images of a version hold, field by field, in words."""
        return self._version(version).layout

    def fingerprints(self, version: int = FORMAT) -> Fingerprints:
        """What images of a version have to say of themselves to be read here."""
        if version not in self._fingerprints:
            # An empty line stands behind them, as in images that were written before.
            settings = "".join(f"{it}\n" for it in self._version(version).settings)
            self._fingerprints[version] = Fingerprints(fingerprint(self.layout(version)), fingerprint(settings))
        return self._fingerprints[version]

    def open(self, blob: bytes, expected: SnapshotIdentity) -> tuple[Header, bytearray]:
        """The header and the image of a snapshot. Raises `SnapshotRefused` for one that is not of this state."""
        return open_sealed(blob, expected, self.fingerprints)

    def capture(self, state: PartitionState) -> CapturedState:
        """Copy what there is of a partition. Whoever calls holds the lock."""
        to, forms = Packing(), self._versions[FORMAT]
        body = (
            forms.mirror.pack(state.mirror, to),
            None if state.diagnosis is None else forms.analyzers.form.pack(state.diagnosis, to),
            forms.counts.pack(state.counts, to),
            forms.recent.pack(state.recent, to),
            state.clock_ms,
        )
        return CapturedState((_tables(to), body), to.omitted)

    def capture_cluster(
        self, diagnosis: ClusterDiagnosis, counts: PartitionCounts, recent: PartitionRecentEvents
    ) -> CapturedState:
        """Copy what there is of what spans partitions. Whoever calls holds the lock."""
        to, forms = Packing(), self._versions[FORMAT]
        there = {analyzer.name: (analyzer, hysteresis) for analyzer, hysteresis in diagnosis.watches}
        runs = [
            (hysteresis.pack(there[name][1], to), form.pack(there[name][0], to)) if name in there else None
            for name, (form, hysteresis) in forms.cluster_analyzers.items()
        ]
        cluster = runs, dict(diagnosis.offsets), diagnosis.judged_until_ms
        told = forms.counts.pack(counts, to), forms.recent.pack(recent, to)
        return CapturedState((_tables(to), (cluster, *told)), to.omitted)

    def encode(self, captured: CapturedState) -> bytes:
        """The image. Needs no lock. Raises `UnwritableState`."""
        try:
            return self._encoder.encode(captured.plain)
        except (OverflowError, TypeError, ValueError, RecursionError) as error:
            raise UnwritableState(
                f"what a finding says cannot be written: {type(error).__name__}: {error}"
            ) from error

    def restore(self, image: bytes | bytearray, partition: int, version: int = FORMAT) -> PartitionState:
        """What there was of a partition, put together anew. Raises `SnapshotRefused`."""
        forms = self._version(version)
        try:
            tables, (mirror_plain, analyzers, counts, recent, clock_ms) = forms.decode(image)
            by = _unpacking(tables)
            mirror = self._mirror_class(partition, self._evidence_source, self._origin_source)
            forms.mirror.unpack(mirror_plain, by, mirror)
            diagnosis = None
            if analyzers is not None:
                diagnosis = forms.analyzers.unpack(analyzers, by, mirror, self._on_failure)
            told = forms.counts.unpack(counts, by), forms.recent.unpack(recent, by)
            return PartitionState(mirror, diagnosis, *told, clock_ms)
        except MALFORMED as error:
            raise _corrupt(error) from error

    def restore_cluster(
        self, image: bytes | bytearray, diagnosis: ClusterDiagnosis, version: int = FORMAT
    ) -> tuple[PartitionCounts, PartitionRecentEvents]:
        """Give a diagnosis back what spans partitions. Raises `SnapshotRefused`, and nothing is done then."""
        forms = self._version(version)
        try:
            tables, ((states, offsets, judged_until_ms), counts, recent) = forms.decode_cluster(image)
            by = _unpacking(tables)
            watches = [
                None if state is None else (form.unpack(state[1], by), hysteresis.unpack(state[0], by))
                for (form, hysteresis), state in zip(forms.cluster_analyzers.values(), states, strict=True)
            ]
            told = forms.counts.unpack(counts, by), forms.recent.unpack(recent, by)
        except MALFORMED as error:
            raise _corrupt(error) from error
        diagnosis.watches = [it for it in watches if it is not None]
        diagnosis.offsets, diagnosis.judged_until_ms = offsets, judged_until_ms
        return told


def _corrupt(error: BaseException) -> SnapshotRefused:
    return SnapshotRefused(RefusalReason.CORRUPT, f"the image cannot be read: {type(error).__name__}: {error}")


def _encoded(value: Any) -> Any:
    # Anything else stands in the numbers of a finding, and is told as text there too.
    return value.encoded() if isinstance(value, RecentEvent) else str(value)


# The tables of what is written once: named tuples as columns.

_TABLES = sorted(INTERNED, key=lambda cls: cls.__name__)


def _table_type(cls: type) -> Any:
    declared = declared_state(cls)
    assert declared is not None, f"{cls} is interned"
    if issubclass(cls, tuple):
        return generic(tuple, *(generic(list, kind) for kind in declared.values()))
    return generic(list, cls)


def _tables(to: Packing) -> Any:
    return list(to.slots), *(
        list(zip(*to.interned[cls], strict=True)) or [()] * len(declared_state(cls) or ())
        if issubclass(cls, tuple)
        else to.unhashable.get(cls, [])
        for cls in _TABLES
    )


def _unpacking(tables: Any) -> Unpacking:
    slots, *columns = tables
    values: dict[type, Any] = {}
    for cls, table in zip(_TABLES, columns, strict=True):
        values[cls] = list(map(row_maker(cls), zip(*table, strict=True))) if issubclass(cls, tuple) else table
        if (restored := getattr(cls, "after_restore", None)) is not None:
            for it in values[cls]:
                restored(it)
    # Partitions of the offsets topic have the same.
    return Unpacking([slot_of(topic, partition) for topic, partition in slots], values)
