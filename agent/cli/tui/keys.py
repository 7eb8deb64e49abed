"""The keys of each screen, and the page that tells of keys, columns and signs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from agent.cli.tui.fleet import SORTS
from agent.cli.tui.lines import Line, Piece, wrapped

Keys = Sequence[tuple[str, str]]

FLEET_KEYS: Keys = (
    ("↑↓", "move"),
    ("Enter", "open"),
    ("/", "filter"),
    ("s", "sort"),
    ("e", "explain"),
    ("f", "findings"),
    ("?", "keys"),
    ("q", "quit"),
    ("p", "pause"),
)
GROUP_KEYS: Keys = (
    ("Esc", "back"),
    ("↑↓", "scroll"),
    ("Tab", "next part"),
    ("e", "explain"),
    ("?", "keys"),
    ("q", "quit"),
    ("p", "pause"),
)
PANEL_KEYS: Keys = (("Esc", "back"), ("↑↓", "scroll"), ("q", "quit"))

HELP: Sequence[tuple[str, Sequence[tuple[str, str]]]] = (
    (
        "The fleet",
        (
            ("↑ ↓ j k", "move; PgUp, PgDn, Home and End move further"),
            ("Enter", "open the group"),
            (
                "/",
                "filter as you type, by names, states, types, severities and analyzers; Enter keeps, Esc clears",
            ),
            ("s", "next order; " + ", ".join(f"{key} by {name}" for key, (name, _) in SORTS.items())),
            ("f", "all open findings with their advice"),
            ("e", "explain the group in sentences"),
            ("p", "pause: nothing on the screen moves"),
            ("u", "update now"),
        ),
    ),
    (
        "Columns",
        (
            ("✖C ▲W ●I", "the severest open finding: critical, warning, info"),
            ("MEMB PARTS", "members, and partitions they hold"),
            ("REBAL LATE", "rebalances in all, and in the last 10 minutes"),
            ("LAG", "records behind, over all partitions; - where it is not known"),
            ("SINCE COMMIT", "how long in this state, and since the last commit"),
        ),
    ),
    (
        "A group",
        (
            (
                "■ ◆ □ ·",
                "a partition of the member, one that just moved, an unassigned one, another member's",
            ),
            (
                "✖ - + ? ~",
                "a rebalance: a member was removed, left, joined, went unknown how; or another cause",
            ),
            ("Tab", "next part of the page, or the other column"),
            ("Esc", "back to the fleet"),
        ),
    ),
)


def keys_line(keys: Keys, width: int) -> Line:
    """The footer: as many keys as there is room for."""
    out: list[Piece] = []
    left = width
    leave = next(key for key in keys if key[0] == "q")
    for key, what in keys:
        needed = cell_len(key) + cell_len(what) + 3
        # How to leave is always there.
        rest = 0 if key == "q" or (leave[0], "key") in [(text.strip(), style) for text, style in out] else 9
        if left < needed + rest:
            continue
        out += [(f" {key}", "key"), (f" {what} ", "")]
        left -= needed
    return tuple(out)


def help_lines(width: int) -> list[Line]:
    """The page of help."""
    out: list[Line] = []
    for title, rows in HELP:
        out += [(), ((f" {title}", "section"),)]
        for keys, what in rows:
            out += wrapped([(f"  {keys:<13}", "key")], what, width - 1)
    return [*out, (), ((" Times are UTC.", "dim"),)]
