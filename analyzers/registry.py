"""Which analyzers there are, and with which settings they run.

Every module of the package `analyzers` is looked into, and every entry point `kshadow.analyzers` that is installed.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from math import isfinite
from typing import Any

import analyzers
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.diagnosis.engine import AnalyzerFactory
from analyzers.api import Analyzer, ClusterAnalyzer, Settings

ENTRY_POINT = "kshadow.analyzers"

AnalyzerClass = type[Analyzer] | type[ClusterAnalyzer]


class AnalyzerConfigError(ValueError):
    """An analyzer or a setting that does not exist, or a value that makes no sense: what was expected, what came."""


def known_analyzers() -> dict[str, AnalyzerClass]:
    """Every analyzer there is, by name. Raises `AnalyzerConfigError` for an entry point that gives none."""
    found: dict[str, AnalyzerClass] = {}
    for module in sorted(pkgutil.iter_modules(analyzers.__path__), key=lambda it: it.name):
        found.update((kind.name, kind) for kind in _analyzer_classes(import_module(f"analyzers.{module.name}")))
    for entry in _installed():
        where = f"entry point {entry.name} = {entry.value}"
        try:
            kind = entry.load()
        except Exception as error:
            raise AnalyzerConfigError(f"{where}: {type(error).__name__}: {error}") from error
        if not (isinstance(kind, type) and issubclass(kind, Analyzer | ClusterAnalyzer)):
            raise AnalyzerConfigError(f"{where}: expected a subclass of Analyzer, got {kind!r}")
        if kind.name in found:
            raise AnalyzerConfigError(f"{where}: there is an analyzer {kind.name} already")
        found[kind.name] = kind
    return found


@cache
def _installed() -> list[EntryPoint]:
    """The entry points, by name. Looked for once: for that the names of all packages that are installed are read."""
    return sorted(entry_points(group=ENTRY_POINT), key=lambda it: it.name)


def parse_analyzer_names(names: str) -> list[str] | None:
    """The analyzers that a text asks for: `all` (None), `none`, or names. Raises `AnalyzerConfigError`."""
    if names in ("all", "none"):
        return None if names == "all" else []
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if not asked:
        # A variable that is not set, rather than somebody who wants nothing to be looked for.
        raise AnalyzerConfigError(f"expected all, none or names with commas, got {names!r}")
    return asked


def select_analyzers(
    names: Collection[str] | None = None, tuning: Mapping[str, str] | None = None
) -> AnalyzerSelection:
    """The analyzers to run: all unless told, with `tuning` (`analyzer.setting` to the value's text).

    Raises `AnalyzerConfigError`.
    """
    kinds = known_analyzers()
    for name in names or ():
        if name not in kinds:
            raise AnalyzerConfigError(f"no analyzer is called {name!r}; there are {', '.join(sorted(kinds))}")
    settings = {name: kind.settings_class() for name, kind in kinds.items()}
    for path, text in (tuning or {}).items():
        name, _, setting = path.partition(".")
        if name not in kinds:
            raise AnalyzerConfigError(f"{path}: no analyzer is called {name!r}; there are {', '.join(sorted(kinds))}")
        settings[name] = _with_setting(settings[name], path, setting, text)
    makes: list[AnalyzerFactory] = []
    cluster: list[ClusterAnalyzer] = []
    for name, kind in sorted(kinds.items()):
        if names is not None and name not in names:
            continue
        if issubclass(kind, Analyzer):
            makes.append(partial(kind, settings[name]))
        else:
            cluster.append(kind(settings[name]))
    return AnalyzerSelection(tuple(makes), tuple(cluster))


def _analyzer_classes(module: Any) -> Iterator[AnalyzerClass]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Analyzer | ClusterAnalyzer) and hasattr(value, "name"):
            yield value


def _with_setting(settings: Settings, path: str, setting: str, text: str) -> Settings:
    known_fields = {field.name: field for field in fields(settings)}
    field = known_fields.get(setting)
    if field is None:
        raise AnalyzerConfigError(f"{path}: no such setting; there are {', '.join(sorted(known_fields))}")
    kind = type(field.default)
    try:
        value = _READ[kind](text)
    except (KeyError, ValueError) as error:
        raise AnalyzerConfigError(f"{path}: expected {_CALLED[kind]}, got {text!r}") from error
    least = field.metadata.get("least", 0)
    if kind is not str and value < least:
        raise AnalyzerConfigError(f"{path}: expected at least {least}, got {text}")
    return replace(settings, **{setting: value})


def _read_float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def _read_bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_READ: dict[type, Any] = {bool: _read_bool, int: int, float: _read_float, str: str}
_CALLED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
