"""How the analyzers of a partition's groups are written: those that run say what there is to write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from functools import partial
from typing import Any

import msgspec

from agent.core.diagnosis.api import Analyzer, ClusterAnalyzer, Settings
from agent.core.diagnosis.consumption import Consumption
from agent.core.diagnosis.engine import (
    AnalyzerFactory,
    AnalyzerFailure,
    AnalyzerRun,
    GroupAnalyzers,
    PartitionDiagnosis,
)
from agent.core.diagnosis.hysteresis import Hysteresis
from agent.core.shadow.mirror import PartitionMirror
from agent.core.state_fields import StateFields
from agent.persistence.snapshot import third_party_state
from agent.persistence.snapshot.codec import Form, Forms, Packing, Unpacking, generic
from agent.persistence.snapshot.errors import MALFORMED
from agent.persistence.snapshot.migrations import FORMAT

log = logging.getLogger("kshadow")


def analyzer_form(forms: Forms, analyzer: Analyzer | ClusterAnalyzer, make: Callable[[], Any]) -> Form:
    """How analyzers of its class are written; None where the state is that of a new one.

    `analyzer` must be new; `make` gives more of them.
    """
    cls: Any = type(analyzer)
    declared = cls.__dict__.get("STATE")
    if not isinstance(declared, StateFields):
        return _third_party_form(analyzer, make)
    if not declared:
        return Form(None, "", lambda it, to: None, lambda state, by: make())
    fields = third_party_state.fields_of(analyzer)
    settings = {name: value for name, value in fields.items() if name not in declared}

    def blank() -> Any:
        it = cls.__new__(cls)
        for name, value in settings.items():
            setattr(it, name, value)
        return it

    form = forms.of_class(cls, make=blank)
    new = form.pack(analyzer, Packing()) if forms.version == FORMAT else None

    def pack(it: Any, to: Packing) -> Any:
        state = form.pack(it, to)
        return None if state == new else state

    def unpack(state: Any, by: Unpacking) -> Any:
        return make() if state is None else form.unpack(state, by)

    return Form(form.plain | None, form.layout, pack, unpack)


def _third_party_form(analyzer: Analyzer | ClusterAnalyzer, make: Callable[[], Any]) -> Form:
    cls = type(analyzer)

    def pack(it: Any, to: Packing) -> Any:
        try:
            return third_party_state.pack(it)
        except third_party_state.UnsupportedValue as error:
            to.omitted[it.name] = str(error)
            return None

    def unpack(state: Any, by: Unpacking) -> Any:
        it = make()
        if state is not None:
            third_party_state.unpack(it, state)
        return it

    classes = ",".join(f"{it.__module__}.{it.__qualname__}" for it in third_party_state.classes_of(cls))
    return Form(dict[str, Any] | None, f"{cls.__module__}.{cls.__qualname__}[{classes}]", pack, unpack)


def settings_text(name: str, settings: Settings) -> str:
    """An analyzer and its settings, as the fingerprint has them."""
    names = (field.name for field in fields(settings))
    return f"{name}({','.join(f'{name}={value!r}' for name, value in zip(names, astuple(settings), strict=True))})"


def hysteresis_form(forms: Forms, settings: Settings) -> Form:
    """How the hysteresis of an analyzer with these settings is written: its times come from them."""
    times = Hysteresis.of(settings)
    return forms.of_class(Hysteresis, make=lambda: Hysteresis(times.open_after_ms, times.close_after_ms))


class AnalyzerStates:
    """Writes and reads what the analyzers that run know of the groups of one partition."""

    def __init__(self, forms: Forms, makes: Sequence[AnalyzerFactory]) -> None:
        new = [make() for make in makes]
        self._makes = makes
        self._classes = [type(it) for it in new]
        self._analyzers = [analyzer_form(forms, it, make) for it, make in zip(new, makes, strict=True)]
        self._hysteresis = [hysteresis_form(forms, it.settings) for it in new]
        closed = forms.of_class(Hysteresis)
        self._closed = closed.pack(Hysteresis(0, 0), Packing()) if forms.version == FORMAT else None
        # By analyzer: hysteresis and state; True: as new, False: dropped.
        runs = (generic(tuple, closed.plain | None, form.plain) | bool for form in self._analyzers)
        layouts = "".join(f"{it.name}:{form.layout};" for it, form in zip(new, self._analyzers, strict=True))
        watches = Form(generic(tuple, *runs), f"{closed.layout};{layouts}", self._pack_runs, self._unpack_runs)
        self._group = forms.of_class(GroupAnalyzers, special={"watches": watches})
        # Half of a start was to put these together. They stay as bytes until they are asked for.
        self._consumption = forms.of(Consumption)
        self._decode_consumption = msgspec.msgpack.Decoder(self._consumption.plain).decode
        self._decode_runs = msgspec.msgpack.Decoder(watches.plain).decode
        plain = generic(tuple, msgspec.Raw, int | None, str, msgspec.Raw)
        groups = forms.mapping(dict, str, Form(plain, self._group.layout, self._pack_group))
        groups = groups._replace(unpack=self._unpack_groups)
        self.form = forms.of_class(PartitionDiagnosis, special={"_groups": groups})
        self.settings = ";".join(settings_text(it.name, it.settings) for it in new)

    def _pack_group(self, it: GroupAnalyzers, to: Packing) -> Any:
        # Nothing is shared between groups: so that one can be read without those before it.
        return self._group.pack(it, to.apart())

    def _unpack_groups(self, plain: Any, by: Unpacking) -> dict[str, GroupAnalyzers]:
        out: dict[str, GroupAnalyzers] = {}
        for name, (consumption, due_ms, group_type, runs) in plain.items():
            # Copies, so that the image itself can go.
            restore = partial(self._put_together, name, consumption.copy(), runs.copy(), by)
            out[name] = GroupAnalyzers.restored_later(group_type, due_ms, restore)
        return out

    def _put_together(
        self, group: str, consumption: msgspec.Raw, runs: msgspec.Raw, by: Unpacking
    ) -> tuple[Consumption, tuple[AnalyzerRun, ...]]:
        try:
            return (
                self._consumption.unpack(self._decode_consumption(consumption), by),
                self._unpack_runs(self._decode_runs(runs), by.apart()),
            )
        except MALFORMED as error:
            log.error("group %r: what its analyzers knew cannot be read, so they begin anew: %s", group, error)
            new = GroupAnalyzers(self._makes)
            return new.consumption, new.watches

    def _pack_runs(self, runs: Sequence[AnalyzerRun], to: Packing) -> Any:
        left, out = iter(runs), list[Any]()
        run = next(left, None)
        for cls, analyzer, hysteresis in zip(self._classes, self._analyzers, self._hysteresis, strict=True):
            if run is None or type(run.analyzer) is not cls:
                out.append(False)
                continue
            finding, state = None, analyzer.pack(run.analyzer, to)
            if run.hysteresis is not None:
                finding = hysteresis.pack(run.hysteresis, to)
            if finding == self._closed:
                finding = None
            out.append(True if finding is None and state is None else (finding, state))
            run = next(left, None)
        return tuple(out)

    def _unpack_runs(self, plain: Any, by: Unpacking) -> tuple[AnalyzerRun, ...]:
        out: list[AnalyzerRun] = []
        forms = zip(self._makes, self._analyzers, self._hysteresis, strict=True)
        for (make, analyzer, hysteresis), packed in zip(forms, plain, strict=True):
            if packed is False:
                continue
            finding, state = (None, None) if packed is True else packed
            found = None if finding is None else hysteresis.unpack(finding, by)
            out.append(AnalyzerRun(make() if state is None else analyzer.unpack(state, by), found))
        return tuple(out)

    def unpack(
        self,
        plain: Any,
        by: Unpacking,
        mirror: PartitionMirror,
        on_failure: Callable[[AnalyzerFailure], None] | None,
    ) -> PartitionDiagnosis:
        """The analyzers of a mirror that was unpacked."""
        out = PartitionDiagnosis(mirror, self._makes, on_failure=on_failure)
        self.form.unpack(plain, by, out)
        return out
