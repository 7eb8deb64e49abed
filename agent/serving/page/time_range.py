"""The range of time that a group's page shows: the last so many minutes, all there is, or from one time to another.

The address says it (`range=1h`, or `since=…&until=…` as the API takes them), so that a link shows others the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent.common.timespec import parse_range
from agent.presentation.markup import Markup
from agent.presentation.narrative.words import day, iso, timestamp
from agent.serving.page.fleet import Event
from agent.serving.page.markup import chips, current, group_address, link, text

PRESETS = {
    "15m": ("15 min", 900_000),
    "1h": ("1 h", 3_600_000),
    "6h": ("6 h", 21_600_000),
    "24h": ("24 h", 86_400_000),
}
"""What can be chosen: words, and how long before now it begins (ms); the shortest first."""
ALL = "all"
MAX_MESSAGE = 300


class TimeRange(Struct, frozen=True):
    """From `since_ms` (None: all there is) to `until_ms` (None: now), epoch milliseconds.

    `preset` is the one of `PRESETS`, or `ALL`; empty for a range between two times. `problem` is what is wrong with
    the range that was asked for, where another is shown instead.
    """

    preset: str
    since_ms: int | None
    until_ms: int | None = None
    problem: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.since_ms is None and self.until_ms is None

    def query(self) -> dict[str, str | None]:
        """As the query of an address says it."""
        if self.preset:
            return {"range": self.preset}
        return {
            "since": None if self.since_ms is None else _instant(self.since_ms),
            "until": None if self.until_ms is None else _instant(self.until_ms),
        }


def chosen_range(asked: Mapping[str, str], events: Sequence[Event], now_ms: int) -> TimeRange:
    """The range that an address asks for, else the shortest preset that shows something."""
    preset = asked.get("range")
    since, until = asked.get("since"), asked.get("until")
    is_known = preset in PRESETS or preset == ALL
    problem = "" if is_known or preset is None else f"expected {', '.join(PRESETS)} or {ALL}, got {preset[:100]!r}"
    if since is not None or until is not None:
        try:
            since_ms, until_ms = parse_range(since, until, now_ms)
            return TimeRange("", since_ms, until_ms)
        except ValueError as error:
            problem = str(error)[:MAX_MESSAGE]
    if preset is None or not is_known:
        last = next((it["at_ms"] for it in reversed(events) if it["type"] != "finding"), now_ms)
        preset = next((name for name, (_, span) in PRESETS.items() if last >= now_ms - span), ALL)
    return TimeRange(preset, None if preset == ALL else now_ms - PRESETS[preset][1], problem=problem)


def range_chips(group: str, cluster: str | None, chosen: TimeRange, began_ms: int, now_ms: int) -> Markup:
    """What can be chosen, and the link that shows others what is shown here. `began_ms`: where that begins."""
    every = {**{value: words for value, (words, _) in PRESETS.items()}, ALL: "all"}
    links = [
        link(group_address(group, cluster, range=value), words, data_swap="", **current(value == chosen.preset))
        for value, words in every.items()
    ]
    until_ms = now_ms if chosen.until_ms is None else chosen.until_ms
    same_day = day(began_ms) == day(until_ms)
    words = f"{timestamp(began_ms)} to {timestamp(until_ms)[11 if same_day else 0 :]}"
    fixed = TimeRange("", began_ms // 1_000 * 1_000, -(-until_ms // 1_000) * 1_000)
    if chosen.preset:
        title = f"A link to share, which keeps showing {words} UTC"
        shown = link(group_address(group, cluster, **fixed.query()), "Link to this", data_swap="", title=title)
    else:
        # The address is what to share.
        shown = link(group_address(group, cluster, **chosen.query()), words, data_swap="", **current(True))
    return chips("ranges", "Time range", f"<span>Range</span>{''.join(links)}{shown}")


def range_problem(chosen: TimeRange) -> Markup:
    """That the address asks for what is no range; nothing where it does not."""
    if not chosen.problem:
        return Markup("")
    said = f"The address has no valid range, so another one is shown: {text(chosen.problem, MAX_MESSAGE)}."
    return Markup(f'<p class="notice" id="no-range" role="status">{said}</p>')


def _instant(at_ms: int) -> str:
    return iso(at_ms) if at_ms % 1_000 == 0 else str(at_ms)
