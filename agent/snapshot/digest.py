"""What a state is, in 32 hexadecimal digits: equal states have equal digests, however they came to be.

Goes through the objects themselves, by the fields that are declared, and not through an image: so that one can be
held to the other. For tests and for comparing two agents: it takes far longer than an image.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any

import msgspec

from agent.diagnosis.cluster import KEPT_LOADS_MS
from agent.diagnosis.engine import PartitionDiagnosis
from agent.history.recent import Item, PartitionRecent
from agent.shadow.offsets import Offsets
from agent.snapshot import foreign
from agent.snapshot.analyzing import SHIPPED
from agent.snapshot.forms import STATES
from analyzers.api import Analyzer, ClusterAnalyzer
from analyzers.stalled_consumer import StalledConsumer

IN_ORDER = {(StalledConsumer, "_tracks"), (Offsets, "_touched")}
"""Dicts whose order says something: which was committed last."""


def digest(*states: object) -> str:
    """Of all of these together. Raises `TypeError` for an object that nobody declared."""
    return blake2b(msgspec.msgpack.encode([canonical(it) for it in states]), digest_size=16).hexdigest()


def canonical(it: Any) -> Any:
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
            return sorted(map(canonical, it), key=_bytes)
        case Item():
            return [it.at_ms, it.is_finding, it.encoded()]
        case PartitionRecent():
            return [canonical(getattr(it, name)) for name in STATES[PartitionRecent].fields]
        case Analyzer() | ClusterAnalyzer():
            return _analyzer(it)
    declared = STATES.get(type(it))
    if declared is not None:
        return [type(it).__name__, *(_field(it, name) for name in declared.fields)]
    if isinstance(it, list | tuple | deque):
        return [canonical(value) for value in it]
    if dataclasses.is_dataclass(it):
        return [type(it).__name__, *(canonical(getattr(it, field.name)) for field in dataclasses.fields(it))]
    raise TypeError(f"{type(it)!r} is not declared: see agent.snapshot.states")


def _analyzer(it: Analyzer | ClusterAnalyzer) -> Any:
    declared = SHIPPED.get(type(it))
    if declared is not None:
        return [it.name, *(_field(it, name) for name in declared)]
    try:
        return [it.name, canonical(foreign.pack(it))]
    except foreign.NotPlain:
        return [it.name, "not plain"]


def _field(it: Any, name: str) -> Any:
    value = getattr(it, name)
    if isinstance(it, PartitionDiagnosis) and name in ("loads", "loads_from_ms"):
        return _loads(it) if name == "loads" else None
    if (type(it), name) in IN_ORDER and value is not None:
        return [[canonical(key), canonical(item)] for key, item in value.items()]
    return canonical(value)


def _loads(it: PartitionDiagnosis) -> Any:
    """Those that every state at this time has: older ones go when what spans partitions was judged, which is no
    matter of one partition's records and time."""
    since_ms = (it.clock_ms or 0) - KEPT_LOADS_MS // 2
    return canonical({end_ms: load for end_ms, load in it.loads.items() if end_ms > since_ms})


def _pairs(it: Mapping[Any, Any]) -> Any:
    return sorted(([canonical(key), canonical(value)] for key, value in it.items()), key=_bytes)


def _bytes(it: Any) -> bytes:
    return msgspec.msgpack.encode(it)
