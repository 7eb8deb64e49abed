"""Which value is in force of each option, and the settings they make. Pure.

The command line wins over the environment, that over the file; in the file a cluster's own entry wins over the
section of `run`, and that over the top. A value replaces a weaker one whole: lists and properties are not merged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from agent.config.contradictions import judge, judge_all
from agent.config.given import Misconfigured, Rank, Value, Values, Verdict
from agent.config.settings import (
    OPTION,
    ClusterSettings,
    HttpSettings,
    LogSettings,
    ProcessSettings,
    RunSettings,
    SnapshotPlace,
    options_of,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


PER_PROCESS = frozenset(name for it in (ProcessSettings, HttpSettings, LogSettings) for name in options_of(it))
"""Options that cannot differ by cluster."""

PER_CLUSTER = frozenset(options_of(ClusterSettings)) - {"cluster"}


NEEDS_BROKERS = (
    "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER); kshadow context set NAME --bootstrap-server "
    "HOST:9092 keeps it for all commands"
)


@dataclass(slots=True)
class FileOptions:
    """What a file says to `run`; `clusters` are the entries of its map, by name."""

    options: Values = field(default_factory=dict)
    clusters: dict[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effective:
    """What is in force: of the process, and of each cluster (None: the only one, which has no entry of its own)."""

    process: Values
    clusters: dict[str | None, Values]


def resolve(
    defaults: Values, given: Values, file: FileOptions, *, needs_brokers: bool = True
) -> tuple[Effective, RunSettings]:
    """What is in force. `given` is from the command line and the environment. Raises `Misconfigured`.

    Unless it `needs_brokers`, a cluster without an entry may lack them: they may still come from somewhere else.
    """
    verdict = Verdict()
    strong = {**defaults, **file.options, **given}
    effective = Effective(
        process={name: strong[name] for name in PER_PROCESS},
        clusters=_clusters(defaults, given, file, verdict)
        if file.clusters
        else {None: {name: strong[name] for name in (*PER_CLUSTER, "cluster")}},
    )
    for name, values in effective.clusters.items():
        if name is None and needs_brokers and not values["bootstrap-server"].value:
            verdict.problems.append(NEEDS_BROKERS)
        judge(values, defaults, verdict, name)
    if verdict.problems:
        raise Misconfigured(tuple(verdict.problems))
    return effective, _settings(effective, tuple(verdict.warnings))


def _clusters(defaults: Values, given: Values, file: FileOptions, verdict: Verdict) -> dict[str | None, Values]:
    out: dict[str, Values] = {}
    for option in ("cluster", "bootstrap-server"):
        # At the top of the file they are for the commands that ask one cluster.
        it = {**file.options, **given}.get(option)
        if it is not None and it.is_given and it.rank > Rank.FILE:
            verdict.problems.append(f"{it.where}: the file's clusters ({', '.join(file.clusters)}) have their own")
    for name, entry in file.clusters.items():
        strong = {**defaults, **file.options, **entry, **given}
        values = {option: strong[option] for option in PER_CLUSTER}
        values["bootstrap-server"] = entry.get("bootstrap-server", defaults["bootstrap-server"])
        values["cluster"] = Value(name, Rank.FILE_CLUSTER, f"clusters: {name}")
        if not values["bootstrap-server"].value:
            verdict.problems.append(f"cluster {name}: bootstrap-server is needed")
        for option, divided in (("state-dir", _subdirectory), ("snapshots", _place_below)):
            it = values[option]
            if option not in entry or it.rank > Rank.FILE_CLUSTER:
                values[option] = Value(divided(it.value, name), it.rank, it.where)
        out[name] = values
    judge_all(out, verdict)
    return dict(out.items())


def _subdirectory(directory: str | None, name: str) -> str | None:
    """Clusters that share a directory have one below it each."""
    return None if directory is None else f"{directory.rstrip('/')}/{name}"


def _place_below(place: SnapshotPlace | None, name: str) -> SnapshotPlace | None:
    if place is None or place.directory is None:
        return place
    return SnapshotPlace(directory=_subdirectory(place.directory, name))


def _settings(effective: Effective, warnings: tuple[str, ...]) -> RunSettings:
    process = effective.process.__getitem__
    return RunSettings(
        clusters=tuple(_build(ClusterSettings, values.__getitem__) for values in effective.clusters.values()),
        process=_build(ProcessSettings, process),
        http=_build(HttpSettings, process),
        log=_build(LogSettings, process),
        warnings=warnings,
    )


def _build(settings: type[T], value_of: Callable[[str], Value]) -> T:
    hints = get_type_hints(settings)
    arguments: dict[str, Any] = {}
    for it in fields(settings):
        hint = hints[it.name]
        if OPTION not in it.metadata:
            arguments[it.name] = _build(hint, value_of)
            continue
        value = value_of(it.metadata[OPTION]).value
        arguments[it.name] = hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value
    return settings(**arguments)
