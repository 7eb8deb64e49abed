"""`--follow`: what is new, as it comes, one line each, until Ctrl-C or until nobody reads any more.

An agent is asked again every `--interval`; for brokers an agent runs in this process. One that goes away for a while
is waited for: that is said once.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.agent_client import AgentClient
from agent.cli.answers import Answers, SourceAway, SourceNotReady
from agent.cli.data_source import check_source_options, source_errors_reported
from agent.cli.options import AGENT_OPTIONS, SOURCES, choose_analyzers, exactly_one_of, librdkafka_config, typed
from agent.cli.output import bold, echo, line_text, warn
from agent.cli.reading import partitions_of_group
from agent.cli.tables import Column, row_line
from agent.cli.text import cell
from agent.common.clock import now_ms
from agent.core.queries import GroupQueries, Health, JsonObject, Timeline

if TYPE_CHECKING:
    from agent.runtime.agent import Agent

OVERLAP_MS = 600_000
"""How far back is asked again: events are told in the order of the log, not of time, and findings by event time."""
MAX_SEEN = 20_000
_MAX_COLUMN_WIDTH = 40


class SeenEvents:
    """What was printed already, by id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def only_new(self, events: Iterable[JsonObject]) -> list[JsonObject]:
        """Those that were not there before, which are from now on."""
        out = []
        for event in events:
            if event["event_id"] not in self._ids:
                self._ids[event["event_id"]] = None
                out.append(event)
        while len(self._ids) > MAX_SEEN:
            del self._ids[next(iter(self._ids))]
        return out


class RowPrinter:
    """Rows as lines: of a table whose columns keep the width that the first rows gave them, or of JSON."""

    def __init__(
        self,
        output: str,
        columns: Mapping[str, Column],
        shown: Callable[[JsonObject], Mapping[str, Any]] = lambda row: row,
    ) -> None:
        """`shown` makes a table's row."""
        self._output, self._columns, self._shown = output, columns, shown
        self._widths: list[int] | None = None

    def print(self, rows: Iterable[JsonObject]) -> None:
        """Print them, at once."""
        if self._output == "ndjson":
            for row in rows:
                echo(line_text(row))
            return
        texts = [[cell(row.get(key)) for key in self._columns] for row in map(self._shown, rows)]
        if self._widths is None:
            headings = [column.heading for column in self._columns.values()]
            self._widths = [
                min(max(map(len, column)), _MAX_COLUMN_WIDTH) for column in zip(headings, *texts, strict=True)
            ]
            echo(bold(row_line(headings, self._widths)))
        for line in texts:
            echo(row_line(line, self._widths))


class InProcessAnswers(Answers):
    """An agent that runs in this process."""

    def __init__(self, queries: GroupQueries, where: str) -> None:
        self._queries, self.where = queries, where

    @property
    def now_ms(self) -> int:
        """The clock on the wall."""
        return now_ms()

    def ready(self) -> Health:
        """Not before it has read the topic to its end once."""
        return self._queries.ready()

    def groups(self) -> list[JsonObject]:
        """Every group's row."""
        return self._queries.groups()

    def describe(self, group: str) -> JsonObject | None:
        """One group in full."""
        return self._queries.describe(group)

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """What is remembered of it."""
        return self._queries.timeline(group, since_ms, until_ms)

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """Of all groups, or of one."""
        return self._queries.findings(since_ms, until_ms, group)

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        """As far back as they are remembered."""
        return self._queries.findings_complete_since_ms(group)


def follow(
    ctx: click.Context, poll: Callable[[Answers], None], group: str | None = None, *, lag: bool = False
) -> NoReturn:
    """Call `poll`, which prints what is new, each `--interval`. Comes back by an exception only."""
    if (output := ctx.params["output"]) not in ("table", "ndjson"):
        raise click.UsageError(f"--follow prints lines: -o table or -o ndjson, not {output}")
    for name in typed(ctx, "until", "sort_by", "limit"):
        raise click.UsageError(f"--{name.replace('_', '-')} is for what is over; --follow goes on")
    away = False
    with _live_source(ctx, group, lag=lag) as answers:
        while True:
            try:
                _poll_if_ready(answers, poll)
                away = False
                if isinstance(answers, AgentClient):
                    answers.raises_when_away = True
            except SourceAway as error:
                if not away:
                    warn(f"({error}; waiting for it)")
                away = True
            wait(ctx.params["interval"])


def _poll_if_ready(answers: Answers, poll: Callable[[Answers], None]) -> None:
    """While nothing is read, that nothing is new says nothing. Raises `SourceAway` then."""
    if not (health := answers.ready()).ready:
        raise SourceAway(health.reason)
    try:
        poll(answers)
    except SourceNotReady:
        # An agent that was ready a moment ago says itself why it is no longer; else too many ask it.
        if (health := answers.ready()).ready:
            raise
        raise SourceAway(health.reason) from None


@contextmanager
def _live_source(ctx: click.Context, group: str | None, *, lag: bool) -> Iterator[Answers]:
    kind = exactly_one_of(ctx, *SOURCES)
    if kind == "from_path":
        raise click.UsageError("--follow goes with --agent and --bootstrap-server: of files all is there at once")
    check_source_options(ctx, kind)
    if kind == "agent":
        yield AgentClient(ctx.params["agent"], {name: ctx.params.get(name) for name in AGENT_OPTIONS})
        return
    with source_errors_reported(), agent_in_process(ctx, group, lag=lag) as agent:
        while not agent.queries.ready().ready and agent.queries.alive().ready:
            wait(0.05)
        yield InProcessAnswers(agent.queries, f"at {ctx.params['bootstrap_server']}")


@contextmanager
def agent_in_process(ctx: click.Context, group: str | None = None, *, lag: bool) -> Iterator[Agent]:
    """An agent in this process, for the brokers that the command was given.

    With `group` it reads the partition of that one alone. It has not caught up yet. Raises what `Agent.start`
    raises.
    """
    from agent.config.settings import PLAIN_CLUSTER, LagSettings
    from agent.core.diagnosis.cluster import NO_ANALYZERS
    from agent.runtime.agent import Agent
    from agent.runtime.parts import AgentOptions

    conf = librdkafka_config(ctx.params["bootstrap_server"], ctx.params["properties"])
    analyzes = "analyzer_names" in ctx.params
    chosen = choose_analyzers(ctx.params["analyzer_names"], ctx.params["tuned"]) if analyzes else NO_ANALYZERS
    partitions = None if group is None else partitions_of_group(conf, ctx.params["group_partitioner"], group)
    told = ctx.params.get("broker_config", ())
    settings = replace(PLAIN_CLUSTER, lag=LagSettings(enabled=lag, interval_ms=10_000), broker_config=told)
    options = AgentOptions(conf=conf, settings=settings, partitions=partitions, analyzers=chosen)
    agent = Agent(options)
    try:
        agent.start()
        yield agent
    finally:
        agent.stop(3.0)


def wait(seconds: float) -> None:
    """Sleep; a pipe that nobody reads any more ends it, as writing to it would."""
    try:
        poller = select.poll()
        poller.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError, AttributeError):
        time.sleep(seconds)
        return
    end = time.monotonic() + seconds
    if poller.poll(seconds * 1000) and not sys.stdout.isatty():
        raise BrokenPipeError
    time.sleep(max(end - time.monotonic(), 0))
