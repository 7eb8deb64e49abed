"""`--follow`: what is new, as it comes, one line each, until Ctrl-C or until nobody reads any more.

An agent is asked again every `--interval`; for brokers an agent runs in this process. One that goes away for a while
is waited for: that is said once.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from agent.cli.access import SOURCES, AgentAnswers, Form, Past, check_options, now_ms, reaching
from agent.cli.connecting import OPTIONS
from agent.cli.options import chosen_analyzers, client_properties, one_of
from agent.cli.output import bold, echo, warn
from agent.cli.tables import Column, line_of
from agent.cli.text import cell, json_text

if TYPE_CHECKING:
    from agent.runtime import Agent

OVERLAP_MS = 600_000
"""How far back is asked again: events are told in the order of the log, not of time, and findings by event time."""
MOST_SEEN = 20_000
CATCH_UP_S = 30.0
_WIDEST = 40


class Away(Exception):
    """Who is asked does not answer just now."""


class Seen:
    """What was printed already, by id; the oldest are forgotten."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def new(self, events: Iterable[Form]) -> list[Form]:
        """Those that were not there before, which are from now on."""
        out = []
        for event in events:
            if event["event_id"] not in self._ids:
                self._ids[event["event_id"]] = None
                out.append(event)
        while len(self._ids) > MOST_SEEN:
            del self._ids[next(iter(self._ids))]
        return out


class Lines:
    """Rows as lines: of a table whose columns keep the width that the first rows gave them, or of JSON."""

    def __init__(self, output: str, columns: Mapping[str, Column]) -> None:
        self._output, self._columns = output, columns
        self._widths: list[int] | None = None

    def show(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Print them, at once."""
        if self._output == "ndjson":
            for row in rows:
                echo(json_text(row))
            return
        texts = [[cell(row.get(key)) for key in self._columns] for row in rows]
        if self._widths is None:
            headings = [column.heading for column in self._columns.values()]
            self._widths = [min(max(map(len, column)), _WIDEST) for column in zip(headings, *texts, strict=True)]
            echo(bold(line_of(headings, self._widths)))
        for line in texts:
            echo(line_of(line, self._widths))


class OverHttp(AgentAnswers):
    """A running agent; once it has answered, it is waited for when it goes away."""

    patient = False

    def _fail(self, text: str) -> NoReturn:
        if self.patient:
            raise Away(text) from None
        super()._fail(text)


class InThisProcess:
    """The same of an agent that runs here."""

    live, as_of_ms = True, None

    def __init__(self, agent: Agent, where: str) -> None:
        self._agent, self.where, self.now_ms = agent, where, now_ms()

    def groups(self) -> list[Form]:
        """Every group's row."""
        return self._ready().groups()

    def describe(self, group: str) -> Form | None:
        """One group in full."""
        return self._ready().describe(group)

    def past(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Past | None:
        """What is remembered of it."""
        found = self._ready().timeline(group, since_ms, until_ms)
        return None if found is None else Past(list(found[0]), found[1])

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Form]:
        """Of all groups, or of one."""
        return list(self._ready().findings(since_ms, until_ms, group))

    def last(self, group: str) -> None:
        """It keeps no members that went."""

    def report(self, say: Callable[[str], None]) -> bool:
        """What is wrong with the data is counted, not said."""
        return False

    def _ready(self) -> Agent:
        health = self._agent.ready()
        if not health.ready:
            raise Away(health.reason)
        return self._agent


Live = OverHttp | InThisProcess


def follow(
    ctx: click.Context,
    poll: Callable[[Live], None],
    *,
    interval_s: float,
    output: str,
    group: str | None = None,
    lag: bool = False,
) -> NoReturn:
    """Call `poll`, which prints what is new, again and again. Comes back by an exception only."""
    if output not in ("table", "ndjson"):
        raise click.UsageError(f"--follow prints lines: -o table or -o ndjson, not {output}")
    for name in ("until", "sort_by", "limit"):
        if name in ctx.params and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for what is over; --follow goes on")
    away = False
    with _asked(ctx, group, lag=lag) as answers:
        while True:
            answers.now_ms = now_ms()
            try:
                poll(answers)
                away = False
                if isinstance(answers, OverHttp):
                    answers.patient = True
            except Away as error:
                if not away:
                    warn(f"({error}; waiting for it)")
                away = True
            _wait(interval_s)


@contextmanager
def _asked(ctx: click.Context, group: str | None, *, lag: bool) -> Iterator[Live]:
    kind = one_of(ctx, *SOURCES)
    if kind == "from_path":
        raise click.UsageError("--follow goes with --agent and --bootstrap-server: of files all is there at once")
    check_options(ctx, kind)
    if kind == "agent":
        yield OverHttp(ctx.params["agent"], {name: ctx.params.get(name) for name in OPTIONS})
        return
    with reaching(), agent_inside(ctx, group, lag=lag, timeout_s=CATCH_UP_S) as agent:
        while not agent.ready().ready and agent.alive().ready:
            _wait(0.05)
        yield InThisProcess(agent, f"at {ctx.params['bootstrap_server']}")


@contextmanager
def agent_inside(ctx: click.Context, group: str | None = None, *, lag: bool, timeout_s: float) -> Iterator[Agent]:
    """An agent in this process, for the brokers that the command was given.

    With `group` it reads the partition of that one alone. It has not caught up yet. Raises what `Agent.start`
    raises, within `timeout_s`.
    """
    from agent.coordinator.hashing import partition_of
    from agent.diagnosis.cluster import NOTHING
    from agent.runtime import Agent
    from agent.source.brokers import coordinators

    conf = client_properties(ctx.params["bootstrap_server"], ctx.params["properties"])
    analyzes = "analyzer_names" in ctx.params
    chosen = chosen_analyzers(ctx.params["analyzer_names"], ctx.params["tuned"]) if analyzes else NOTHING
    partitions = None if group is None else [partition_of(group, coordinators(conf)[0])]
    agent = Agent(conf, partitions=partitions, chosen=chosen, lag_interval_s=10.0 if lag else None)
    try:
        agent.start(timeout_s)
        yield agent
    finally:
        agent.stop(3.0)


def _wait(seconds: float) -> None:
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
