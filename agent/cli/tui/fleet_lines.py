"""The fleet as lines: header, headings, one line a group, the latest news. Pure; widths and times are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import Struct
from rich.cells import cell_len

from agent.cli.tui.changes import Change
from agent.cli.tui.fleet import SORTS, Fleet, FleetRow
from agent.cli.tui.lines import Line, Piece, clipped, fitted, justified, short_age, short_number, wrap
from agent.cli.tui.poll_thread import LATE_MS
from agent.core.causes import cause_info
from agent.core.diagnosis.severity import Severity
from agent.presentation.narrative.words import clock, count

SEVERITY_MARKS = {2: ("✖C", "bad"), 1: ("▲W", "warn"), 0: ("●I", "info")}
"""Glyph, letter and style of each severity's rank."""
NO_MARK = ("  ", "")

STATE_STYLES = {
    "Stable": "good",
    "Empty": "dim",
    "Dead": "dim",
    "PreparingRebalance": "warn",
    "CompletingRebalance": "warn",
    "Assigning": "warn",
    "Reconciling": "warn",
    "NotReady": "warn",
}
_SHORT = {"PreparingRebalance": "Preparing", "CompletingRebalance": "Completing", "Reconciling": "Reconciling"}


MIN_GROUP_WIDTH, MIN_TROUBLE_WIDTH, MAX_GROUP_WIDTH = 16, 15, 48
COMFORTABLE_GROUP_WIDTH, COMFORTABLE_TROUBLE_WIDTH = 32, 40
"""What names and troubles get before columns do that are only good to have."""
MAX_TROUBLE_LINES = 3
"""Lines that the trouble of one group takes at most: the group's own screen has all of it."""
MANY_RECENT = 4
"""From so many rebalances of late on their number stands out."""


MEDIUM_WIDTH = 50
"""Columns from which on there is room for more than the most important."""


class Column(Struct, frozen=True):
    """A column of numbers or short words. Those that come first in `COLUMNS` are the last to go.

    `cell` gives a group's text and its style, at a time (epoch milliseconds).
    """

    heading: str
    width: int
    position: int
    cell: Callable[[FleetRow, int], Piece]
    right: bool = True
    essential: bool = True


def _state(row: FleetRow, _: int) -> Piece:
    return _SHORT.get(row.state, row.state), STATE_STYLES.get(row.state, "")


def _recent(row: FleetRow, _: int) -> Piece:
    recent = row.recent_rebalances
    return (f"+{short_number(recent)}", "warn" if recent >= MANY_RECENT else "") if recent else ("-", "dim")


def _number(value: int | None) -> Piece:
    return short_number(value), "" if value else "dim"


def _age(since_ms: int | None, now_ms: int) -> Piece:
    return short_age(None if since_ms is None else now_ms - since_ms), "dim"


COLUMNS = (
    Column("STATE", 11, 1, _state, right=False),
    Column("LATE", 4, 5, _recent),
    Column("LAG", 5, 6, lambda row, _: _number(row.lag)),
    Column("MEMB", 4, 2, lambda row, _: _number(row.members)),
    Column("REBAL", 5, 4, lambda row, _: _number(row.rebalances)),
    Column("PARTS", 5, 3, lambda row, _: _number(row.partitions)),
    Column("SINCE", 5, 7, lambda row, now_ms: _age(row.state_since_ms, now_ms), essential=False),
    Column("COMMIT", 6, 8, lambda row, now_ms: _age(row.last_commit_ms, now_ms), essential=False),
    Column("TYPE", 8, 0, lambda row, _: (row.group_type, "dim"), right=False, essential=False),
    Column("GEN", 6, 9, lambda row, _: ("-" if (at := row.generation) is None else f"{at}", "dim"), essential=False),
)


class Layout(Struct, frozen=True):
    """What fits a width: columns in the order they are shown, and room for the group and its trouble."""

    group: int
    columns: tuple[Column, ...]
    trouble: int


def layout(width: int, longest_name: int) -> Layout:
    """Columns as far as there is room; the rest of it is shared by names and troubles."""
    room = width - 4
    least_group = max(MIN_GROUP_WIDTH, min(longest_name, 22))
    chosen: list[Column] = []
    for column in COLUMNS:
        least = least_group + 1 + MIN_TROUBLE_WIDTH
        if not column.essential:
            least = min(max(longest_name, 5), COMFORTABLE_GROUP_WIDTH) + 1 + COMFORTABLE_TROUBLE_WIDTH
        if room - column.width - 1 < least:
            break
        chosen.append(column)
        room -= column.width + 1
    group = min(
        max(longest_name, 5),
        MAX_GROUP_WIDTH,
        max(room * 45 // 100, least_group, room - COMFORTABLE_TROUBLE_WIDTH - 1),
    )
    if room - group - 1 < MIN_TROUBLE_WIDTH:
        group = max(room - MIN_TROUBLE_WIDTH - 1, 8)
    chosen.sort(key=lambda column: column.position)
    return Layout(group, tuple(chosen), max(room - group - 1, 0))


def heading_line(at: Layout) -> Line:
    """The line above the groups."""
    cells = [fitted(it.heading, it.width, right=it.right) for it in at.columns]
    texts = ["   ", fitted("GROUP", at.group), *cells, fitted("TROUBLE", at.trouble)]
    return ((" ".join(texts), "head"),)


def row_lines(row: FleetRow, at: Layout, now_ms: int) -> tuple[Line, ...]:
    """One group: a line, and as many below it as its trouble goes on for."""
    out: list[Piece] = [
        severity_mark(row.worst_rank),
        (" " + fitted(row.name, at.group), "bold" if row.worst_rank > 0 else ""),
    ]
    for column in at.columns:
        text, style = ("", "") if row.key.group is None else column.cell(row, now_ms)
        out.append((" " + fitted(text, column.width, right=column.right), style))
    style = severity_mark(row.worst_rank)[1]
    first, *more = trouble_lines(row.findings, row.summary, at.trouble)
    indent = " " * sum(cell_len(text) for text, _ in out)
    out.append((" " + fitted(first, at.trouble), style))
    return (tuple(out), *(((indent, ""), (" " + fitted(it, at.trouble), style)) for it in more))


def row_height(row: FleetRow, at: Layout) -> int:
    """How many lines a group takes."""
    return len(trouble_lines(row.findings, row.summary, at.trouble)) if row.findings else 1


@lru_cache(4_096)
def trouble_lines(findings: tuple[str, ...], summary: str, width: int) -> tuple[str, ...]:
    """What is wrong, in at most `MAX_TROUBLE_LINES` of so many columns; `…` says that there is more of it."""
    trouble = ", ".join(findings)
    if findings and width >= COMFORTABLE_TROUBLE_WIDTH:
        more = f" (+{len(findings) - 1})" if len(findings) > 1 else ""
        trouble = f"{findings[0]}{more}: {summary}"
    if cell_len(trouble) <= width or width < 2:
        return (trouble,)
    # A stranger's text may be of any length: what is not shown need not be broken into lines.
    lines = wrap(trouble[: width * (MAX_TROUBLE_LINES + 1)], width)
    if len(lines) > MAX_TROUBLE_LINES:
        lines[MAX_TROUBLE_LINES - 1 :] = [fitted(" ".join(lines[MAX_TROUBLE_LINES - 1 :]), width)]
    return tuple(lines)


def severity_mark(worst: int) -> Piece:
    """A severity in two columns: glyph and letter."""
    return SEVERITY_MARKS.get(worst, NO_MARK)


class SourceStatus(Struct, frozen=True):
    """How what is shown stands to its source. `failure` says why it does not answer, None while it does.

    What is older than `late_ms` should have been asked for and answered anew.
    """

    where: str
    live: bool
    now_ms: int
    as_of_ms: int | None
    failure: str | None = None
    not_ready: bool = False
    paused: bool = False
    late_ms: int = LATE_MS


def status_line(it: SourceStatus, fleet: Fleet | None, width: int) -> Line:
    """The first line: source, whether it answers, and how old is what is shown."""
    old = None if it.as_of_ms is None else max(it.now_ms - it.as_of_ms, 0)
    since = "" if old is None else f" · {short_age(old)} old"
    right: list[Piece]
    if not it.live:
        when = "" if not it.as_of_ms else f" of {clock(it.as_of_ms)} UTC"
        right = [(f"◼ still picture{when} ", "info")]
    elif it.failure is not None:
        right = [((f"◌ not ready{since} " if it.not_ready else f"✖ AWAY{since} "), "bad")]
    elif it.paused:
        right = [(f"‖ paused{since} ", "info")]
    elif fleet is None:
        right = [("◌ asking ", "dim")]
    elif old is not None and old > it.late_ms:
        # Who hangs refuses nothing: until the question is given up, nothing fails.
        right = [(f"◌ no answer yet{since} ", "warn")]
    elif not fleet.ready:
        right = [(f"▲ behind{since} ", "warn")]
    else:
        right = [(f"● caught up{since} ", "good")]
    left: list[Piece] = [(" kshadow watch ", "title")]
    if width >= MEDIUM_WIDTH:
        left.append((f" {it.where}", "dim"))
    return justified(left, right, width)


def summary(fleet: Fleet, shown: int, sort: str, wanted: str, width: int) -> Line:
    """The second line: how many groups and findings, the order, the filter."""
    counts = dict.fromkeys(sorted(SEVERITY_MARKS, reverse=True), 0)
    for event in fleet.findings:
        counts[Severity.of(event["severity"]).rank] += 1
    left: list[Piece] = [(" " + count(fleet.groups, "group"), "bold"), (" · ", "dim")]
    if not fleet.findings:
        left.append(("no finding open", "good"))
    else:
        left.append((count(len(fleet.findings), "finding") + " ", ""))
        left += [(f" {SEVERITY_MARKS[rank][0]} {n}", SEVERITY_MARKS[rank][1]) for rank, n in counts.items() if n]
    late = fleet.recent_rebalances
    if not wanted or width >= 2 * MEDIUM_WIDTH:
        said = (
            f"at least {late} rebalance{'' if late == 1 else 's'}"
            if fleet.is_recent_partial
            else count(late, "rebalance")
        )
        left += [(" · ", "dim"), (f"{said} in the last 10 min", "" if late else "dim")]
    right: list[Piece] = [(f"by {SORTS[sort][0]} ", "dim")] if width >= MEDIUM_WIDTH else []
    if wanted:
        right.insert(0, (f"“{wanted}”: {shown}  ", "info"))
    return justified(left, right, width)


def change_lines(news: Sequence[Change], width: int, most: int) -> list[Line]:
    """The newest happenings, the newest first, a line each."""
    out: list[Line] = []
    newest = list(news)[::-1][: max(most, 0)]
    name = min(max((cell_len(it.name) for it in newest), default=0), max(width // 4, 10))
    for it in newest:
        first: list[Piece] = [(f" {clock(it.at_ms)} ", "dim"), (fitted(it.name, name), "")]
        glyph, style = (severity_mark(it.rank)[0][0], severity_mark(it.rank)[1]) if it.rank >= 0 else ("·", "dim")
        text = style
        if it.cause:
            glyph, style = cause_info(it.cause).terminal
            text = "ill" if style == "bad" else "dim"
        out.append(clipped([*first, (f" {glyph}", style), (" " + it.text.removeprefix("rebalance, "), text)], width))
    return out
