"""Values as people would write them, without secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent.config.commandconfig import CommandConfig
from agent.config.secrets import shown, shown_properties
from agent.config.settings import Address, Shard, SnapshotPlace

_DURATIONS = {"snapshot-interval", "history-roll", "history-samples", "lag-interval", "expire-after"}
_TIMES = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def form(option: str, value: Any) -> Any:
    """An option's value as JSON has it."""
    match value:
        case tuple() if option == "property":
            return shown_properties(value)
        case tuple() if option == "tune":
            return dict(value)
        case tuple():
            return list(value)
        case Address():
            return f"[{value.host}]:{value.port}" if ":" in value.host else f"{value.host}:{value.port}"
        case Shard() | SnapshotPlace() | CommandConfig():
            return str(value)
        case str():
            return shown(value)
        case int() if option == "spool-size":
            return _in_units(value, _SIZES, "")
        case int() if option in _DURATIONS:
            return _in_units(value, _TIMES, "ms")
        case None if option == "expire-after":
            return "never"
        case _:
            return value


def words(option: str, value: Any) -> str:
    """An option's value as one text; empty for nothing."""
    return ", ".join(_words(form(option, value)))


def _in_units(value: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    for unit, size in units:
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return f"{value}{smallest}"


def _words(value: Any) -> Iterator[str]:
    match value:
        case dict():
            yield from (f"{name}={text}" for name, text in value.items())
        case list():
            yield from map(str, value)
        case bool():
            yield "true" if value else "false"
        case None:
            return
        case _:
            yield f"{value:g}" if isinstance(value, float) else str(value)
