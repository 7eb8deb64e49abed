"""How the analyzers that are shipped are written: the fields that are their state. Settings are not."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from agent.shadow.causes import Cause
from agent.shadow.views import GroupView, Position
from agent.snapshot import states as _states  # what analyzers hold is made of that  # noqa: F401
from agent.snapshot.forms import (
    SHARED,
    STATES,
    Form,
    Index,
    Packing,
    Slot,
    State,
    Unpacking,
    by_slot,
    declare,
    fields_of,
    form_of,
    generic,
    state_form,
)
from analyzers import rebalance_storm, static_membership_advice, windows
from analyzers.api import Condition
from analyzers.balance import Spread
from analyzers.coordinator_hotspot import CoordinatorHotspot
from analyzers.idle_members import IdleMembers
from analyzers.mixed_subscription import MixedSubscription
from analyzers.orphaned_offsets import OrphanedOffsets
from analyzers.poll_timeout import PollTimeout
from analyzers.rebalance_storm import RebalanceStorm
from analyzers.session_timeout import SessionTimeout
from analyzers.stalled_consumer import StalledConsumer, Track
from analyzers.static_membership_advice import StaticMembershipAdvice
from analyzers.storms import Normal, Pattern
from analyzers.unbalanced_assignment import UnbalancedAssignment


def recent(kind: Any) -> Form:
    """A window of items; all empty ones share one deque."""
    STATES[windows.Recent] = State(windows.Recent, ("window_ms", "kept", "_items"))
    plain, layout, pack, unpack = form_of(generic(deque, generic(tuple, int, kind)))
    some = Form(plain, layout, pack, lambda it, by: unpack(it, by) if it else windows._NOTHING)
    return state_form(windows.Recent, {"window_ms": int, "kept": int, "_items": some})


def turnover(key: Any) -> Form:
    """How often such keys were left."""
    fields = {
        "_least": int,
        "_here": Counter[key],
        "_left": recent(key),
        "_counts": Counter[key],
        "_peaks": dict[key, int],
        "_busy": set[key],
    }
    STATES[windows.Turnover] = State(windows.Turnover, tuple(fields))
    return state_form(windows.Turnover, fields)


declare(windows.Lost, fields_of(windows.Lost), shared=True)
declare(
    windows.Losses,
    {
        "_cause": Cause,
        "_min_confidence": float,
        "recent": recent(windows.Lost),
        "_seats": turnover(windows.Seat),
        "_away": dict[windows.Seat, deque[windows.Lost]],
        "changed": bool,
    },
)
declare(rebalance_storm.Round, fields_of(rebalance_storm.Round), shared=True)
declare(Normal, {"_constant_ms": int, "_level": float, "_at_ms": int, "since_ms": int | None})
declare(static_membership_advice.Round, fields_of(static_membership_advice.Round), shared=True)
declare(static_membership_advice.Away, fields_of(static_membership_advice.Away), shared=True)
declare(static_membership_advice.Restart, fields_of(static_membership_advice.Restart))

TRACK: dict[str, Any] = {
    "position": Position,
    "pause_ms": int,
    "repeats": int,
    "back_from": int,
    "back_by": int,
    "back_ms": int,
    "lag": int | None,
    "still_ms": int,
    "growing": int,
    "grown_from": int,
}
STATES[Track] = State(Track, tuple(TRACK))


def tracks() -> Form:
    """Tracks by partition, as columns: most groups have one for each position."""
    forms = tuple(map(form_of, TRACK.values()))
    columns = generic(tuple, list[Index], *(generic(list, form.plain) for form in forms))
    get, width = attrgetter(*TRACK), len(TRACK)

    def pack(it: Mapping[Slot, Track], to: Packing) -> Any:
        if not it:
            return ((),) * (width + 1)
        met, slots = to.shared[Track], to.slots
        for track in it.values():
            met[id(track)] = len(met)
        positions, *rest = zip(*map(get, it.values()), strict=True)
        return list(map(slots.__getitem__, it)), list(map(to.interned[Position].__getitem__, positions)), *rest

    def unpack(it: Any, by: Unpacking) -> dict[Slot, Track]:
        numbers, positions, *rest = it
        positions = map(by.interned[Position].__getitem__, positions)
        made, out, slots = by.shared[Track], dict[Slot, Track](), by.slots
        for number, row in zip(numbers, zip(positions, *rest, strict=True), strict=True):
            track = out[slots[number]] = Track.__new__(Track)
            made.append(track)
            (
                track.position,
                track.pause_ms,
                track.repeats,
                track.back_from,
                track.back_by,
                track.back_ms,
                track.lag,
                track.still_ms,
                track.growing,
                track.grown_from,
            ) = row
        return out

    layout = ",".join(f"{name}:{form.layout}" for name, form in zip(TRACK, forms, strict=True))
    return Form(columns, f"tracks[{layout}]", pack, unpack)


def met(cls: type) -> Form:
    """Objects that were written before: by number."""
    return Form(
        Index, f"&{cls.__name__}", lambda it, to: to.shared[cls][id(it)], lambda number, by: by.shared[cls][number]
    )


SHARED.add(Track)

_LOSSES = {"_losses": windows.Losses, "_condition": Condition | None}

SHIPPED: dict[type, dict[str, Any]] = {
    IdleMembers: {},
    MixedSubscription: {},
    OrphanedOffsets: {"_look_ms": int | None, "_condition": Condition | None, "_is_empty": bool},
    PollTimeout: _LOSSES,
    SessionTimeout: _LOSSES,
    RebalanceStorm: {
        "_rounds": recent(rebalance_storm.Round),
        "_excess": Counter[Pattern],
        "_generations": int,
        "_gone": recent(rebalance_storm.Gone),
        "_turnover": turnover(rebalance_storm.Key),
        "_normal": Normal,
        "_last": rebalance_storm.Round | None,
        "_last_ms": int | None,
        "_assigned": int,
        "_followups": int,
        "_is_classic": bool,
        "_since_ms": int | None,
        "_storm": tuple[int, int],
    },
    StalledConsumer: {
        "_tracks": tracks(),
        "_set_aside": tracks(),
        "_back": by_slot(met(Track)),
        "_recommits": bool,
        "_members_ms": int | None,
        "_owned_ms": int,
    },
    StaticMembershipAdvice: {
        "_rounds": recent(static_membership_advice.Round),
        "_restarts": recent(static_membership_advice.Restart),
        "_away": recent(static_membership_advice.Away),
        "_away_by_client": dict[str, list[static_membership_advice.Away]],
        "_here": Counter[str],
        "_last": static_membership_advice.Round | None,
        "_changed": bool,
        "_condition": Condition | None,
    },
    UnbalancedAssignment: {
        "_condition": Condition | None,
        "_view": GroupView | None,
        "_held": Spread | None,
        "_settles_ms": int,
        "_has_changed": bool,
        "_first_sample_ms": int | None,
        "_looked_ms": int,
    },
    CoordinatorHotspot: {},
}
"""The fields of each analyzer that are its state, and their types; the others are settings or made of them."""
