"""What a state is, in 32 hexadecimal digits: equal states have equal digests, however they came to be.

Goes through the objects themselves, by the fields that are declared, and not through an image: so that one can be
held to the other. For tests and for comparing two agents: it takes far longer than an image.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any, get_args

import msgspec

from agent.core.diagnosis.api import Analyzer, ClusterAnalyzer
from agent.core.diagnosis.cluster import LOADS_RETENTION_MS
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.events.recent import RecentEvent
from agent.core.state_fields import ORDERED, StateFields, declared_state
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot import third_party_state


def digest(state: ClusterState, partition: int) -> str:
    """Of all that there is of a partition."""
    return state_digest(*state.partition_state(partition))


def cluster_digest(state: ClusterState) -> str:
    """Of what spans partitions."""
    diagnosis = state.diagnosis
    watches = [[analyzer, hysteresis] for analyzer, hysteresis in diagnosis.watches]
    return state_digest(watches, diagnosis.offsets, diagnosis.judged_until_ms, *state.cluster_parts())


def state_digest(*states: object) -> str:
    """Of all of these together. Raises `TypeError` for an object that nobody declared."""
    return blake2b(msgspec.msgpack.encode([canonical_form(it) for it in states]), digest_size=16).hexdigest()


def canonical_form(it: Any) -> Any:
    """The same as plain lists, in an order that depends on what is in them alone."""
    match it:
        case Enum():
            return it.value
        case None | bool() | int() | float() | str() | bytes():
            return it
        case Counter():
            return _pairs({key: count for key, count in it.items() if count})
        case Mapping():
            return _pairs(it)
        case set() | frozenset():
            return sorted(map(canonical_form, it), key=_bytes)
        case RecentEvent():
            return [it.at_ms, it.is_finding, it.encoded()]
        case Analyzer() | ClusterAnalyzer():
            return _analyzer(it)
    declared = declared_state(type(it))
    if declared is not None:
        return [type(it).__name__, *(_field(it, name, kind) for name, kind in sorted(declared.items()))]
    if isinstance(it, list | tuple | deque):
        return [canonical_form(value) for value in it]
    raise TypeError(f"{type(it)!r} declares no state: see agent.core.state_fields")


def _analyzer(it: Analyzer | ClusterAnalyzer) -> Any:
    declared = type(it).__dict__.get("STATE")
    if isinstance(declared, StateFields):
        return [it.name, *(_field(it, name, kind) for name, kind in sorted(declared.items()))]
    try:
        return [it.name, canonical_form(third_party_state.pack(it))]
    except third_party_state.UnsupportedValue:
        return [it.name, "not plain"]


def _field(it: Any, name: str, kind: Any) -> Any:
    value = getattr(it, name)
    if isinstance(it, PartitionDiagnosis) and name in ("loads", "loads_from_ms"):
        return _loads(it) if name == "loads" else None
    if value is not None and any(ORDERED in getattr(it, "__metadata__", ()) for it in (kind, *get_args(kind))):
        return [[canonical_form(key), canonical_form(item)] for key, item in value.items()]
    return canonical_form(value)


def _loads(it: PartitionDiagnosis) -> Any:
    """Those that every state at this time has: older ones go when what spans partitions was judged, which is no
    matter of one partition's records and time."""
    since_ms = (it.clock_ms or 0) - LOADS_RETENTION_MS // 2
    return canonical_form({end_ms: load for end_ms, load in it.loads.items() if end_ms > since_ms})


def _pairs(it: Mapping[Any, Any]) -> Any:
    return sorted(([canonical_form(key), canonical_form(value)] for key, value in it.items()), key=_bytes)


def _bytes(it: Any) -> bytes:
    return msgspec.msgpack.encode(it)
