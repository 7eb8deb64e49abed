"""`kshadow watch`: the groups live, on a full screen or as lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from agent.cli.options import SOURCES, analyzer_options, exactly_one_of, option, source_options
from agent.cli.output import echo, printable
from agent.common.clock import now_ms
from agent.config.options import FloatRange

if TYPE_CHECKING:
    from agent.cli.answers import Answers
    from agent.cli.tui.poller import Poller

MIN_INTERVAL_S, MAX_INTERVAL_S = 0.2, 3600.0


@click.command()
@source_options
@analyzer_options
@option(
    "--interval",
    type=FloatRange(MIN_INTERVAL_S, MAX_INTERVAL_S),
    default=2.0,
    metavar="SECONDS",
    help="How often to ask.",
)
@option("--plain", is_flag=True, help="Lines instead of a screen: a summary, then one line for each change.")
@click.pass_context
def watch(ctx: click.Context, /, interval: float, plain: bool, **_: Any) -> None:
    """Watch the groups live, full screen.

    Groups with problems come first. Enter opens a group: members and partitions as a map, rebalances with their
    causes and costs as they happen, lag, findings with advice. ? shows all keys, q quits.

    --agent asks a running agent; --bootstrap-server runs one for as long as the command runs; --from shows the end of
    files. --plain moves no cursor and has no colour, for screen readers; it is also used if standard input or output
    is not a terminal, or TERM is dumb. NO_COLOR is respected.

    \b
    Examples:
      kshadow watch --agent http://localhost:9308
      kshadow watch --bootstrap-server localhost:9092
      kshadow watch --from /var/lib/kafka/data --plain
      kshadow watch --agent http://localhost:9308 --plain | grep rebalance
    """
    from agent.cli.tui.poller import Poller

    code = 0
    with _source(ctx) as source:
        asker = Poller(source, now_ms)
        if plain or not _has_screen():
            _lines(asker, interval)
        else:
            code = _screen(asker, interval)
    if code:
        ctx.exit(code)


def _has_screen() -> bool:
    """Whether there is a terminal that can do more than lines."""
    both = sys.stdin.isatty() and sys.stdout.isatty()
    return both and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def _lines(asker: Poller, interval: float) -> None:
    from agent.cli.following import wait
    from agent.cli.tui.plain import watch_as_lines as tell

    tell(asker, interval, lambda text: echo(printable(text)), wait)


def _screen(asker: Poller, interval: float) -> int:
    # textual asks for it when it is imported.
    coloured = not os.environ.get("NO_COLOR") and _has_colours()
    if not coloured:
        os.environ["NO_COLOR"] = "1"
    from agent.cli.tui.app import WatchApp

    app = WatchApp(asker, interval, coloured=coloured)
    app.run()
    return app.return_code or 0


def _has_colours() -> bool:
    """What terminfo says of the terminal; where it says nothing, yes."""
    import curses

    try:
        curses.setupterm()
    except curses.error:
        return True
    return curses.tigetnum("colors") >= 8


@contextmanager
def _source(ctx: click.Context) -> Iterator[Answers]:
    """Who is asked. What cannot be reached at first ends the command, as it ends others."""
    from agent.cli.agent_client import AgentClient
    from agent.cli.data_source import check_source_options, open_source, source_errors_reported

    kind = exactly_one_of(ctx, *SOURCES)
    check_source_options(ctx, kind)
    if kind == "bootstrap_server":
        from agent.cli.following import InProcessAnswers, agent_in_process

        with source_errors_reported(), agent_in_process(ctx, lag=True) as agent:
            yield InProcessAnswers(agent.queries, f"at {ctx.params['bootstrap_server']}")
        return
    with open_source(ctx, history=True) as answers:
        if isinstance(answers, AgentClient):
            answers.reach()
        yield answers
