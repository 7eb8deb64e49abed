"""`kshadow watch`: the groups live, on a full screen or as lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.access import SOURCES, AgentAnswers, Form, Past, now_ms
from agent.cli.options import analyzer_options, one_of, option, source_options
from agent.cli.output import echo, printable, warn

if TYPE_CHECKING:
    from agent.cli.access import Answers
    from agent.runtime import Agent
    from agent.watching.asking import Asker
    from agent.watching.source import Health, Source

LEAST_S, MOST_S = 0.2, 3600.0
CATCH_UP_S = 10.0
"""How long a broker may take to be reached at first."""


@click.command()
@source_options
@analyzer_options
@option(
    "--interval",
    type=click.FloatRange(LEAST_S, MOST_S),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to ask.",
)
@option("--plain", is_flag=True, help="Lines instead of a screen: a summary, then one line for each change.")
@click.pass_context
def watch(ctx: click.Context, /, interval: float, plain: bool, **_: Any) -> None:
    """Watch the groups live, full screen.

    The groups by trouble; Enter opens one: members and partitions as a map, rebalances with their causes and costs as
    they happen, lag, findings with advice. ? shows all keys, q ends it.

    With --agent a running agent is asked, with --bootstrap-server one runs inside, for as long as this does. --from
    shows where files end. --plain moves no cursor and has no colour: for screen readers. It is also what there is
    where standard input or output is no terminal, or TERM is dumb. NO_COLOR is heeded.

    \b
    Examples:
      kshadow watch --agent http://localhost:9308
      kshadow watch --bootstrap-server localhost:9092
      kshadow watch --from /var/lib/kafka/data --plain
      kshadow watch --agent http://localhost:9308 --plain | grep rebalance
    """
    from agent.watching.asking import Asker

    code = 0
    with _source(ctx) as source:
        asker = Asker(source, now_ms)
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


def _lines(asker: Asker, interval: float) -> None:
    from agent.watching.plain import plain as tell

    tell(asker, interval, lambda text: echo(printable(text)))


def _screen(asker: Asker, interval: float) -> int:
    # textual asks for it when it is imported.
    coloured = not os.environ.get("NO_COLOR") and _has_colours()
    if not coloured:
        os.environ["NO_COLOR"] = "1"
    from agent.watching.app import WatchApp

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
def _source(ctx: click.Context) -> Iterator[Source]:
    """Who is asked. What cannot be reached at first ends the command, as it ends others."""
    from agent.cli.access import ask, check_options, reaching

    kind = one_of(ctx, *SOURCES)
    check_options(ctx, kind)
    if kind == "bootstrap_server":
        from agent.cli.following import agent_inside

        with reaching(), agent_inside(ctx, lag=True, timeout_s=CATCH_UP_S) as agent:
            yield InThisProcess(agent, f"at {ctx.params['bootstrap_server']}")
        return
    with ask(ctx, history=True) as answers:
        if not isinstance(answers, AgentAnswers):
            yield Still(answers)
            if answers.report(warn):
                ctx.exit(1)
            return
        from agent.watching.source import Away, NotReady

        asked = OverHttp.over(answers)
        try:
            asked.health()
        except NotReady:
            pass
        except Away:
            # The same once more, and this time it ends the command as it ends others.
            answers.groups()
        yield asked


class OverHttp(AgentAnswers):
    """A running agent, asked again and again: what fails once is tried again."""

    _cluster: str | None = None

    @classmethod
    def over(cls, answers: AgentAnswers) -> OverHttp:
        """The same agent by the same connection: another would read the password again, and warn again."""
        made = cls.__new__(cls)
        vars(made).update(vars(answers))
        return made

    def health(self) -> Health:
        """`GET /api/v1/status`; of an agent too old to have it, that it answers."""
        from agent.watching.source import Away, Health

        try:
            _, form = self._get("/api/v1/status")
        except Away as away:
            if " answered 404 " in str(away):
                return Health(True, "")
            raise
        if not isinstance(form, dict) or not isinstance(form.get("ready"), bool):
            self._fail(f"{self.url}: no kshadow agent answers there, or one of another version")
        return Health(form["ready"], str(form.get("reason", "")))

    def describe(self, group: str, *, cluster: str | None = None) -> Form | None:
        """Of one cluster, where there are several."""
        with self._of(cluster):
            return super().describe(group)

    def past(
        self,
        group: str,
        since_ms: int | None = None,
        until_ms: int | None = None,
        *,
        cluster: str | None = None,
    ) -> Past | None:
        """The same."""
        with self._of(cluster):
            return super().past(group, since_ms, until_ms)

    @contextmanager
    def _of(self, cluster: str | None) -> Iterator[None]:
        self._cluster = cluster
        try:
            yield
        finally:
            self._cluster = None

    def _get(self, path: str) -> tuple[str, Any]:
        from urllib.parse import urlencode

        if self._cluster is not None:
            path += ("&" if "?" in path else "?") + urlencode({"cluster": self._cluster})
        return super()._get(path)

    def _fail(self, text: str) -> NoReturn:
        from agent.watching.source import Away, NotReady

        # What an agent says while it catches up, or has too many who ask.
        raise (NotReady if " answered 503 " in text or " answered 429 " in text else Away)(text) from None


class InThisProcess:
    """The agent that runs here."""

    live = True

    def __init__(self, agent: Agent, where: str) -> None:
        self._agent = agent
        self.where = where

    @property
    def now_ms(self) -> int:
        """By the clock on the wall."""
        return now_ms()

    def health(self) -> Health:
        """Not ready before it has read the topic to its end once."""
        from agent.watching.source import Health, NotReady

        ready = self._agent.ready()
        if not ready.ready and not self._agent.has_caught_up:
            raise NotReady(ready.reason)
        return Health(ready.ready, ready.reason)

    def groups(self) -> list[Form]:
        """Every group's row."""
        return self._agent.groups()

    def describe(self, group: str, *, cluster: str | None = None) -> Form | None:
        """One group in full."""
        return self._agent.describe(group)

    def past(self, group: str, since_ms: int | None = None, *, cluster: str | None = None) -> Past | None:
        """Its events."""
        told = self._agent.timeline(group, since_ms)
        return None if told is None else Past(*told)

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        """Findings."""
        return self._agent.findings(since_ms, None, group)


class Still:
    """Files, where they end."""

    live = False

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.where, self.now_ms = answers.where, answers.now_ms
        self.groups = answers.groups

    def health(self) -> Health:
        """It is what it is."""
        from agent.watching.source import Health

        return Health(True, "")

    def describe(self, group: str, *, cluster: str | None = None) -> Form | None:
        """One group in full."""
        return self._answers.describe(group)

    def past(self, group: str, since_ms: int | None = None, *, cluster: str | None = None) -> Past | None:
        """Its events."""
        return self._answers.past(group, since_ms)

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        """Findings."""
        return self._answers.findings(since_ms, None, group)
