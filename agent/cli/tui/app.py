"""The full screen: an app that owns the feed; its screens draw what that told last.

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

from agent.cli.tui.keys import help_lines
from agent.cli.tui.poll_thread import PollResult, PollThread
from agent.cli.tui.poller import Poller
from agent.cli.tui.screens import FleetScreen, PanelScreen, WatchScreen, WatchState
from agent.cli.tui.styles import styles
from agent.common.sanitize import printable

EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_HUNG_UP = 130, 143, 129
"""What a shell makes of a command that a signal ended."""
TICK_S = 1.0
"""How often ages are told anew."""


class PollMessage(Message):
    """The feed has something."""

    def __init__(self, news: PollResult) -> None:
        super().__init__()
        self.result = news


class WatchApp(App[int]):
    """Owns the feed; screens draw what it told last."""

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
        Binding("ctrl+c", f"leave({EXIT_INTERRUPTED})", show=False, priority=True),
        Binding("question_mark", "keys", show=False),
        Binding("p", "pause", show=False),
        Binding("u", "update", show=False),
    ]

    def __init__(self, asker: Poller, interval_s: float, *, coloured: bool = True) -> None:
        super().__init__(ansi_color=None if coloured else True)
        self.animation_level = "none"
        self.poll_thread = PollThread(asker, interval_s, lambda news: self.post_message(PollMessage(news)))
        self.state = WatchState(asker, self.poll_thread, styles(coloured))

    def on_mount(self) -> None:
        """Take signals, show the first screen, and ask."""
        loop = asyncio.get_running_loop()
        for number, code in (
            (signal.SIGINT, EXIT_INTERRUPTED),
            (signal.SIGTERM, EXIT_TERMINATED),
            (signal.SIGHUP, EXIT_HUNG_UP),
        ):
            # Where this is no main thread (a test), signals are others' business.
            try:
                loop.add_signal_handler(number, self.exit, code, code)
            except (RuntimeError, ValueError):
                break
        self.push_screen(FleetScreen(self.state))
        self.set_interval(TICK_S, self.redraw_screen)
        self.poll_thread.start()

    def on_unmount(self) -> None:
        """Ask no more."""
        self.poll_thread.stop()

    def _fatal_error(self) -> None:
        # In place of textual's, which shows local variables: a password may be one.
        text = "\n".join(map(printable, traceback.format_exc().splitlines()))
        self.panic(Text(text, no_wrap=True, overflow="ignore"))

    def on_poll_message(self, message: PollMessage) -> None:
        """News of the feed."""
        self.state.receive(message.result)
        for screen in self.screen_stack:
            if isinstance(screen, WatchScreen):
                screen.receive(message.result)
        self.redraw_screen()

    def redraw_screen(self) -> None:
        """Time passed."""
        if isinstance(self.screen, WatchScreen):
            self.screen.redraw()

    def action_leave(self, code: int) -> None:
        """Leave the program with this exit code."""
        self.exit(code, code)

    def action_pause(self) -> None:
        """Stand still, or go on."""
        self.state.paused = not self.state.paused
        self.poll_thread.pause(self.state.paused)
        self.redraw_screen()

    def action_update(self) -> None:
        """Ask now."""
        self.poll_thread.hurry()

    def action_keys(self) -> None:
        """Show every key."""
        if not isinstance(self.screen, PanelScreen):
            self.push_screen(PanelScreen(self.state, "Keys, columns and signs", help_lines))
