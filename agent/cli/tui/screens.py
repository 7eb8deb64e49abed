"""The screens: the fleet, one group, and panels of text above them. Each is drawn from what the app was told last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol, cast

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input

from agent.cli.tui import group_lines as of_group
from agent.cli.tui.changes import Change
from agent.cli.tui.fleet import SORTS, Fleet, FleetRow, Key, display_text, sorted_rows
from agent.cli.tui.fleet_lines import change_lines, summary
from agent.cli.tui.group_state import GroupState
from agent.cli.tui.keys import FLEET_KEYS, GROUP_KEYS, PANEL_KEYS, keys_line
from agent.cli.tui.lines import Line, wrapped
from agent.cli.tui.poll_thread import PollFailed, PollResult, PollThread
from agent.cli.tui.poller import GroupExplanation, Poller
from agent.cli.tui.widgets import Bar, Groups, Lines
from agent.presentation.narrative.words import times

TWO_COLUMNS_FROM = 110
"""From so many columns on a group has two columns."""


class WatchState(Protocol):
    """What screens draw: the part of the app (`agent.cli.tui.app.WatchApp`) that they use."""

    palette: Mapping[str, Style]
    poller: Poller
    poll_thread: PollThread
    fleet: Fleet | None
    """None until the source has answered once."""
    changes: list[Change]
    failure: PollFailed | None
    """Why the last poll failed; None if it did not."""

    def status_line(self, width: int) -> Line:
        """The first line of each screen, `width` columns wide."""

    def explain(self, key: Key, name: str) -> None:
        """Open the panel that explains a group."""

    def all_findings(self) -> None:
        """Open the panel of all open findings."""


class WatchScreen(Screen[None]):
    """A screen that is drawn anew after each poll."""

    @property
    def watch_app(self) -> WatchState:
        """The app, which textual knows by its base class only."""
        return cast("WatchState", self.app)

    def redraw(self) -> None:
        """Draw what changed."""
        for bar in self.query(Bar):
            bar.redraw()
        for lines in self.query(Lines):
            lines.redraw()

    def receive(self, news: PollResult) -> None:
        """Something came, also while another screen is above."""

    def on_screen_resume(self) -> None:
        """What was above is gone."""
        self.call_after_refresh(self.redraw)


class FleetScreen(WatchScreen):
    """All groups."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # At once, before the keys typed after them go anywhere.
        Binding("slash", "filter", show=False, priority=True),
        Binding("enter", "keep", show=False, priority=True),
        Binding("escape", "clear", show=False, priority=True),
        Binding("s", "next_sort", show=False),
        *(Binding(key, f"sort('{key}')", show=False) for key in SORTS),
        Binding("e", "explain", show=False),
        Binding("f", "findings", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.sort, self.search = "t", ""
        self._rows: list[FleetRow] = []
        self._asked: tuple[object, ...] = (None, "", "")

    def compose(self) -> ComposeResult:
        """Header, groups, news, keys."""
        look = self.watch_app.palette
        yield Bar(lambda width: [self.watch_app.status_line(width)], look, id="standing")
        yield Bar(self._summary, look, id="summary")
        yield Bar(lambda width: [self.groups.heading()], look, id="heading")
        self.groups = Groups(look, id="groups")
        yield self.groups
        yield Bar(self._news, look, id="news")
        yield Input(placeholder="words to look for; Enter keeps, Esc clears", id="filter", select_on_focus=False)
        yield Bar(lambda width: [keys_line(FLEET_KEYS, width)], look, id="footer")

    def on_mount(self) -> None:
        """The groups have the keys."""
        self.groups.focus()

    def redraw(self) -> None:
        """Rows, in their order."""
        fleet = self.watch_app.fleet
        height = self.size.height
        calm = height - 6 - (0 if fleet is None else len(fleet.rows))
        news = 0 if height < 16 else 3 if height < 30 else max(8, min(calm, height // 2))
        news = min(news, len(self.watch_app.changes))
        trouble = 1 if self.watch_app.failure is not None else 0
        bar = self.query_one("#news", Bar)
        bar.styles.height = news + 1 + trouble if news or trouble else 0
        if fleet is not None:
            asked = fleet, self.sort, self.search
            if any(one is not other for one, other in zip(asked, self._asked, strict=True)):
                self._rows, self._asked = sorted_rows(fleet.rows, self.sort, self.search), asked
            self.groups.show(self._rows, self.watch_app.poller.now_ms, fleet.longest_name_width)
        super().redraw()

    def receive(self, news: PollResult) -> None:
        """Rows are made when they are shown."""

    def on_resize(self) -> None:
        """Another height has room for more or less."""
        self.call_after_refresh(self.redraw)

    def _summary(self, width: int) -> list[Line]:
        app = self.watch_app
        if app.fleet is None:
            text = "asking" if app.failure is None else display_text(app.failure.reason, 300)
            return [((f" {text}", "warn" if app.failure else "dim"),)]
        return [summary(app.fleet, len(self.groups.rows), self.sort, display_text(self.search, 30), width)]

    def _news(self, width: int) -> list[Line]:
        app = self.watch_app
        height = self.query_one("#news", Bar).size.height
        out: list[Line] = []
        if app.failure is not None:
            tries = f"tried {times(app.failure.tries)}: " if app.failure.tries > 1 else ""
            out.append(((f" {tries}{display_text(app.failure.reason, 300)}", "bad"),))
        if app.changes and height > len(out) + 1:
            out.append(of_group.heading("Latest", "", width))
            out += change_lines(app.changes, width, height - len(out))
        return out

    def on_groups_opened(self, message: Groups.Opened) -> None:
        """Look at one."""
        if message.row.key.group is None:
            self.watch_app.all_findings()
        else:
            self.app.push_screen(GroupScreen(message.row))

    def action_filter(self) -> None:
        """Type a filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        self.set_focus(field)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the filter a slash is a slash; elsewhere Enter opens a group."""
        typing = isinstance(self.focused, Input)
        return not typing if action == "filter" else typing if action == "keep" else True

    def action_clear(self) -> None:
        """No filter."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self.set_focus(self.groups)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.search = event.value
        self.redraw()

    def action_keep(self) -> None:
        """Keep the filter, and go to what it found."""
        self.query_one("#filter", Input).display = False
        self.set_focus(self.groups)

    def action_next_sort(self) -> None:
        """The next order."""
        keys = list(SORTS)
        self.action_sort(keys[(keys.index(self.sort) + 1) % len(keys)])

    def action_sort(self, key: str) -> None:
        """That order, from its top."""
        self.sort = key
        self.redraw()
        self.groups.action_move(-len(self.groups.rows))

    def action_explain(self) -> None:
        """Explain the group under the cursor."""
        row = self.groups.selected_row
        if row is not None:
            self.watch_app.explain(row.key, row.name)

    def action_findings(self) -> None:
        """All of them."""
        self.watch_app.all_findings()


class GroupScreen(WatchScreen):
    """One group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "back", show=False),
        Binding("tab", "part", show=False, priority=True),
        Binding("e", "explain", show=False),
    ]

    def __init__(self, row: FleetRow) -> None:
        super().__init__()
        self._row = row
        self.watched: GroupState | None = None

    def compose(self) -> ComposeResult:
        """Header, one or two columns, keys."""
        look = self.watch_app.palette
        yield Bar(lambda width: [self.watch_app.status_line(width)], look, id="standing")
        yield Bar(lambda width: [of_group.title_line(self._row.name, self.watched, width)], look, id="title")
        with Horizontal():
            self.main = Lines(self._main, look, id="main")
            yield self.main
            self.side = Lines(self._side, look, id="side")
            yield self.side
        yield Bar(lambda width: [keys_line(GROUP_KEYS, width)], look, id="footer")

    def on_mount(self) -> None:
        """Ask for it."""
        self._fold()
        self.main.focus()
        self.watch_app.poll_thread.open(self._row.key)

    def on_unmount(self) -> None:
        """No more."""
        self.watch_app.poll_thread.open(None)

    def on_resize(self) -> None:
        """Two columns where there is room."""
        self._fold()
        self.call_after_refresh(self.redraw)

    def _fold(self) -> None:
        self.side.display = self.size.width >= TWO_COLUMNS_FROM

    def receive(self, news: PollResult) -> None:
        """What came of it."""
        if isinstance(news, GroupState) and news.key == self._row.key:
            self.watched = news

    def _main(self, width: int) -> list[Line]:
        if self.watched is None:
            lost = self.watch_app.failure
            text = "asking" if lost is None else display_text(lost.reason, 300)
            return wrapped([(" ", "")], text, width, "dim")
        return (of_group.left_column if self.side.display else of_group.one_column)(self.watched, width)

    def _side(self, width: int) -> list[Line]:
        return [] if self.watched is None or not self.side.display else of_group.right_column(self.watched, width)

    def action_back(self) -> None:
        """To the fleet."""
        self.dismiss()

    def action_part(self) -> None:
        """The other column, or the next part of the one there is."""
        if self.side.display:
            (self.main if self.side.has_focus else self.side).focus()
        else:
            self.main.next_section()

    def action_explain(self) -> None:
        """Explain it."""
        self.watch_app.explain(self._row.key, self._row.name)


class PanelScreen(WatchScreen):
    """Text that scrolls, above all else."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace,left", "back", show=False)]

    def __init__(self, title: str, make: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._heading, self._make = title, make

    def compose(self) -> ComposeResult:
        """Title, text, keys."""
        look = self.watch_app.palette
        yield Bar(lambda width: [((f" {self._heading} ", "title"),)], look, id="title")
        self.text = Lines(self._make, look, id="text")
        yield self.text
        yield Bar(lambda width: [keys_line(PANEL_KEYS, width)], look, id="footer")

    def on_mount(self) -> None:
        """The text has the keys."""
        self.text.focus()

    def action_back(self) -> None:
        """To what was there before."""
        self.dismiss()


class ExplainScreen(PanelScreen):
    """A group's story, once it came."""

    def __init__(self, key: Key, name: str) -> None:
        super().__init__(f"{name}, explained", self._lines)
        self._key = key
        self._told: GroupExplanation | None = None
        self._lost: PollFailed | None = None

    def receive(self, news: PollResult) -> None:
        """The story, or why there is none."""
        if isinstance(news, GroupExplanation) and news.key == self._key:
            self._told = news
        elif isinstance(news, PollFailed):
            self._lost = news

    def _lines(self, width: int) -> list[Line]:
        if self._told is not None:
            return of_group.explained_lines(self._told, width)
        return [((" asking" if self._lost is None else f" {display_text(self._lost.reason, 300)}", "dim"),)]
