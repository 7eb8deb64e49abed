"""The screens: the fleet, one group, and panels of text above them. Each is drawn from what the app was told last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Input

from agent.story.words import times
from agent.watching import group_lines as of_group
from agent.watching.asking import Explained
from agent.watching.feed import Lost, News
from agent.watching.fleet_lines import news_lines, summary
from agent.watching.group import Watched
from agent.watching.keys import FLEET_KEYS, GROUP_KEYS, PANEL_KEYS, keys_line
from agent.watching.lines import Line, wrapped
from agent.watching.model import SORTS, Key, Row, ordered, shown
from agent.watching.widgets import Bar, Groups, Lines

if TYPE_CHECKING:
    from agent.watching.app import WatchApp

WIDE = 110
"""From so many columns on a group has two columns."""


class Page(Screen[None]):
    """A screen that is made anew when something came."""

    @property
    def watch_app(self) -> WatchApp:
        """The app, as what it is."""
        return cast("WatchApp", self.app)

    def remake(self) -> None:
        """Draw what changed."""
        for bar in self.query(Bar):
            bar.remake()
        for lines in self.query(Lines):
            lines.remake()

    def told(self, news: News) -> None:
        """Something came, also while another screen is above."""

    def on_screen_resume(self) -> None:
        """What was above is gone."""
        self.call_after_refresh(self.remake)


class FleetScreen(Page):
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
        self.sort, self.wanted = "t", ""
        self._rows: list[Row] = []
        self._asked: tuple[object, ...] = (None, "", "")

    def compose(self) -> ComposeResult:
        """Header, groups, news, keys."""
        look = self.watch_app.look
        yield Bar(lambda width: [self.watch_app.standing(width)], look, id="standing")
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

    def remake(self) -> None:
        """Rows, in their order."""
        fleet = self.watch_app.fleet
        height = self.size.height
        calm = height - 6 - (0 if fleet is None else len(fleet.rows))
        news = 0 if height < 16 else 3 if height < 30 else max(8, min(calm, height // 2))
        news = min(news, len(self.watch_app.happenings))
        trouble = 1 if self.watch_app.lost is not None else 0
        bar = self.query_one("#news", Bar)
        bar.styles.height = news + 1 + trouble if news or trouble else 0
        if fleet is not None:
            asked = fleet, self.sort, self.wanted
            if any(one is not other for one, other in zip(asked, self._asked, strict=True)):
                self._rows, self._asked = ordered(fleet.rows, self.sort, self.wanted), asked
            self.groups.show(self._rows, self.watch_app.asker.now_ms, fleet.longest)
        super().remake()

    def told(self, news: News) -> None:
        """Rows are made when they are shown."""

    def on_resize(self) -> None:
        """Another height has room for more or less."""
        self.call_after_refresh(self.remake)

    def _summary(self, width: int) -> list[Line]:
        app = self.watch_app
        if app.fleet is None:
            text = "asking" if app.lost is None else shown(app.lost.reason, 300)
            return [((f" {text}", "warn" if app.lost else "dim"),)]
        return [summary(app.fleet, len(self.groups.rows), self.sort, shown(self.wanted, 30), width)]

    def _news(self, width: int) -> list[Line]:
        app = self.watch_app
        height = self.query_one("#news", Bar).size.height
        out: list[Line] = []
        if app.lost is not None:
            tries = f"tried {times(app.lost.tries)}: " if app.lost.tries > 1 else ""
            out.append(((f" {tries}{shown(app.lost.reason, 300)}", "bad"),))
        if app.happenings and height > len(out) + 1:
            out.append(of_group.heading("Latest", "", width))
            out += news_lines(app.happenings, width, height - len(out))
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
        self.wanted = event.value
        self.remake()

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
        self.remake()
        self.groups.action_move(-len(self.groups.rows))

    def action_explain(self) -> None:
        """Explain the group under the cursor."""
        row = self.groups.chosen
        if row is not None:
            self.watch_app.explain(row.key, row.name)

    def action_findings(self) -> None:
        """All of them."""
        self.watch_app.all_findings()


class GroupScreen(Page):
    """One group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "back", show=False),
        Binding("tab", "part", show=False, priority=True),
        Binding("e", "explain", show=False),
    ]

    def __init__(self, row: Row) -> None:
        super().__init__()
        self._row = row
        self.watched: Watched | None = None

    def compose(self) -> ComposeResult:
        """Header, one or two columns, keys."""
        look = self.watch_app.look
        yield Bar(lambda width: [self.watch_app.standing(width)], look, id="standing")
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
        self.watch_app.feed.open(self._row.key)

    def on_unmount(self) -> None:
        """No more."""
        self.watch_app.feed.open(None)

    def on_resize(self) -> None:
        """Two columns where there is room."""
        self._fold()
        self.call_after_refresh(self.remake)

    def _fold(self) -> None:
        self.side.display = self.size.width >= WIDE

    def told(self, news: News) -> None:
        """What came of it."""
        if isinstance(news, Watched) and news.key == self._row.key:
            self.watched = news

    def _main(self, width: int) -> list[Line]:
        if self.watched is None:
            lost = self.watch_app.lost
            text = "asking" if lost is None else shown(lost.reason, 300)
            return wrapped([(" ", "")], text, width, "dim")
        return (of_group.left if self.side.display else of_group.narrow)(self.watched, width)

    def _side(self, width: int) -> list[Line]:
        return [] if self.watched is None or not self.side.display else of_group.right(self.watched, width)

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


class PanelScreen(Page):
    """Text that scrolls, above all else."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,backspace,left", "back", show=False)]

    def __init__(self, title: str, make: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._heading, self._make = title, make

    def compose(self) -> ComposeResult:
        """Title, text, keys."""
        look = self.watch_app.look
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
        self._told: Explained | None = None
        self._lost: Lost | None = None

    def told(self, news: News) -> None:
        """The story, or why there is none."""
        if isinstance(news, Explained) and news.key == self._key:
            self._told = news
        elif isinstance(news, Lost):
            self._lost = news

    def _lines(self, width: int) -> list[Line]:
        if self._told is not None:
            return of_group.explained_lines(self._told, width)
        return [((" asking" if self._lost is None else f" {shown(self._lost.reason, 300)}", "dim"),)]
