"""The full screen: an app that owns the feed and what it told last; its screens draw that.

The feed's thread posts what came; nothing here waits. Leaving in any way, also by a signal or a mistake of ours,
gives the terminal back as it was.
"""

from __future__ import annotations

import asyncio
import signal
import traceback
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from agent.plain import printable
from agent.watching import group_lines as of_group
from agent.watching.asking import Asker, Told
from agent.watching.changes import Happening
from agent.watching.feed import Broken, Feed, Lost, News
from agent.watching.fleet_lines import Standing, standing
from agent.watching.keys import help_lines
from agent.watching.lines import Line
from agent.watching.look import styles
from agent.watching.model import Fleet, Key, shown
from agent.watching.screens import ExplainScreen, FleetScreen, Page, PanelScreen

INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129
"""What a shell makes of a command that a signal ended."""
MOST_NEWS = 200
TICK_S = 1.0
"""How often ages are told anew."""


class Came(Message):
    """The feed has something."""

    def __init__(self, news: News) -> None:
        super().__init__()
        self.news = news


class WatchApp(App[int]):
    """Owns the feed and what it told last; screens draw it."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "kshadow watch"
    CSS = """
    Screen { background: #0f1720; color: #d6dde6; layout: vertical; }
    Screen:ansi { background: ansi_default; color: ansi_default; }
    Lines, Groups { scrollbar-background: #17212d; scrollbar-color: #3b5573; scrollbar-color-hover: #4f7196;
        scrollbar-background-hover: #17212d; scrollbar-color-active: #4f7196; scrollbar-background-active: #17212d; }
    #summary { margin-bottom: 0; }
    #filter { display: none; height: 1; border: none; padding: 0 1; background: #17212d; }
    #filter:focus { border: none; }
    #footer { background: #17212d; }
    Screen:ansi #footer, Screen:ansi #filter { background: ansi_default; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "leave(0)", show=False),
        Binding("ctrl+c", f"leave({INTERRUPTED})", show=False, priority=True),
        Binding("question_mark", "keys", show=False),
        Binding("p", "pause", show=False),
        Binding("u", "update", show=False),
    ]

    def __init__(self, asker: Asker, interval_s: float, *, coloured: bool = True) -> None:
        super().__init__(ansi_color=None if coloured else True)
        self.animation_level = "none"
        self.look = styles(coloured)
        self.asker = asker
        self.feed = Feed(asker, interval_s, lambda news: self.post_message(Came(news)))
        self.fleet: Fleet | None = None
        self.happenings: list[Happening] = []
        self.lost: Lost | None = None
        self.as_of_ms: int | None = None
        self.paused = False

    def on_mount(self) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        for number, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED), (signal.SIGHUP, HUNG_UP)):
            # Where this is no main thread (a test), signals are others' business.
            try:
                loop.add_signal_handler(number, self.exit, code, code)
            except (RuntimeError, ValueError):
                break
        self.push_screen(FleetScreen())
        self.set_interval(TICK_S, self.tick)
        self.feed.start()

    def on_unmount(self) -> None:
        """End."""
        self.feed.stop(0)

    def _fatal_error(self) -> None:
        # In place of textual's, which shows local variables: a password may be one.
        text = "\n".join(map(printable, traceback.format_exc().splitlines()))
        self.panic(Text(text, no_wrap=True, overflow="ignore"))

    def on_came(self, message: Came) -> None:
        """News of the feed."""
        match message.news:
            case Broken(error):
                raise error
            case Lost() as lost:
                self.lost = lost
            case Told(fleet, news):
                self.lost, self.fleet, self.as_of_ms = None, fleet, fleet.at_ms
                self.happenings = [*self.happenings, *news][-MOST_NEWS:]
        for screen in self.screen_stack:
            if isinstance(screen, Page):
                screen.told(message.news)
        self.tick()

    def tick(self) -> None:
        """Time passed."""
        if isinstance(self.screen, Page):
            self.screen.remake()

    def standing(self, width: int) -> Line:
        """The first line of each screen."""
        lost = self.lost
        it = Standing(
            shown(self.asker.source.where),
            self.asker.source.live,
            self.asker.now_ms,
            self.as_of_ms,
            None if lost is None else lost.reason,
            lost is not None and lost.not_ready,
            self.paused,
        )
        return standing(it, self.fleet, width)

    def action_leave(self, code: int) -> None:
        """End."""
        self.exit(code, code)

    def action_pause(self) -> None:
        """Stand still, or go on."""
        self.paused = not self.paused
        self.feed.pause(self.paused)
        self.tick()

    def action_update(self) -> None:
        """Ask now."""
        self.feed.hurry()

    def action_keys(self) -> None:
        """Show every key."""
        if not isinstance(self.screen, PanelScreen):
            self.push_screen(PanelScreen("Keys, columns and signs", help_lines))

    def explain(self, key: Key, name: str) -> None:
        """Show a group's story."""
        if key.group is not None:
            self.push_screen(ExplainScreen(key, name))
            self.feed.explain(key)

    def all_findings(self) -> None:
        """Show every open finding."""

        def made(width: int) -> list[Line]:
            found = () if self.fleet is None else self.fleet.findings
            return of_group.findings_section(found, width, self.asker.now_ms, named=True)

        self.push_screen(PanelScreen("All open findings", made))
