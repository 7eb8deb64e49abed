"""One group in the page: numbers, lanes, causes, the story."""

from __future__ import annotations

from hashlib import blake2b

from agent.picture.causes import causes_over_time
from agent.picture.markup import Html, name, prose, shortened
from agent.picture.svg import swimlanes
from agent.picture.table import swimlane_table
from agent.report.elements import figure, folded, numbers, paragraphs, scrolls, section, table
from agent.report.facts import Detailed
from agent.story.explain import CHANGE
from agent.story.gains import Gains
from agent.story.words import capital, count, duration, percent

WIDE, NARROW = 980, 370
"""Pixels of the two drawings."""
MANY = 12
"""From so many rebalances on, when which cause came is a picture of its own."""


def anchor(group: str) -> str:
    """The same for a group in every report, whatever its name holds."""
    return f"group-{blake2b(group.encode('utf-8', 'surrogatepass'), digest_size=5).hexdigest()}"


def of_group(it: Detailed, since_ms: int, until_ms: int) -> Html:
    """Its section."""
    parts: list[str] = []
    told = it.story.sections()
    if told and not told[0][0]:
        first, *rest = told.pop(0)[1]
        parts.append(f'<p class="lead">{prose(first)}</p>')
        parts += [f"<p>{prose(text)}</p>" for text in rest]
    parts += [_numbers(it), _lanes(it)]
    if (it.row.rebalances or 0) >= MANY:
        parts.append(_causes(it, since_ms, until_ms))
    for title, texts in told:
        parts.append(f"<h3>{title}</h3>")
        parts.append(paragraphs(texts, "advice" if title == CHANGE else ""))
        if title == CHANGE and it.story.gains is not None and it.story.gains.gains:
            parts.append(_gains(it.story.gains))
    return section(anchor(it.row.group), Html(name(it.row.group)), *parts, kind="group")


def _numbers(it: Detailed) -> Html:
    row, told = it.row, it.story.numbers
    share = told.get("stopped_share")
    others = sum(row.went.values()) - row.thrown_out
    open_now = [found for found in row.findings if found["state"] != "resolved"]
    is_bad = any(found["severity"] != "info" for found in open_now)
    stopped = None if row.stopped_ms is None else duration(row.stopped_ms)
    return numbers(
        [
            ("State", row.state or "gone", _what(it), False),
            ("Rebalances", None if row.rebalances is None else f"{row.rebalances:,}", "", False),
            ("Thrown out", f"{row.thrown_out:,}", "sessions and polls that timed out", row.thrown_out > 0),
            ("Went otherwise", f"{others:,}", "", False),
            (
                "Stopped partition time",
                stopped,
                "" if share is None else f"{percent(share)} of what its partitions could have worked",
                False,
            ),
            ("Findings", str(len(row.findings)), f"{len(open_now)} open at the end" if row.findings else "", is_bad),
        ]
    )


def _what(it: Detailed) -> str:
    kind = "" if it.row.group_type is None else f"{it.row.group_type} group"
    return kind if it.row.members is None else f"{kind}, {count(it.row.members, 'member')}"


def _lanes(it: Detailed) -> Html:
    shown = it.lanes
    if not (shown.lanes or shown.rounds or shown.troubles):
        return Html('<p class="note">Nobody came or went, so there is nothing to draw.</p>')
    caption = "Who was in the group when; the troubled first. Times are UTC."
    if any(gone.silent_since_ms is not None for lane in shown.lanes for gone in lane.departures):
        caption += " The hatched end of a lane is the time from the last commit to being thrown out."
    table = scrolls(f"Rebalances of {shortened(it.row.group)}", swimlane_table(shown))
    below = folded("The same as a table", table) if shown.rebalances else Html("")
    return figure(swimlanes(shown, width=WIDE), swimlanes(shown, width=NARROW), caption, below)


def _gains(gains: Gains) -> Html:
    """The numbers behind the settings that would have helped."""
    heads = ("Setting", "#Rebalances", "#Stopped partition time", "#A death is noticed after")
    first = gains.gains[0]
    rows: list[tuple[str, str, str, str]] = [
        ("As today", f"{gains.rebalances:,}", _seconds(gains.stopped_s), _noticed(first.detects_before_ms))
    ]
    rows += [
        (
            capital(it.setting),
            f"{it.rebalances_after:,}",
            _seconds(it.stopped_after_s),
            _noticed(it.detects_after_ms),
        )
        for it in gains.gains
    ]
    return table("The same history, replayed under other settings", heads, rows)


def _seconds(seconds: float) -> str:
    return duration(round(seconds * 1000))


def _noticed(ms: int | None) -> str:
    return "-" if ms is None else duration(ms)


def _causes(it: Detailed, since_ms: int, until_ms: int) -> Html:
    label = f"Causes of {count(it.row.rebalances or 0, 'rebalance')} over time"
    wide, narrow = (
        causes_over_time(it.row.causes, since_ms=since_ms, until_ms=until_ms, width=width, label=label)
        for width in (WIDE, NARROW)
    )
    return Html(f"<h3>Causes over time</h3>{figure(wide, narrow, 'What set off the rebalances, and when.')}")
