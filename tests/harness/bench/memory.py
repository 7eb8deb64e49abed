"""Memory by group-partitions: at none, at so many, at twice as many; the slope for each 100,000."""

from __future__ import annotations

import time

from tests.harness.bench import load
from tests.harness.bench.frame import READY_S, Frame, tell
from tests.harness.bench.measure import Usage
from tests.harness.bench.report import Column, Table
from tests.harness.bench.tools import Tool

UNIT = 100_000


def memory(frame: Frame) -> Table:
    """Each tool is started anew at each size, reads everything, and answers one scrape."""
    groups, steps = frame.sizes.memory_groups, range(frame.sizes.memory_steps + 1)
    shape = frame.sizes.memory_shape
    each = groups * shape.positions
    columns = [
        *(Column(f"rss_{step}", f"RSS at {step * each:,}", 0) for step in steps),
        Column("slope_mb", "MB/100,000", 1),
        Column("pss_mb", "PSS MB", 0),
        Column("peak_mb", "peak MB", 0),
        Column("peak_slope_mb", "peak/100,000", 1),
    ]
    table = Table("memory", f"Memory by group-partitions, {each:,} in {groups:,} groups a step", columns)
    taken: dict[str, list[Usage]] = {tool.name: [] for tool in frame.readers}
    with frame.broker() as broker:
        servers = broker.bootstrap_servers
        ids = load.make_topics(servers, shape)
        for step in steps:
            if step:
                frame.fill(broker, ids, shape, range((step - 1) * groups, step * groups))
            for tool in frame.readers:
                usage = _at_rest(frame, tool, servers)
                tell(f"memory, step {step}: {tool.name}: {usage.rss_mb:.0f} MB")
                taken[tool.name].append(usage)
    for name, usages in taken.items():
        table.rows[name] = {
            **{f"rss_{step}": usage.rss_mb for step, usage in enumerate(usages)},
            "slope_mb": _slope([usage.rss_mb for usage in usages], each),
            "pss_mb": usages[-1].pss_mb,
            "peak_mb": usages[-1].peak_mb,
            "peak_slope_mb": _slope([usage.peak_mb for usage in usages], each),
        }
    for name in ("kminion", "Burrow"):
        theirs, at_most = table.value(name, "slope_mb"), 2.0 if name == "kminion" else None
        table.ratio(
            f"our MB for each 100,000 / {name}'s", table.value("kshadow", "slope_mb"), theirs, at_most=at_most
        )
    table.notes.append("after one scrape of everything, and some seconds of rest")
    if any(not tool.reads_topic for tool in frame.everybody):
        table.notes.append("kafka_exporter: left out, it keeps nothing between scrapes")
    return table


def _at_rest(frame: Frame, tool: Tool, servers: str) -> Usage:
    with tool.running(servers, frame.directory) as it:
        it.service.until(lambda: tool.is_ready(it), READY_S)
        it.get("/metrics", 120.0)
        time.sleep(frame.sizes.settle_s)
        return it.service.usage()


def _slope(sizes_mb: list[float], each: int) -> float:
    """By least squares over equal steps: with three points, half of the last less the first."""
    count = len(sizes_mb)
    middle = (count - 1) / 2
    above = sum((step - middle) * size for step, size in enumerate(sizes_mb))
    return above / sum((step - middle) ** 2 for step in range(count)) / each * UNIT
