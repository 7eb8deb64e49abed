"""GET /metrics of many groups: the first and those that follow, while the topic is written to."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.harness.bench import load
from tests.harness.bench.frame import READY_S, Frame, tell_row, usage_row
from tests.harness.bench.measure import NotReadyError
from tests.harness.bench.report import COSTS, Column, Row, Table
from tests.harness.bench.tools import KShadow, Running, Tool, has_option
from tests.harness.bench.writing import Writer, writing

COLUMNS = (
    Column("cold_s", "first s", 2),
    Column("wall_s", "then s", 2),
    Column("wall_max", "slowest s", 2),
    Column("scrape_cpu_s", "CPU s each", 2),
    Column("series", "series", 0),
    Column("mb", "MB", 1),
    Column("age_s", "age s", 2),
    *COSTS[1:],
)
TIMEOUT_S = 120.0
SLOW_S = 15.0
"""Of a tool whose first scrape takes longer one more is measured, and no more."""
PAUSE_S = 0.02
RATE = 2_000
"""Commits a second meanwhile: what a quiet cluster writes."""
WANTED_S = {"group": 0.3, "topic": 1.0}


def scrape(frame: Frame) -> Table:
    """Every tool; kshadow at each granularity that it has."""
    groups, shape = frame.sizes.scrape_groups, frame.sizes.scrape_shape
    title = f"Scrape, {groups:,} groups of {shape.positions} positions over {shape.topics} topics"
    table = Table("scrape", title, COLUMNS)
    granularities = ("group", "topic", "partition") if has_option("--granularity") else ()
    ours: list[Tool] = [KShadow(f"kshadow, {it}", ("--granularity", it)) for it in granularities] or [KShadow()]
    first = 1
    with frame.broker() as broker:
        ids = load.make_topics(broker.bootstrap_servers, shape)
        frame.fill(broker, ids, shape, range(groups))
        for tool in [*ours, *frame.tools]:
            try:
                with tool.running(broker.bootstrap_servers, frame.directory) as it:
                    table.rows[tool.name], first = _scraped(frame, tool, it, first)
                tell_row(table, tool.name)
            except NotReadyError as error:
                table.notes.append(f"{tool.name}: {error}")
    _judge(table, ours)
    return table


def _judge(table: Table, ours: list[Tool]) -> None:
    for tool in ours:
        granularity = tool.name.rpartition(" ")[2]
        for key, what in (("cold_s", "first"), ("wall_s", "then")):
            at_most = WANTED_S.get(granularity)
            table.number(f"{tool.name}: {what}, s", table.value(tool.name, key), at_most=at_most)
    for name in ("kminion", "Burrow", "kafka_exporter"):
        theirs, mine = table.value(name, "wall_s"), table.value(ours[-1].name, "wall_s")
        table.ratio(f"{name}'s scrape / {ours[-1].name}", theirs, mine)
        theirs, mine = table.value(name, "scrape_cpu_s"), table.value(ours[-1].name, "scrape_cpu_s")
        table.ratio(f"{name}'s CPU for a scrape / {ours[-1].name}", theirs, mine)
    table.notes.append(
        f"age: the oldest answer about a group that commits each 20 ms, asked for without pause during as many "
        f"scrapes more, which count for nothing else; {RATE:,} commits/s are written meanwhile"
    )


def _scraped(frame: Frame, tool: Tool, it: Running, first: int) -> tuple[Row, int]:
    sizes = frame.sizes
    it.service.until(lambda: tool.is_ready(it), READY_S)
    time.sleep(sizes.settle_s)
    shape, groups = sizes.scrape_shape, sizes.scrape_groups
    with writing(it.servers, shape, groups, RATE, 24 * 3600, frame.directory, first) as writer:
        _await_sentinel(tool, it)
        cold_s, _ = _timed(it)
        count = sizes.scrapes if cold_s < SLOW_S else 1
        before = it.service.usage()
        walls, body = _timed_often(it, count)
        usage = it.service.usage()
        with _asking(tool, it, writer) as ages:
            _timed_often(it, count)
        last = writer.last()
    used = usage_row(usage, before)
    row: Row = {
        "cold_s": cold_s,
        "wall_s": statistics.median(walls),
        "wall_max": max(walls),
        "scrape_cpu_s": (used["cpu_s"] or 0.0) / len(walls),
        "series": sum(1 for line in body.splitlines() if line and not line.startswith(b"#")),
        "mb": len(body) / 1e6,
        "age_s": max(ages, default=None),
        **used,
    }
    return row, last + 1


def _timed_often(it: Running, count: int) -> tuple[list[float], bytes]:
    """How long each took, and the last one's body."""
    walls = []
    for _ in range(count):
        wall_s, body = _timed(it)
        walls.append(wall_s)
    return walls, body


def _timed(it: Running) -> tuple[float, bytes]:
    began = time.monotonic()
    body = it.get("/metrics", TIMEOUT_S)
    if body is None:
        raise NotReadyError(f"no answer to a scrape within {TIMEOUT_S:g} s")
    return time.monotonic() - began, body


@contextmanager
def _asking(tool: Tool, it: Running, writer: Writer) -> Iterator[list[float]]:
    """Ask for the sentinel without pause, in a thread: how old each answer is. Nothing where that is a scrape too."""
    ages: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        is_stopped = False
        while not is_stopped:
            if (seen := tool.seen(it)) is not None:
                ages.append(writer.age_s(seen))
            is_stopped = stop.wait(PAUSE_S)

    thread = threading.Thread(target=ask)
    if tool.asks_cheaply:
        thread.start()
    try:
        yield ages
    finally:
        stop.set()
        if tool.asks_cheaply:
            thread.join()


def _await_sentinel(tool: Tool, it: Running) -> None:
    """Until what is written meanwhile shows, where that can be seen without a scrape."""
    deadline = time.monotonic() + 10
    while tool.asks_cheaply and tool.seen(it) is None and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
