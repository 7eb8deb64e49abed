"""Events of the jobs against events of `kshadow replay`: what is there on one side only, or differs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds

from agent.core.events.events import Event
from agent.persistence.export.columns import row_to_event
from agent.runtime.offline import load
from analyzers.registry import select_analyzers


class Difference(NamedTuple):
    events: int
    missing: int
    unexpected: int
    of_other_content: int
    twice: int

    @property
    def is_none(self) -> bool:
        return not any(self[1:])


def written(directory: Path) -> list[Event]:
    """Every event of a directory of Parquet, as pyarrow reads it: nothing of Spark."""
    table = ds.dataset(directory, format="parquet").to_table()
    return [row_to_event(row) for row in table.to_pylist()]


def replayed(paths: Iterable[Path], cluster: str | None = None) -> list[Event]:
    problems: list[str] = []
    return load(map(str, paths), cluster=cluster, on_problem=problems.append, chosen=select_analyzers()).events()


def difference(expected: Iterable[Event], came: Iterable[Event]) -> Difference:
    came = list(came)
    by_id = _by_id(expected)
    found = _by_id(came)
    other = sum(by_id[it] != found[it] for it in by_id.keys() & found.keys())
    return Difference(
        len(by_id), len(by_id.keys() - found.keys()), len(found.keys() - by_id.keys()), other, len(came) - len(found)
    )


def _by_id(events: Iterable[Event]) -> dict[str, dict[str, Any]]:
    return {event["event_id"]: event for event in events}
