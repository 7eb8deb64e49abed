"""One group in the page: numbers, lanes, causes, the story."""

from __future__ import annotations

from hashlib import blake2b

from agent.presentation.markup import Markup, name, prose, shortened
from agent.presentation.narrative.explain import ADVICE_TITLE
from agent.presentation.narrative.gains import Gains
from agent.presentation.narrative.phrases import unknown_costs
from agent.presentation.narrative.words import capitalized, count, duration, percent_at_least, timestamp
from agent.presentation.report.elements import (
    counted,
    details,
    figure,
    numbers,
    paragraphs,
    scroll_box,
    section,
    stopped_time,
    table,
)
from agent.presentation.report.fleet_report import GroupDetail
from agent.presentation.svg.causes_over_time import Causes, causes_over_time
from agent.presentation.svg.swimlane_table import swimlane_table
from agent.presentation.svg.swimlanes import swimlanes

WIDE, NARROW = 980, 370
"""Pixels of the two drawings."""
CAUSES_PLOT_FROM = 12
"""From so many rebalances on, when which cause came is a picture of its own."""


def group_anchor(group: str) -> str:
    """The same for a group in every report, whatever its name holds."""
    return f"group-{blake2b(group.encode('utf-8', 'surrogatepass'), digest_size=5).hexdigest()}"


def group_section(detail: GroupDetail, since_ms: int, until_ms: int) -> Markup:
    """The section of one group: summary, numbers, lanes, then the story."""
    parts: list[str] = []
    told = detail.story.sections()
    if told and not told[0][0]:
        first, *rest = told.pop(0)[1]
        parts.append(f'<p class="lead">{prose(first)}</p>')
        parts += [f"<p>{prose(text)}</p>" for text in rest]
    parts += [_numbers(detail), _lanes(detail)]
    if (detail.summary.rebalances or 0) >= CAUSES_PLOT_FROM:
        parts.append(_causes(detail, since_ms, until_ms))
    for title, texts in told:
        parts.append(f"<h3>{title}</h3>")
        parts.append(paragraphs(texts, "advice" if title == ADVICE_TITLE else ""))
        gains = detail.story.gains
        if title == ADVICE_TITLE and gains is not None and gains.gains and gains.is_like_the_log:
            parts.append(_gains(gains))
    return section(group_anchor(detail.summary.group), Markup(name(detail.summary.group)), *parts, kind="group")


def _numbers(detail: GroupDetail) -> Markup:
    row, told = detail.summary, detail.story.numbers
    share = told.get("stopped_share")
    others = sum(row.departures.values()) - row.timed_out
    open_now = [found for found in row.findings if found["state"] != "resolved"]
    is_bad = any(found["severity"] != "info" for found in open_now)
    known = f" from {timestamp(detail.story.since_ms)} on" if row.is_partial else ""
    part = "" if share is None else percent_at_least(share, row.unknown_costs > 0)
    about = [f"{part} of its partitions' time{known}"] if part else []
    if row.unknown_costs:
        about.append(unknown_costs(row.unknown_costs, row.rebalances or 0))
    return numbers(
        [
            ("State", row.state or "deleted", _group_kind(detail), False),
            ("Rebalances", counted(row.rebalances or 0, row.is_partial), "", False),
            (
                "Timeouts",
                counted(row.timed_out, row.is_partial),
                "session, poll or rejoin timeout",
                row.timed_out > 0,
            ),
            ("Other departures", counted(others, row.is_partial), "", False),
            (
                "Stopped partition time",
                stopped_time(row.stopped_ms, row.is_cost_partial),
                "; ".join(about),
                False,
            ),
            ("Findings", str(len(row.findings)), f"{len(open_now)} open at the end" if row.findings else "", is_bad),
        ]
    )


def _group_kind(detail: GroupDetail) -> str:
    kind = "" if detail.summary.group_type is None else f"{detail.summary.group_type} group"
    return kind if detail.summary.members is None else f"{kind}, {count(detail.summary.members, 'member')}"


def _lanes(detail: GroupDetail) -> Markup:
    shown = detail.lanes
    if not (shown.lanes or shown.generations or shown.issues):
        return Markup('<p class="note">No member joined or left, so there is no drawing.</p>')
    caption = "Members over time; those with timeouts first. Times are UTC."
    if any(gone.silent_since_ms is not None for lane in shown.lanes for gone in lane.departures):
        caption += " The hatched end of a lane is the time from the last commit to the removal."
    table = scroll_box(f"Rebalances of {shortened(detail.summary.group)}", swimlane_table(shown))
    below = details("As a table", table) if shown.rebalances else Markup("")
    return figure(swimlanes(shown, width=WIDE), swimlanes(shown, width=NARROW), caption, below)


def _gains(gains: Gains) -> Markup:
    """The numbers behind the settings that would have helped."""
    heads = ("Setting", "#Rebalances", "#Stopped partition time", "#A dead member is detected after")
    first = gains.gains[0]
    rows: list[tuple[str, str, str, str]] = [
        ("As today", f"{gains.rebalances:,}", _seconds(gains.stopped_s), _detection_time(first.detects_before_ms))
    ]
    rows += [
        (
            capitalized(it.setting),
            f"{it.rebalances_after:,}",
            _seconds(it.stopped_after_s),
            _detection_time(it.detects_after_ms),
        )
        for it in gains.gains
    ]
    return table("The same history, replayed under other settings", heads, rows)


def _seconds(seconds: float) -> str:
    return duration(round(seconds * 1000))


def _detection_time(ms: int | None) -> str:
    return "-" if ms is None else duration(ms)


def _causes(detail: GroupDetail, since_ms: int, until_ms: int) -> Markup:
    label = f"Causes of {count(detail.summary.rebalances or 0, 'rebalance')} over time"
    said = "Causes of rebalances over time. Times are UTC."
    return Markup("<h3>Causes over time</h3>") + causes_figure(detail.summary.causes, since_ms, until_ms, label, said)


def causes_figure(causes: Causes, since_ms: int, until_ms: int, label: str, caption: str) -> Markup:
    """When which cause came, in both widths. `label` is for those who do not see it."""
    wide, narrow = (
        causes_over_time(causes, since_ms=since_ms, until_ms=until_ms, width=width, label=label)
        for width in (WIDE, NARROW)
    )
    return figure(wide, narrow, caption)
