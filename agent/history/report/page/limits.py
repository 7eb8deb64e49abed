"""What the page cannot tell, and how it was made."""

from __future__ import annotations

from agent.history.report.page import markup as m
from agent.history.report.page import words as w
from agent.history.report.page.header import unknown_cost
from agent.history.report.report_data import ReportData


def limits(found: ReportData) -> m.Markup:
    """The last section."""
    it = found.unknown
    span_ms = found.span.until_ms - found.span.since_ms
    known = w.part(it["known_ms"], it["groups"] * span_ms)
    rows = [
        f"Of the time that all {w.number(it['groups'])} groups could have been there in the range "
        f"{known or 'an unknown part'} is known. The rest is time before a group was made or after it was deleted, "
        "and time that no log tells of.",
        _lacking(it["half"], "known for less than half of the range: their rates a day rest on less"),
        _lacking(it["members"], "without a known number of members, such as those that only commit offsets"),
        _lacking(it["imbalance"], "without a known imbalance"),
        _lacking(
            it["lag"], "without known lag: it is there only where a running agent looked at it, not from the log"
        ),
        _lacking(it["stopped"], "without known stopped partition time"),
        f"{unknown_cost(found.totals)}, such as those of KIP-848 groups: sums are of the others, and rates too low."
        if found.totals["stopped_unknown"]
        else None,
        "Lag p99 is the mean of hours' p99, by samples: percentiles of hours make none of the whole range.",
        "Only hours that lie wholly in the range count. Windows of five minutes and of days are not read.",
        "How stopped partitions hurt: that takes the load of each partition, which these tables do not have.",
    ]
    return m.section(
        "limits",
        "What this page cannot tell",
        m.items(row for row in rows if row is not None),
        m.heading("How it was made"),
        m.paragraph(f"{found.made_with}, at {w.moment(found.made_at_ms)} UTC, by:"),
        m.paragraph(m.code(found.command)),
    )


def _lacking(groups: int, what: str) -> str | None:
    return f"{w.number(groups)} group{'' if groups == 1 else 's'} {what}." if groups else None
