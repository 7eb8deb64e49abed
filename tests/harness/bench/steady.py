"""Keeping up: a writer commits at a rate, and what a tool shows is how old?"""

from __future__ import annotations

import statistics
import time

from tests.harness.bench.frame import READY_S, Frame, tell_row, usage_row
from tests.harness.bench.report import COSTS, Column, Row, Table
from tests.harness.bench.tools import KShadow, Running, Shards, Tool
from tests.harness.bench.writing import Writer, writing

COLUMNS = (
    Column("rate", "commits/s", 0),
    Column("cores", "CPU cores", 2),
    Column("us_a_commit", "CPU µs each", 2),
    Column("age_s", "age s", 2),
    Column("age_max_s", "oldest s", 2),
    Column("behind", "behind", 0),
    Column("after_s", "then s", 2),
    Column("scrape_s", "scrape s", 2),
    Column("scrape_max", "slowest s", 2),
    Column("page_s", "page s", 2),
    *COSTS[1:],
)
LOOK_S = 0.25


def steady(frame: Frame) -> Table:
    """One tool at a time; each has the machine to itself, but for the broker and the writer."""
    sizes = frame.sizes
    title = f"Steady state, {sizes.rate:,} commits/s for {sizes.seconds:g} s, {sizes.groups:,} groups"
    table = Table("steady", title, COLUMNS)
    first = 1
    servers = frame.loaded().bootstrap_servers
    shards = [Shards(f"kshadow, {count} shards", count=count) for count in sizes.shards]
    for tool in [*shards, *frame.readers]:
        with tool.running(servers, frame.directory) as it:
            row, first = _kept_up(frame, tool, it, first)
        table.rows[tool.name] = row
        tell_row(table, tool.name)
    if any(not tool.reads_topic for tool in frame.everybody):
        table.notes.append("kafka_exporter: left out, it asks the brokers, who do not see what others write here")
    for name in ("kminion", "Burrow"):
        ours, theirs = table.value("kshadow", "cores"), table.value(name, "cores")
        table.ratio(f"our CPU / {name}'s", ours, theirs)
    table.notes += [
        "age: of the newest of a group's commits (one each 20 ms) that the tool shows, median and largest;",
        f"each {sizes.scrape_s:g} s all are scraped and our page loaded; "
        "one that shows a group only so is looked at then;",
        "shards: CPU and memory of all together; asked one after the other, which is one scrape or page;",
        "behind: records, by what the tool itself says at the end; then: from the last commit to its being shown",
    ]
    return table


def _kept_up(frame: Frame, tool: Tool, it: Running, first: int) -> tuple[Row, int]:
    sizes = frame.sizes
    it.service.until(lambda: tool.is_ready(it), READY_S)
    time.sleep(sizes.settle_s)
    ages: list[float] = []
    scrapes: list[float] = []
    pages: list[float] = []
    with writing(it.servers, sizes.shape, sizes.groups, sizes.rate, sizes.seconds, frame.directory, first) as writer:
        before, began = it.service.usage(), time.monotonic()
        scrape_at = began + min(sizes.scrape_s, sizes.seconds / 2)
        while writer.is_at_work:
            time.sleep(LOOK_S)
            is_due = time.monotonic() >= scrape_at
            if is_due:
                scrape_at += sizes.scrape_s
                if tool.asks_cheaply:
                    scrapes.append(_timed(it, "/metrics"))
                if isinstance(tool, KShadow):
                    pages.append(_timed(it, "/"))
            if (is_due or tool.asks_cheaply) and (seen := tool.seen(it)) is not None and writer.is_at_work:
                ages.append(writer.age_s(seen))
        lasted, usage = time.monotonic() - began, it.service.usage()
        behind = tool.behind(it)
        after_s = _shown_after(tool, it, writer)
    used = usage_row(usage, before)
    cpu_s = used["cpu_s"] or 0.0
    row: Row = {
        "rate": writer.rate,
        "cores": cpu_s / lasted,
        "us_a_commit": cpu_s / lasted / writer.rate * 1e6,
        "age_s": statistics.median(ages) if ages else None,
        "age_max_s": max(ages, default=None),
        "behind": behind,
        "after_s": after_s,
        "scrape_s": statistics.median(scrapes) if scrapes else None,
        "scrape_max": max(scrapes, default=None),
        "page_s": statistics.median(pages) if pages else None,
        **used,
    }
    return row, writer.last() + 1


def _timed(it: Running, path: str) -> float:
    began = time.monotonic()
    it.get(path, READY_S)
    return time.monotonic() - began


def _shown_after(tool: Tool, it: Running, writer: Writer) -> float | None:
    """From the writer's last commit to when it is shown; None if it is not within a minute."""
    last = writer.last()
    while (age_s := writer.age_s(last)) < 60:
        if (tool.seen(it) or 0) >= last:
            return writer.age_s(last)
        time.sleep(LOOK_S)
    return None if age_s >= 60 else age_s
