"""From the start of a process to ready: every record of the topic read and mirrored."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.harness.bench.frame import READY_S, Frame, ready_row
from tests.harness.bench.measure import run
from tests.harness.bench.report import COSTS, Column, Row, Table
from tests.harness.bench.tools import KShadow, Tool

COLUMNS = (
    Column("wall_s", "ready s", 2),
    Column("wall_min", "min", 2),
    Column("wall_max", "max", 2),
    Column("busy_s", "busy s", 2),
    *COSTS,
)

WORKERS = 2
"""Processes that share the partitions, in a row of their own: for this load none are started unasked."""


def catchup(frame: Frame) -> Table:
    """Every reader, and the loop that nobody can beat."""
    sizes = frame.sizes
    table = Table("catchup", f"Catch-up with {sizes.commits:,} commits on a live topic", COLUMNS)
    servers = frame.loaded().bootstrap_servers
    bare = [sys.executable, "-m", "tests.harness.bench.bare", servers]
    rivals: dict[str, Callable[[], Row]] = {
        tool.name: lambda tool=tool: start(frame, tool, servers)  # type: ignore[misc]
        for tool in frame.readers
    }
    shared = KShadow(f"kshadow, {WORKERS} workers", ("--workers", str(WORKERS)))
    rivals[shared.name] = lambda: start(frame, shared, servers)
    rivals["bare consume loop"] = lambda: _ended(frame, bare)
    rivals["bare loop + dict"] = lambda: _ended(frame, [*bare, "--dict"])
    frame.take_turns(table, rivals)
    ours = table.value("kshadow", "wall_s")
    bare_s = table.value("bare consume loop", "wall_s")
    table.ratio("our speed / the bare loop's", bare_s, ours, at_least=0.8)
    table.ratio(f"… with {WORKERS} workers", bare_s, table.value(shared.name, "wall_s"), at_least=1.3)
    for name in ("kminion", "Burrow"):
        # Not until it says that it is ready: kminion looks for that every twelve seconds.
        at_least = 2.0 if name == "kminion" else None
        table.ratio(f"{name}'s time busy / ours to ready", table.value(name, "busy_s"), ours, at_least=at_least)
        at_most = 0.5 if name == "kminion" else None
        cpu_s = table.value(name, "cpu_s")
        table.ratio(f"our CPU / {name}'s", table.value("kshadow", "cpu_s"), cpu_s, at_most=at_most)
    table.number("our peak memory, MB", table.value("kshadow", "peak_mb"), at_most=300)
    table.notes.append("busy: by when 95 % of the CPU up to ready was spent; kminion looks every 12 s if it is ready")
    return table


def start(frame: Frame, tool: Tool, servers: str, *, kill: bool = False) -> Row:
    """Start a tool and wait until it is ready; what that cost. `kill`: it may not write anything down at its end."""
    with tool.running(servers, frame.directory) as it:
        row = ready_row(it.service.until(lambda: tool.is_ready(it), READY_S))
        if kill:
            it.service.kill()
        return row


def _ended(frame: Frame, command: list[str]) -> Row:
    cost = run(command, output=frame.directory / "out")
    return {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "peak_mb": cost.peak_mb}
