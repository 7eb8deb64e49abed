"""How the mirror of a partition is written: committed offsets as columns, groups by class."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agent.shadow.classic import ClassicGroup
from agent.shadow.mirror import Group, PartitionMirror
from agent.shadow.modern import ConsumerGroup, ShareGroup, StreamsGroup
from agent.shadow.offsets import Offsets
from agent.snapshot import states as _states  # groups are made of that  # noqa: F401
from agent.snapshot.forms import STATES, Form, Index, Packing, Slot, State, Unpacking, form_of, generic, state_form
from agent.wire.hot import all_plain, is_plain, read_commit, read_commit_key
from agent.wire.primitives import Uuid

GROUP_CLASSES: tuple[type, ...] = (ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup)


def _groups() -> Form:
    """Groups by name, as a list for each class."""
    forms = [form_of(generic(list, cls)) for cls in GROUP_CLASSES]

    def pack(it: dict[str, Group], to: Packing) -> Any:
        by_class: dict[type, list[Group]] = {cls: [] for cls in GROUP_CLASSES}
        for group in it.values():
            by_class[type(group)].append(group)
        return tuple(form.pack(groups, to) for form, groups in zip(forms, by_class.values(), strict=True))

    def unpack(it: Any, by: Unpacking) -> dict[str, Group]:
        lists = [form.unpack(groups, by) for form, groups in zip(forms, it, strict=True)]
        return {group.name: group for groups in lists for group in groups}

    layout = f"groups[{','.join(form.layout for form in forms)}]"
    return Form(generic(tuple, *(form.plain for form in forms)), layout, pack, unpack)


STATES[Offsets] = State(Offsets, ("latest", "counts", "_touched"))


def _pack_offsets(it: Offsets, to: Packing) -> Any:
    # What is touched is in the order in which it was: analyzers are shown it in that order.
    touched = None
    if it._touched is not None:
        places = dict(zip(it.latest, range(len(it.latest)), strict=True)) if it._touched else {}
        touched = [places[key] for key in it._touched]
    slots = to.slots
    for _, slot in it._place.values():
        slots[slot]
    return list(it.latest), list(it.latest.values()), [it.counts[key] for key in it.latest], touched


def _unpack_offsets(it: Any, by: Unpacking) -> Offsets:
    keys, values, counts, touched = it
    if values and not all_plain(values):
        for value in values:
            if not is_plain(value):
                read_commit(value)
    out = Offsets()
    out.latest = dict(zip(keys, values, strict=True))
    out.counts = Counter(dict(zip(keys, counts, strict=True)))
    same: dict[Slot, Slot] = {slot: slot for slot in by.slots}
    groups, place, last = out._groups, out._place, None
    for key in keys:
        parsed = read_commit_key(key)
        if parsed is None:
            raise ValueError(f"the key of an offset commit expected, {key!r} came")
        group, topic, partition = parsed
        if group != last:
            last = group
            slots = groups.setdefault(group, {})
        slot = (topic, partition)
        slot = same.get(slot, slot)
        slots[key] = slot
        place[key] = (last, slot)
    if touched is not None:
        out._touched = {key: out.latest[key] for key in map(keys.__getitem__, touched)}
    return out


OFFSETS = Form(
    tuple[list[bytes], list[bytes], list[Index], list[Index] | None],
    "offsets[keys,values,counts,touched]",
    _pack_offsets,
    _unpack_offsets,
)

MIRROR_FIELDS: dict[str, Any] = {
    "offsets": OFFSETS,
    "groups": _groups(),
    "_leaving": _groups(),
    "names": dict[Uuid, str],
    "next_offset": int,
    "record_counts": Counter[str],
    "error_counts": Counter[str],
}
"""`rejects` are for whoever logs them, and nobody's state."""

STATES[PartitionMirror] = State(PartitionMirror, tuple(MIRROR_FIELDS))


def mirror_form(partition: int, witness: Any) -> Form:
    """The mirror of a partition."""
    return state_form(PartitionMirror, MIRROR_FIELDS, lambda: PartitionMirror(partition, witness))
