"""Which value is in force of each option, and the settings they make. Pure.

The command line wins over the environment, that over the file; in the file a cluster's own entry wins over the
section of `run`, and that over the top. A value replaces a weaker one whole: lists and properties are not merged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from msgspec import Struct, field

from agent.config.contradictions import check_cluster, check_clusters
from agent.config.settings import (
    OPTIONS,
    PER_CLUSTER,
    PER_PROCESS,
    SPEC,
    ClusterSettings,
    HttpSettings,
    LogSettings,
    ProcessSettings,
    RunSettings,
)
from agent.config.value_source import Diagnostics, GivenValue, GivenValues, InvalidSettings, ValueSource
from agent.config.values import SnapshotLocation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


NEEDS_BROKERS = (
    "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER); kshadow context set NAME --bootstrap-server "
    "HOST:9092 keeps it for all commands"
)


DEFAULTS: Final = {
    name: GivenValue(spec.typed_default, ValueSource.DEFAULT, f"--{name}") for name, spec in OPTIONS.items()
}
"""What each option is where nobody says anything."""


class FileOptions(Struct):
    """What a file says to `run`; `clusters` are the entries of its map, by name."""

    options: GivenValues = field(default_factory=dict)
    clusters: dict[str, GivenValues] = field(default_factory=dict)


class EffectiveValues(Struct, frozen=True):
    """What is in force: of the process, and of each cluster (None: the only one, which has no entry of its own)."""

    process: GivenValues
    clusters: dict[str | None, GivenValues]


def resolve(
    given: GivenValues, file: FileOptions, *, needs_brokers: bool = True
) -> tuple[EffectiveValues, RunSettings]:
    """What is in force. `given` is from the command line and the environment. Raises `InvalidSettings`.

    Unless it `needs_brokers`, a cluster without an entry may lack them: they may still come from somewhere else.
    """
    found = Diagnostics()
    strong = {**DEFAULTS, **file.options, **given}
    effective = EffectiveValues(
        process={name: strong[name] for name in PER_PROCESS},
        clusters=_clusters(given, file, found)
        if file.clusters
        else {None: {name: strong[name] for name in (*PER_CLUSTER, "cluster")}},
    )
    for name, values in effective.clusters.items():
        if name is None and needs_brokers and not values["bootstrap-server"].value:
            found.problems.append(NEEDS_BROKERS)
        check_cluster(values, DEFAULTS, found, name)
    if found.problems:
        raise InvalidSettings(tuple(found.problems))
    return effective, _settings(effective, tuple(found.warnings))


def _clusters(given: GivenValues, file: FileOptions, found: Diagnostics) -> dict[str | None, GivenValues]:
    out: dict[str, GivenValues] = {}
    for option in ("cluster", "bootstrap-server"):
        # At the top of the file they are for the commands that ask one cluster.
        it = {**file.options, **given}.get(option)
        if it is not None and it.is_given and it.source > ValueSource.FILE:
            found.problems.append(f"{it.place}: the file's clusters ({', '.join(file.clusters)}) have their own")
    for name, entry in file.clusters.items():
        strong = {**DEFAULTS, **file.options, **entry, **given}
        values = {option: strong[option] for option in PER_CLUSTER}
        values["bootstrap-server"] = entry.get("bootstrap-server", DEFAULTS["bootstrap-server"])
        values["cluster"] = GivenValue(name, ValueSource.FILE_CLUSTER, f"clusters: {name}")
        if not values["bootstrap-server"].value:
            found.problems.append(f"cluster {name}: bootstrap-server is needed")
        for option, divided in (("state-dir", _subdirectory), ("snapshots", _location_below)):
            it = values[option]
            if option not in entry or it.source > ValueSource.FILE_CLUSTER:
                values[option] = GivenValue(divided(it.value, name), it.source, it.place)
        out[name] = values
    check_clusters(out, found)
    return dict(out.items())


def _subdirectory(directory: str | None, name: str) -> str | None:
    """Clusters that share a directory have one below it each."""
    return None if directory is None else f"{directory.rstrip('/')}/{name}"


def _location_below(place: SnapshotLocation | None, name: str) -> SnapshotLocation | None:
    if place is None or place.directory is None:
        return place
    return SnapshotLocation(directory=_subdirectory(place.directory, name))


def _settings(effective: EffectiveValues, warnings: tuple[str, ...]) -> RunSettings:
    process = effective.process.__getitem__
    return RunSettings(
        clusters=tuple(_build(ClusterSettings, values.__getitem__) for values in effective.clusters.values()),
        process=_build(ProcessSettings, process),
        http=_build(HttpSettings, process),
        log=_build(LogSettings, process),
        warnings=warnings,
    )


def _build(settings: type[T], value_of: Callable[[str], GivenValue]) -> T:
    hints = get_type_hints(settings)
    arguments: dict[str, Any] = {}
    for it in fields(settings):
        hint = hints[it.name]
        if SPEC not in it.metadata:
            arguments[it.name] = _build(hint, value_of)
            continue
        value = value_of(it.metadata[SPEC].name).value
        arguments[it.name] = hint(value) if isinstance(hint, type) and issubclass(hint, Enum) else value
    return settings(**arguments)
