"""Images: what is known and remembered of one partition, and of what spans them, as bytes and back.

An image is taken in two steps. `capture` copies what there is into plain values, under the lock under which it
changes; `encode` makes bytes of them, without the lock. Going back, msgspec first checks all of it against the types
that are declared; then it is put together aside, so that nothing is ever half restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from agent.diagnosis.cluster import Chosen, ClusterDiagnosis
from agent.diagnosis.engine import Failure, PartitionDiagnosis
from agent.diagnosis.hysteresis import Hysteresis
from agent.history.counts import PartitionCounts
from agent.history.recent import Item, OpenKey, PartitionRecent
from agent.shadow.causes import Cause
from agent.shadow.mirror import PartitionMirror
from agent.shadow.told import Witness
from agent.shadow.views import Member, Position
from agent.snapshot.container import Fingerprints, fingerprint
from agent.snapshot.errors import BROKEN, Kind, Refused, Unwritable
from agent.snapshot.forms import STATES, Packing, State, Unpacking, generic, state_form
from agent.snapshot.mirroring import mirror_form
from agent.snapshot.watching import HYSTERESIS, LeftOut, Watching, kind_of, opened, settings_text

COUNTS = state_form(
    PartitionCounts,
    {
        "rebalances": dict[str, Counter[Cause]],
        "departures": dict[str, Counter[Cause]],
        "stopped_ms": dict[str, int],
        "findings": dict[str, dict[tuple[str, str], bool]],
    },
)
STATES[PartitionCounts] = State(PartitionCounts, ("rebalances", "departures", "stopped_ms", "findings"))
STATES[PartitionRecent] = State(PartitionRecent, ("groups", "complete_since", "all_complete_since", "open"))

_Told = tuple[list[int], list[bool], list[bytes]]
_Groups = list[tuple[str | None, int | None, _Told]]
TABLES_PLAIN: Any = tuple[list[tuple[str, int]], tuple[list[int], list[int], list[int]], list[Member]]
RECENT_PLAIN: Any = tuple[_Groups, int | None, list[tuple[OpenKey, int, bytes]]]


class _Event(msgspec.Struct):
    """What every event has."""

    type: str
    group: str | None
    at_ms: int
    partition: int
    offset: int


_CHECK = msgspec.json.Decoder(_Event)


class Parts(NamedTuple):
    """All that there is of one partition. `clock_ms` is the greatest timestamp that was read."""

    mirror: PartitionMirror
    diagnosis: PartitionDiagnosis | None
    counts: PartitionCounts
    recent: PartitionRecent
    clock_ms: int


class Captured(NamedTuple):
    """Plain values that do not change any more, to be encoded; and what could not be taken, by analyzer."""

    plain: Any
    left_out: LeftOut


class Images:
    """Takes and reads images of states in which these analyzers run."""

    def __init__(
        self,
        chosen: Chosen,
        *,
        scope: str = "",
        witness: Witness | None = None,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        """`scope` says in words what else decides what is kept: which groups are shown."""
        self._watching = Watching(chosen.makes)
        self._witness, self._on_failure = witness, on_failure
        mirror = mirror_form(0, None)
        body = generic(tuple, mirror.plain, self._watching.plain | None, COUNTS.plain, RECENT_PLAIN, int)
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(generic(tuple, TABLES_PLAIN, body))
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_encoded)
        # The cluster's own analyzers, as they were chosen: new.
        self._cluster = chosen.cluster
        makes = [partial(type(it), it.settings) for it in chosen.cluster]
        self._kinds = [kind_of(make(), make) for make in makes]
        watches = generic(tuple, *(generic(tuple, HYSTERESIS.plain, it.plain) | None for it in self._kinds))
        cluster = generic(tuple, generic(tuple, watches, dict[int, int], int), COUNTS.plain, RECENT_PLAIN)
        self._cluster_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
            generic(tuple, TABLES_PLAIN, cluster)
        )
        layout = [mirror.layout, self._watching.layout, COUNTS.layout, str(_Event.__annotations__)]
        layout += [f"{it.name}:{it.layout}" for it in self._kinds]
        settings = [self._watching.settings, *(settings_text(it.name, it.settings) for it in chosen.cluster), scope]
        self.fingerprints = Fingerprints(fingerprint("\n".join(layout)), fingerprint("\n".join(settings)))

    def capture(self, it: Parts) -> Captured:
        """Copy what there is of a partition. Whoever calls holds the lock."""
        to, left_out = Packing(), LeftOut()
        mirror = mirror_form(it.mirror.partition, None)
        body = (
            mirror.pack(it.mirror, to),
            None if it.diagnosis is None else self._watching.pack(it.diagnosis, to, left_out),
            COUNTS.pack(it.counts, to),
            _pack_recent(it.recent),
            it.clock_ms,
        )
        return Captured((_tables(to), body), left_out)

    def capture_cluster(self, it: ClusterDiagnosis, counts: PartitionCounts, recent: PartitionRecent) -> Captured:
        """Copy what there is of what spans partitions. Whoever calls holds the lock."""
        to, left_out, there = Packing(), LeftOut(), {analyzer.name: (analyzer, how) for analyzer, how in it.watches}
        watches = [
            (HYSTERESIS.pack(there[kind.name][1], to), kind.pack(there[kind.name][0], to, left_out))
            if kind.name in there
            else None
            for kind in self._kinds
        ]
        cluster = tuple(watches), dict(it.offsets), it.judged_until_ms
        return Captured((_tables(to), (cluster, COUNTS.pack(counts, to), _pack_recent(recent))), left_out)

    def encode(self, captured: Captured) -> bytes:
        """The image. Needs no lock. Raises `Unwritable`."""
        try:
            return self._encoder.encode(captured.plain)
        except (OverflowError, TypeError, ValueError, RecursionError) as error:
            raise Unwritable(f"what a finding says cannot be written: {type(error).__name__}: {error}") from error

    def restore(self, image: bytes, partition: int) -> Parts:
        """What there was of a partition, put together anew. Raises `Refused`."""
        try:
            tables, (mirror_plain, watched, counts, recent, clock_ms) = self._decoder.decode(image)
            by = _unpacking(tables)
            form = mirror_form(partition, self._witness)
            mirror = form.unpack(mirror_plain, by)
            diagnosis = None
            if watched is not None:
                diagnosis = self._watching.unpack(watched, by, mirror, self._on_failure)
            return Parts(mirror, diagnosis, COUNTS.unpack(counts, by), _unpack_recent(recent), clock_ms)
        except BROKEN as error:
            raise Refused(Kind.CORRUPT, f"the image cannot be read: {type(error).__name__}: {error}") from error

    def restore_cluster(self, image: bytes, it: ClusterDiagnosis) -> tuple[PartitionCounts, PartitionRecent]:
        """Give a diagnosis back what spans partitions. Raises `Refused`, and nothing is done then."""
        try:
            tables, ((states, offsets, judged_until_ms), counts, recent) = self._cluster_decoder.decode(image)
            by, watches = _unpacking(tables), []
            for analyzer, kind, state in zip(self._cluster, self._kinds, states, strict=True):
                if state is not None:
                    hysteresis = opened(Hysteresis.of(analyzer.settings), state[0])
                    watches.append((kind.unpack(state[1], by), hysteresis))
            out = COUNTS.unpack(counts, by), _unpack_recent(recent)
        except BROKEN as error:
            raise Refused(Kind.CORRUPT, f"the image cannot be read: {type(error).__name__}: {error}") from error
        it.watches, it.offsets, it.judged_until_ms = watches, offsets, judged_until_ms
        return out


def _encoded(it: Any) -> Any:
    # Anything else stands in the numbers of a finding, and is told as text there too.
    return it.encoded() if isinstance(it, Item) else str(it)


def _tables(to: Packing) -> Any:
    columns = list(zip(*to.interned[Position], strict=True)) or [(), (), ()]
    return list(to.slots), columns, to.kept.get(Member, [])


def _unpacking(tables: Any) -> Unpacking:
    slots, columns, members = tables
    positions = list(map(Position._make, zip(*columns, strict=True)))
    return Unpacking(slots, {Position: positions, Member: members})


def _pack_recent(it: PartitionRecent) -> Any:
    groups = [
        (name, it.complete_since.get(name), ([x.at_ms for x in items], [x.is_finding for x in items], list(items)))
        for name, items in it.groups.items()
    ]
    return groups, it.all_complete_since, [(key, item.at_ms, item) for key, item in it.open.items()]


def _unpack_recent(it: Any) -> PartitionRecent:
    groups, all_complete_since, opened = it
    out = PartitionRecent()
    out.all_complete_since = all_complete_since
    findings: dict[bytes, Item] = {}
    for name, complete_since, (times, are_findings, forms) in groups:
        items = out.groups[name] = list(map(Item, times, forms, are_findings))
        if not len(times) == len(forms) == len(are_findings) > 0:
            raise ValueError("columns of one length expected")
        for item, form in zip(items, forms, strict=True):
            _CHECK.decode(form)
            if item.is_finding:
                findings[form] = item
        if complete_since is not None:
            out.complete_since[name] = complete_since
    for key, at_ms, form in opened:
        _CHECK.decode(form)
        out.open[key] = findings.get(form) or Item(at_ms, form, True)
    return out
