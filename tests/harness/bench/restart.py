"""From `kill -9` to ready again: from a snapshot, and as the others start."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from tests.harness.bench.catchup import COLUMNS, start
from tests.harness.bench.frame import MILLION, READY_S, Frame, tell
from tests.harness.bench.report import Row, Table
from tests.harness.bench.tools import KShadow, Running, has_option
from tests.waiting import until

INTERVAL_S = 2
SNAPSHOT = "kshadow from a snapshot"


def restart(frame: Frame) -> Table:
    """kshadow with and without a snapshot; the others have none and read everything again."""
    table = Table("restart", f"Restart after kill -9, {frame.sizes.commits:,} commits on the topic", COLUMNS)
    servers = frame.loaded().bootstrap_servers
    rivals: dict[str, Callable[[], Row]] = {}
    if has_option("--snapshots"):
        directory = frame.directory / "snapshots"
        ours = KShadow(SNAPSHOT, ("--snapshots", str(directory), "--snapshot-interval", f"{INTERVAL_S}s"))
        _kill_with_snapshot(frame, ours, servers, directory)
        rivals[ours.name] = lambda: start(frame, ours, servers, kill=True)
    else:
        table.notes.append(f"{SNAPSHOT}: left out, `kshadow run` has no --snapshots")
    for tool in frame.readers:
        rivals[tool.name] = lambda tool=tool: start(frame, tool, servers, kill=True)  # type: ignore[misc]
    frame.take_turns(table, rivals)
    ours_s = table.value(SNAPSHOT, "wall_s")
    table.number("seconds from a snapshot", ours_s, at_most=6 if frame.sizes.groups == MILLION.groups else 1)
    table.ratio("our time to ready / that from a snapshot", table.value("kshadow", "wall_s"), ours_s)
    for name in ("kminion", "Burrow"):
        table.ratio(f"{name}'s time busy / ours from a snapshot", table.value(name, "busy_s"), ours_s)
    return table


def _kill_with_snapshot(frame: Frame, tool: KShadow, servers: str, directory: Path) -> None:
    """Run until snapshots of everything are there, then kill."""
    with tool.running(servers, frame.directory) as it:
        it.service.until(lambda: tool.is_ready(it), READY_S)
        ready_s = time.monotonic()
        until(lambda: _age_s(it) < time.monotonic() - ready_s, READY_S, said=f"snapshots in {directory}")
        tell(f"snapshot: {_bytes(directory) / 1e6:.1f} MB")
        it.service.kill()


def _age_s(it: Running) -> float:
    """Of the partition's snapshot that is oldest; endless where there is none."""
    metrics = it.get("/metrics", 30.0) or b""
    found = re.search(rb"^kshadow_snapshot_age_seconds(?:{.*})? (\S+)$", metrics, re.MULTILINE)
    return inf if found is None else float(found[1])


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
