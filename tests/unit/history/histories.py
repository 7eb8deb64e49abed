"""A generated history as tables, made in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.core.events.events import Event
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from agent.runtime.offline import load
from analyzers.registry import select_analyzers
from tests.unit.cli.running import kshadow

START = "2026-07-06T00:00:00Z"
START_MS = 1_783_296_000_000


def segments(into: Path, *, groups: int = 8, days: int = 2, seed: int = 1) -> Path:
    """Segment files of a history."""
    sized = ("--groups", groups, "--duration", f"{days}d", "--commit-interval", "30m", "--seed", seed)
    made = kshadow("generate", *sized, "--start", START, "--offsets-partitions", 5, "--out", into)
    assert made.exit_code == 0, made.stderr
    return into


def events_of(directory: Path) -> list[Event]:
    """What `kshadow replay` tells of them."""
    return load([str(directory)], on_problem=lambda _: None, chosen=select_analyzers()).events()


def write(events: list[dict[str, Any]], into: Path) -> Path:
    """As an agent writes them."""
    ParquetSink(str(into)).write([encode_event(event, 0) for event in events])
    return into
