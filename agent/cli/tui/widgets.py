"""What the full screen is made of: lines that scroll, and bars. All text is drawn as it is: nothing reads markup.

Of what scrolls only lines that can be seen are made, and of those only the ones that changed are drawn again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from agent.cli.tui.fleet import FleetRow, Key
from agent.cli.tui.fleet_lines import Layout, heading_line, layout, row_height, row_lines
from agent.cli.tui.lines import Line

MakeLines = Callable[[int], Sequence[Line]]
"""Lines for a width."""


def to_strip(line: Line, width: int, look: Mapping[str, Style], base: Style) -> Strip:
    """A line as textual draws it."""
    made = Strip([Segment(text, look[style]) for text, style in line])
    return made.adjust_cell_length(width).apply_style(base)


class Bar(Widget):
    """Some lines that stay where they are; as high as there are lines."""

    DEFAULT_CSS = "Bar { height: 1; width: 1fr; }"

    def __init__(self, make: MakeLines, look: Mapping[str, Style], id: str | None = None) -> None:
        """`make` gives the lines for a width."""
        super().__init__(id=id, markup=False)
        self._make, self._look = make, look
        self._lines: Sequence[Line] = ()

    def redraw(self) -> None:
        """Make the lines anew, and draw them if they changed."""
        lines = self._make(self.size.width)
        if lines != self._lines:
            self._lines = lines
            self.refresh()

    def on_resize(self) -> None:
        """As wide as there is room."""
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """One line."""
        line = self._lines[y] if y < len(self._lines) else ()
        return to_strip(line, self.size.width, self._look, self.rich_style)


class Lines(ScrollView, can_focus=True):
    """Lines that scroll, made anew for each width."""

    DEFAULT_CSS = """
    Lines { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, make: MakeLines, look: Mapping[str, Style], id: str | None = None) -> None:
        super().__init__(id=id)
        self._make, self.look = make, look
        self.lines: Sequence[Line] = ()

    @property
    def room(self) -> int:
        """Columns for a line."""
        return max(self.scrollable_content_region.width, 1)

    def redraw(self) -> None:
        """Make the lines anew; those that changed and can be seen are drawn."""
        before, self.lines = self.lines, self._make(self.room)
        self.virtual_size = Size(self.room, len(self.lines))
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            if before[y : y + 1] != self.lines[y : y + 1]:
                self.refresh_line(y)

    def on_resize(self) -> None:
        """Other lines for another width."""
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """One line, where it is scrolled to."""
        at = y + self.scroll_offset.y
        line = self.lines[at] if at < len(self.lines) else ()
        return to_strip(line, self.room, self.look, self.rich_style)

    def next_section(self) -> None:
        """Scroll to the next heading; from the last to the top."""
        heads = [at for at, line in enumerate(self.lines) if line and line[0][1] == "section"]
        top = self.scroll_offset.y
        self.scroll_to(y=next((at for at in heads if at > top), 0) if top < self.max_scroll_y else 0, animate=False)


class Groups(ScrollView, can_focus=True):
    """The groups, with a cursor that stays on its group wherever that moves. One takes a line, or as many as its
    trouble needs."""

    DEFAULT_CSS = """
    Groups { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "turn(-1)", show=False),
        Binding("pagedown,space", "turn(1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("enter,right", "open", show=False),
    ]

    class Opened(Message):
        """A group was chosen."""

        def __init__(self, row: FleetRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, look: Mapping[str, Style], id: str | None = None) -> None:
        super().__init__(id=id)
        self._look = look
        self.rows: Sequence[FleetRow] = ()
        self._cursor = 0
        self._now_ms = 0
        self._longest = 0
        self._drawn: dict[int, Line] = {}
        self._starts: Sequence[int] = (0,)
        """The first line of each row; the last entry is how many lines there are."""

    @property
    def selected_row(self) -> FleetRow | None:
        """The row under the cursor."""
        return self.rows[self._cursor] if self._cursor < len(self.rows) else None

    @property
    def current_layout(self) -> Layout:
        """The columns for the room there is."""
        return layout(max(self.scrollable_content_region.width, 1), self._longest)

    @property
    def line_count(self) -> int:
        """How many lines all rows take."""
        return self._starts[-1]

    def heading(self) -> Line:
        """What stands above the columns."""
        return heading_line(self.current_layout)

    def show(self, rows: Sequence[FleetRow], now_ms: int, longest: int) -> None:
        """Other rows, or the same at another time. `longest`: columns of the longest name, shown or not."""
        key = None if self.selected_row is None else self.selected_row.key
        # Who stands at the top stays there: what is worst is looked at first.
        follow = self._cursor > 0 or self.scroll_offset.y > 0
        self.rows, self._now_ms, self._longest = rows, now_ms, longest
        if follow and key is not None:
            self._cursor = self._find(key)
        self._cursor = max(min(self._cursor, len(rows) - 1), 0)
        self._measure()
        self._draw_changed()
        if follow:
            self._scroll_to_cursor()

    def _find(self, key: Key) -> int:
        return next((at for at, row in enumerate(self.rows) if row.key == key), self._cursor)

    def _draw_changed(self) -> None:
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            if self._drawn.get(y) != self._line(y):
                self.refresh_line(y)

    def _measure(self) -> None:
        """Where each row begins, for the room there is."""
        at = self.current_layout
        self._starts = [0, *accumulate(row_height(row, at) for row in self.rows)]
        self.virtual_size = Size(self.scrollable_content_region.width, self._starts[-1])

    def _row_at(self, y: int) -> int:
        """Which row a line is of; past the last for what lies below."""
        return bisect_right(self._starts, y) - 1

    def _line(self, y: int) -> Line:
        at = self._row_at(y)
        if at >= len(self.rows):
            return ()
        below = y - self._starts[at]
        lines = row_lines(self.rows[at], self.current_layout, self._now_ms)
        pointer = (">", "key") if at == self._cursor and not below else (" ", "")
        return (pointer, *lines[below]) if below < len(lines) else ()

    def render_line(self, y: int) -> Strip:
        """One line of a group."""
        at = y + self.scroll_offset.y
        if len(self._drawn) > 1_000:
            self._drawn.clear()
        self._drawn[at] = line = self._line(at)
        base = self.rich_style
        if line and self._row_at(at) == self._cursor:
            base += self._look["cursor"]
        return to_strip(line, self.size.width, self._look, base)

    def on_resize(self) -> None:
        """Other columns for another width."""
        self._drawn.clear()
        self._measure()
        self.refresh()
        self._scroll_to_cursor()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._move_cursor_to(self._cursor + by)

    def action_turn(self, pages: int) -> None:
        """Move it by pages: by what there is room for."""
        at, step = self._cursor, 1 if pages > 0 else -1
        lines = self._starts[min(at, len(self.rows))] + pages * max(self.size.height - 1, 1)
        to = self._row_at(max(lines, 0))
        self._move_cursor_to(to if to != at else at + step)

    def action_open(self) -> None:
        """Choose the group under the cursor."""
        if self.selected_row is not None:
            self.post_message(self.Opened(self.selected_row))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor; on the cursor it opens."""
        at = self._row_at(event.y + self.scroll_offset.y)
        if at < len(self.rows):
            if at == self._cursor:
                self.action_open()
            self._move_cursor_to(at)

    def _move_cursor_to(self, at: int) -> None:
        before, self._cursor = self._cursor, max(min(at, len(self.rows) - 1), 0)
        for row in {before, self._cursor}:
            for y in range(*self._starts[row : row + 2]):
                self.refresh_line(y)
        self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        if not self.rows:
            return
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        first, end = self._starts[self._cursor : self._cursor + 2]
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif end > top + height:
            self.scroll_to(y=min(first, end - height), animate=False)
