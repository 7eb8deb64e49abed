"""What two settings differ in, and what of that can take effect while the agent runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agent.config.settings import LIVE, OPTION, RunSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


class Change(NamedTuple):
    """An option that has another value now, and of which cluster (None: the process, or the only cluster).

    An option of None is the cluster itself, which came or went.
    """

    option: str | None
    cluster: str | None = None

    def __str__(self) -> str:
        parts = [*(("clusters", self.cluster) if self.cluster else ()), *((self.option,) if self.option else ())]
        return ".".join(parts)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a reload did, and what it could not do."""

    applied: tuple[Change, ...] = ()
    needs_restart: tuple[Change, ...] = ()


def compare(running: RunSettings, wanted: RunSettings) -> tuple[RunSettings, Changes]:
    """The settings that run from now on, and what came of the difference.

    What needs a restart stays as it runs, so the next comparison names it again.
    """
    live: list[Change] = []
    stays: list[Change] = []

    def note(differences: Iterator[tuple[str, bool]], cluster: str | None = None) -> None:
        for option, is_live in differences:
            (live if is_live else stays).append(Change(option, cluster))

    if len(running.clusters) == len(wanted.clusters) == 1:
        pairs = {running.clusters[0].name: wanted.clusters[0]}
        note(_differences(running.clusters[0], wanted.clusters[0]))
    else:
        pairs = {it.name: it for it in wanted.clusters}
        names = {it.name for it in running.clusters}
        stays += (Change(None, name) for name in names ^ pairs.keys() if name is not None)
        for before in running.clusters:
            note(_differences(before, pairs.get(before.name, before)), before.name)
    note(_differences(running.process, wanted.process))
    note(_differences(running.http, wanted.http))
    note(_differences(running.log, wanted.log))
    merged = replace(
        running,
        clusters=tuple(_merged(it, pairs.get(it.name, it)) for it in running.clusters),
        process=_merged(running.process, wanted.process),
        http=_merged(running.http, wanted.http),
        log=_merged(running.log, wanted.log),
        warnings=wanted.warnings,
    )
    return merged, Changes(tuple(sorted(live, key=str)), tuple(sorted(stays, key=str)))


def _differences(before: Any, after: Any) -> Iterator[tuple[str, bool]]:
    for it in fields(before):
        old, new = getattr(before, it.name), getattr(after, it.name)
        if OPTION not in it.metadata:
            yield from _differences(old, new)
        elif old != new:
            yield it.metadata[OPTION], it.metadata[LIVE]


def _merged(running: T, wanted: T) -> T:
    changed: dict[str, Any] = {}
    for it in fields(running):
        old, new = getattr(running, it.name), getattr(wanted, it.name)
        if OPTION not in it.metadata:
            changed[it.name] = _merged(old, new)
        elif it.metadata[LIVE]:
            changed[it.name] = new
    return replace(running, **changed)
