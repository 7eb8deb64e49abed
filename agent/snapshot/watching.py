"""How the analyzers of a partition's groups are written: what runs says what there is to write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from heapq import heapify
from typing import Any, NamedTuple

from agent.diagnosis.consumption import Consumption
from agent.diagnosis.engine import Failure, Make, PartitionDiagnosis, Watch, Watched
from agent.diagnosis.hysteresis import Hysteresis
from agent.shadow.mirror import PartitionMirror
from agent.snapshot import foreign
from agent.snapshot.analyzing import SHIPPED
from agent.snapshot.forms import STATES, Packing, State, Unpacking, form_of, generic, state_form
from analyzers.api import Analyzer, ClusterAnalyzer, Load, Settings

LeftOut = dict[str, str]
"""By analyzer whose state could not be written: what it is that could not."""


class Kind(NamedTuple):
    """How the state of one analyzer is written; None where it is that of a new one. `unpack` gives an analyzer."""

    name: str
    plain: Any
    layout: str
    pack: Callable[[Any, Packing, LeftOut], Any]
    unpack: Callable[[Any, Unpacking], Any]


def kind_of(analyzer: Analyzer | ClusterAnalyzer, make: Callable[[], Any]) -> Kind:
    """How the state of analyzers of its class is written. It must be new; `make` gives more of them."""
    cls: Any = type(analyzer)
    declared = SHIPPED.get(cls)
    if declared is None:
        return _foreign(analyzer, make)
    settings = {name: value for name, value in vars(analyzer).items() if name not in declared}

    def blank() -> Any:
        it = cls.__new__(cls)
        it.__dict__.update(settings)
        return it

    if not declared:
        return Kind(analyzer.name, None, "", lambda it, to, out: None, lambda state, by: blank())
    form = state_form(cls, declared, blank)
    pack_it, unpack_it, new = form.pack, form.unpack, form.pack(analyzer, Packing())

    def pack(it: Any, to: Packing, out: LeftOut) -> Any:
        state = pack_it(it, to)
        return None if state == new else state

    def unpack(state: Any, by: Unpacking) -> Any:
        return make() if state is None else unpack_it(state, by)

    return Kind(analyzer.name, form.plain | None, form.layout, pack, unpack)


def _foreign(analyzer: Analyzer | ClusterAnalyzer, make: Callable[[], Any]) -> Kind:
    cls = type(analyzer)

    def pack(it: Any, to: Packing, out: LeftOut) -> Any:
        try:
            return foreign.pack(it)
        except foreign.NotPlain as error:
            out[it.name] = str(error)
            return None

    def unpack(state: Any, by: Unpacking) -> Any:
        it = make()
        if state is not None:
            foreign.unpack(it, state)
        return it

    classes = ",".join(f"{it.__module__}.{it.__qualname__}" for it in foreign.classes_of(cls))
    layout = f"{cls.__module__}.{cls.__qualname__}[{classes}]"
    return Kind(analyzer.name, dict[str, Any] | None, layout, pack, unpack)


def settings_text(name: str, settings: Settings) -> str:
    """An analyzer and its settings, as the fingerprint has them."""
    names = (field.name for field in fields(settings))
    return f"{name}({','.join(f'{name}={value!r}' for name, value in zip(names, astuple(settings), strict=True))})"


HYSTERESIS = form_of(Hysteresis)
CONSUMPTION = form_of(Consumption)
_CLOSED = HYSTERESIS.pack(Hysteresis(0, 0), Packing())

STATES[Watch] = State(Watch, ("analyzer", "hysteresis"))
STATES[Watched] = State(Watched, ("consumption", "due_ms", "group_type", "watches"))

DIAGNOSIS_FIELDS: dict[str, Any] = {
    "_next_sample_ms": int | None,
    "clock_ms": int | None,
    "loads": dict[int, tuple[Load, int]],
    "loads_from_ms": int,
    "_active": set[str],
    "_window_records": int,
    "_records": int,
    "_counted_ms": int,
}
STATES[PartitionDiagnosis] = State(PartitionDiagnosis, ("_groups", *DIAGNOSIS_FIELDS))


class Watching:
    """Writes and reads what the analyzers that run know of the groups of one partition."""

    def __init__(self, makes: Sequence[Make]) -> None:
        new = [make() for make in makes]
        self._kinds = [kind_of(it, make) for it, make in zip(new, makes, strict=True)]
        self._closed = [Hysteresis.of(it.settings) for it in new]
        self._classes = [type(it) for it in new]
        self._makes = makes
        # By analyzer: hysteresis and state; True: as new, False: dropped.
        watches = generic(tuple, *(generic(tuple, HYSTERESIS.plain | None, it.plain) | bool for it in self._kinds))
        self._fields = {name: form_of(it) for name, it in DIAGNOSIS_FIELDS.items()}
        watched = generic(tuple, CONSUMPTION.plain, int | None, str, watches)
        values = (it.plain for it in self._fields.values())
        self.plain = generic(tuple, generic(dict, str, watched), generic(tuple, *values))
        self.settings = ";".join(settings_text(it.name, it.settings) for it in new)
        self.layout = "".join(
            [
                *(f"{it.name}:{it.layout};" for it in self._kinds),
                *(f"{name}:{it.layout};" for name, it in self._fields.items()),
                HYSTERESIS.layout + CONSUMPTION.layout,
            ]
        )

    def pack(self, it: PartitionDiagnosis, to: Packing, out: LeftOut) -> Any:
        """Adds to `out` what could not be written."""
        groups = {name: self._pack_watched(watched, to, out) for name, watched in it._groups.items()}
        values = (getattr(it, name) for name in self._fields)
        return groups, tuple(form.pack(value, to) for value, form in zip(values, self._fields.values(), strict=True))

    def _pack_watched(self, it: Watched, to: Packing, out: LeftOut) -> Any:
        left, watches = iter(it.watches), list[Any]()
        watch = next(left, None)
        for cls, kind in zip(self._classes, self._kinds, strict=True):
            if watch is None or type(watch.analyzer) is not cls:
                watches.append(False)
                continue
            hysteresis = HYSTERESIS.pack(watch.hysteresis, to)
            state = kind.pack(watch.analyzer, to, out)
            is_closed = hysteresis == _CLOSED
            watches.append(True if is_closed and state is None else (None if is_closed else hysteresis, state))
            watch = next(left, None)
        return CONSUMPTION.pack(it.consumption, to), it.due_ms, it.group_type, tuple(watches)

    def unpack(
        self, it: Any, by: Unpacking, mirror: PartitionMirror, on_failure: Callable[[Failure], None] | None
    ) -> PartitionDiagnosis:
        """The analyzers of a mirror that was unpacked."""
        groups, values = it
        touched = mirror.offsets._touched
        out = PartitionDiagnosis(mirror, self._makes, on_failure=on_failure)
        mirror.offsets._touched = touched
        for (name, form), value in zip(self._fields.items(), values, strict=True):
            setattr(out, name, form.unpack(value, by))
        out._groups = {name: self._unpack_watched(watched, by) for name, watched in groups.items()}
        out._wakes = [(watched.due_ms, name) for name, watched in out._groups.items() if watched.due_ms is not None]
        heapify(out._wakes)
        return out

    def _unpack_watched(self, it: Any, by: Unpacking) -> Watched:
        consumption, due_ms, group_type, states = it
        out = Watched(())
        for kind, closed, state in zip(self._kinds, self._closed, states, strict=True):
            if state is False:
                continue
            hysteresis, inner = (None, None) if state is True else state
            watch = Watch.__new__(Watch)
            watch.analyzer = kind.unpack(inner, by)
            watch.hysteresis = opened(closed, hysteresis or _CLOSED)
            out.watches.append(watch)
        out.consumption = CONSUMPTION.unpack(consumption, by)
        out.due_ms, out.group_type = due_ms, group_type
        return out


def opened(closed: Hysteresis, state: Any) -> Hysteresis:
    """One with the times of another, and its own state."""
    return Hysteresis(closed.open_after_ms, closed.close_after_ms, *state)
