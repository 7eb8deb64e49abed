"""The screens: the fleet, one group, and panels of text above them. Each is drawn from what the app was told last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input

from agent.cli.tui import group_lines as of_group
from agent.cli.tui.changes import Change
from agent.cli.tui.fleet import SORTS, Fleet, FleetRow, Key, display_text, sorted_rows
from agent.cli.tui.fleet_lines import SourceStatus, change_lines, status_line, summary
from agent.cli.tui.group_state import GroupState
from agent.cli.tui.keys import FLEET_KEYS, GROUP_KEYS, PANEL_KEYS, keys_line
from agent.cli.tui.lines import Line, wrapped
from agent.cli.tui.poll_thread import PollerCrashed, PollFailed, PollResult, PollThread
from agent.cli.tui.poller import FleetUpdate, GroupExplanation, Poller
from agent.cli.tui.widgets import Bar, Groups, Lines, MakeLines
from agent.presentation.narrative.words import times

MAX_CHANGES = 200
"""Happenings that are kept to be shown."""
TWO_COLUMNS_FROM = 110
"""From so many columns on a group has two columns."""


class WatchState:
    """What screens draw: what the poll thread told last, and the styles by their names."""

    def __init__(self, poller: Poller, poll_thread: PollThread, palette: Mapping[str, Style]) -> None:
        self.poller, self.poll_thread, self.palette = poller, poll_thread, palette
        self.fleet: Fleet | None = None
        """None until the source has answered once."""
        self.changes: list[Change] = []
        self.failure: PollFailed | None = None
        """Why the last poll failed; None if it did not."""
        self.paused = False

    def receive(self, result: PollResult) -> None:
        """Keep what is for all screens."""
        match result:
            case PollerCrashed(error):
                raise error
            case PollFailed() as lost:
                self.failure = lost
            case FleetUpdate(fleet, news):
                self.failure, self.fleet = None, fleet
                self.changes = [*self.changes, *news][-MAX_CHANGES:]

    def status_line(self, width: int) -> list[Line]:
        """The first line of each screen, `width` columns wide."""
        source, lost = self.poller.source, self.failure
        it = SourceStatus(
            display_text(source.where),
            source.capabilities.live,
            self.poller.now_ms,
            None if self.fleet is None else self.fleet.at_ms,
            None if lost is None else lost.reason,
            lost is not None and lost.not_ready,
            self.paused,
            self.poll_thread.late_ms,
        )
        return [status_line(it, self.fleet, width)]


class WatchScreen(Screen[None]):
    """A screen that is drawn anew after each poll."""

    def __init__(self, state: WatchState) -> None:
        super().__init__()
        self.state = state

    def bar(self, id: str, make: MakeLines) -> Bar:
        """A bar of this name."""
        return Bar(make, self.state.palette, id=id)

    def redraw(self) -> None:
        """Draw what changed."""
        for bar in self.query(Bar):
            bar.redraw()
        for lines in self.query(Lines):
            lines.redraw()

    def receive(self, news: PollResult) -> None:
        """Take what a poll found; also called while another screen is above this one."""

    def on_screen_resume(self) -> None:
        """Draw anew: the screen that was above is closed."""
        self.call_after_refresh(self.redraw)

    def action_back(self) -> None:
        """To what was there before."""
        self.dismiss()

    def explain(self, key: Key, name: str) -> None:
        """Open the panel that explains a group."""
        if key.group is not None:
            self.app.push_screen(ExplainScreen(self.state, key, name))
            self.state.poll_thread.explain(key)

    def action_findings(self) -> None:
        """Open the panel of all open findings, with their advice."""

        def made(width: int) -> list[Line]:
            fleet = self.state.fleet or Fleet()
            now_ms = self.state.poller.now_ms
            return of_group.findings_section(
                fleet.findings, width, now_ms, name_of=lambda event: fleet.subject_of(event)[1]
            )

        self.app.push_screen(PanelScreen(self.state, "All open findings", made))


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

    def __init__(self, state: WatchState) -> None:
        super().__init__(state)
        self.sort, self.search = "t", ""
        self._rows: list[FleetRow] = []
        self._asked: tuple[object, ...] = (None, "", "")

    def compose(self) -> ComposeResult:
        """Header, groups, news, keys."""
        yield self.bar("standing", self.state.status_line)
        yield self.bar("summary", self._summary)
        yield self.bar("heading", lambda width: [self.groups.heading()])
        self.groups = Groups(self.state.palette, id="groups")
        yield self.groups
        yield self.bar("news", self._news)
        yield Input(placeholder="words to look for; Enter keeps, Esc clears", id="filter", select_on_focus=False)
        yield self.bar("footer", lambda width: [keys_line(FLEET_KEYS, width)])

    def on_mount(self) -> None:
        """The groups have the keys."""
        self.groups.focus()

    def redraw(self) -> None:
        """Rows, in their order."""
        fleet = self.state.fleet
        height = self.size.height
        calm = height - 6 - (0 if fleet is None else max(len(fleet.rows), self.groups.line_count))
        news = 0 if height < 16 else 3 if height < 30 else max(8, min(calm, height // 2))
        news = min(news, len(self.state.changes))
        # Before one group and the keys there is no room for the reason: the first line says that the source is away.
        trouble = 1 if self.state.failure is not None and height > 5 else 0
        bar = self.query_one("#news", Bar)
        bar.styles.height = (news and news + 1) + trouble
        if fleet is not None:
            asked = fleet, self.sort, self.search
            if any(one is not other for one, other in zip(asked, self._asked, strict=True)):
                self._rows, self._asked = sorted_rows(fleet.rows, self.sort, self.search), asked
            self.groups.show(self._rows, self.state.poller.now_ms, fleet.longest_name_width)
        super().redraw()

    def on_resize(self) -> None:
        """Another height has room for more or less."""
        self.call_after_refresh(self.redraw)

    def _summary(self, width: int) -> list[Line]:
        state = self.state
        if state.fleet is None:
            text = "asking" if state.failure is None else display_text(state.failure.reason, 300)
            return [((f" {text}", "warn" if state.failure else "dim"),)]
        return [summary(state.fleet, len(self.groups.rows), self.sort, display_text(self.search, 30), width)]

    def _news(self, width: int) -> list[Line]:
        state = self.state
        height = self.query_one("#news", Bar).size.height
        out: list[Line] = []
        if state.failure is not None:
            tries = f"tried {times(state.failure.tries)}: " if state.failure.tries > 1 else ""
            out.append(((f" {tries}{display_text(state.failure.reason, 300)}", "bad"),))
        if height > len(out) + 1:
            out.append(of_group.heading("Latest", "", width))
            out += change_lines(state.changes, width, height - len(out))
        return out

    def on_groups_opened(self, message: Groups.Opened) -> None:
        """Look at one."""
        if message.row.key.group is None:
            self.action_findings()
        else:
            self.app.push_screen(GroupScreen(self.state, message.row))

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
            self.explain(row.key, row.name)


class GroupScreen(WatchScreen):
    """One group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "back", show=False),
        Binding("tab", "part", show=False, priority=True),
        Binding("e", "explain", show=False),
    ]

    def __init__(self, state: WatchState, row: FleetRow) -> None:
        super().__init__(state)
        self._row = row
        self.watched: GroupState | None = None

    def compose(self) -> ComposeResult:
        """Header, one or two columns, keys."""
        yield self.bar("standing", self.state.status_line)
        yield self.bar("title", lambda width: [of_group.title_line(self._row.name, self.watched, width)])
        with Horizontal():
            self.main = Lines(self._main, self.state.palette, id="main")
            yield self.main
            self.side = Lines(self._side, self.state.palette, id="side")
            yield self.side
        yield self.bar("footer", lambda width: [keys_line(GROUP_KEYS, width)])

    def on_mount(self) -> None:
        """Ask for it."""
        self._fold()
        self.main.focus()
        self.state.poll_thread.open(self._row.key)

    def on_unmount(self) -> None:
        """No more."""
        self.state.poll_thread.open(None)

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
            return _asking(self.state.failure, width)
        return (of_group.left_column if self.side.display else of_group.one_column)(self.watched, width)

    def _side(self, width: int) -> list[Line]:
        return [] if self.watched is None or not self.side.display else of_group.right_column(self.watched, width)

    def action_part(self) -> None:
        """The other column, or the next part of the one there is."""
        if self.side.display:
            (self.main if self.side.has_focus else self.side).focus()
        else:
            self.main.next_section()

    def action_explain(self) -> None:
        """Explain it."""
        self.explain(self._row.key, self._row.name)


class PanelScreen(WatchScreen):
    """Text that scrolls, above all else."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace,left", "back", show=False)]

    def __init__(self, state: WatchState, title: str, make: MakeLines) -> None:
        super().__init__(state)
        self._heading, self._make = title, make

    def compose(self) -> ComposeResult:
        """Title, text, keys."""
        yield self.bar("title", lambda width: [((f" {self._heading} ", "title"),)])
        self.text = Lines(self._make, self.state.palette, id="text")
        yield self.text
        yield self.bar("footer", lambda width: [keys_line(PANEL_KEYS, width)])

    def on_mount(self) -> None:
        """The text has the keys."""
        self.text.focus()


class ExplainScreen(PanelScreen):
    """A group's story, once it came."""

    def __init__(self, state: WatchState, key: Key, name: str) -> None:
        super().__init__(state, f"{name}, explained", self._lines)
        self._key = key
        self._told: GroupExplanation | None = None
        self._lost: PollFailed | None = None

    def receive(self, news: PollResult) -> None:
        """The story, or why there is none."""
        if isinstance(news, GroupExplanation) and news.key == self._key:
            self._told = news
        elif isinstance(news, PollFailed):
            self._lost = news
        elif isinstance(news, FleetUpdate) and self._lost is not None and self._told is None:
            # The source is there again.
            self._lost = None
            self.state.poll_thread.explain(self._key)

    def _lines(self, width: int) -> list[Line]:
        if self._told is not None:
            return of_group.explained_lines(self._told, width)
        return _asking(self._lost, width)


def _asking(lost: PollFailed | None, width: int) -> list[Line]:
    """In the place of what is asked for: that it is, or why that failed."""
    text = "asking" if lost is None else display_text(lost.reason, 300)
    return wrapped([(" ", "")], text, width, "dim")
