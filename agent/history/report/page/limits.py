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
        f"The history covers {known or 'an unknown part'} of the range, over all "
        f"{w.count(it['groups'], 'group')}. The rest is "
        "time before a group was created or after it was deleted, and time without a log.",
        _lacking(it["half"], "known for less than half of the range: their daily rates are less certain"),
        _lacking(it["members"], "without a known number of members, such as those that only commit offsets"),
        _lacking(it["imbalance"], "without a known imbalance"),
        _lacking(it["lag"], "without known lag: only a running agent records it, the log does not have it"),
        _lacking(it["stopped"], "without known stopped partition time"),
        f"{unknown_cost(found.totals)}, such as those of KIP-848 groups: sums and rates leave them out, and "
        "are too low."
        if found.totals["stopped_unknown"]
        else None,
        "Lag p99 is the mean of the hours' p99, weighted by samples, not the p99 of the range.",
        "Only whole hours within the range count.",
        "How many records waited: the tables do not have the load of partitions.",
    ]
    return m.section(
        "limits",
        "What is not known",
        m.items(row for row in rows if row is not None),
        m.heading("How the report was made"),
        m.paragraph(f"{found.made_with}, at {w.moment(found.made_at_ms)} UTC, by:"),
        m.paragraph(m.code(found.command)),
    )


def _lacking(groups: int, what: str) -> str | None:
    return f"{w.count(groups, 'group')} {what}." if groups else None
