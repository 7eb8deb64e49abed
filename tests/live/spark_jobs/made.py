"""Histories for these tests, made by the project's own generator through its own command."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from agent.core.events.events import Event
from tests.live.spark_jobs.histories import replayed

KSHADOW = str(Path(sys.executable).with_name("kshadow"))


def segments(
    directory: Path,
    *,
    start_ms: int,
    days: int,
    groups: int,
    seed: int = 1,
    commits_every: str = "30m",
    partitions: int = 50,
) -> Path:
    """Segment files of a history."""
    start = datetime.fromtimestamp(start_ms / 1000, UTC).isoformat()
    sized = [
        "--groups",
        str(groups),
        "--duration",
        f"{days}d",
        "--commit-interval",
        commits_every,
        "--seed",
        str(seed),
        "--offsets-partitions",
        str(partitions),
    ]
    out = directory / "segments"
    command = [KSHADOW, "generate", *sized, "--start", start, "--out", str(out)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return out


def history(directory: Path, *, start_ms: int, days: int, groups: int, seed: int = 1) -> list[Event]:
    """The events of a history."""
    return replayed([segments(directory, start_ms=start_ms, days=days, groups=groups, seed=seed)])
