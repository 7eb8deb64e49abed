"""Which settings would gain the most."""

from __future__ import annotations

from collections import Counter

from agent.history.report.page import markup as m
from agent.history.report.page import words as w
from agent.history.report.page.header import join_names
from agent.history.report.report_data import ReportData, Row, Rows

_COLUMNS = (
    m.field("#", "rank"),
    m.Column("Group", lambda row: _named(row)),
    m.Column("Setting", lambda row: m.shortened(row["setting"])),
    m.field("Saves", "saved_partition_ms", w.time, "partition time without work"),
    m.numbers(
        "Stopped now → then", lambda row: f"{w.time(row['stopped_now_ms'])} → {w.time(row['stopped_then_ms'])}"
    ),
    m.numbers(
        "Rebalances now → then", lambda row: f"{w.number(row['rebalances_now'])} → {w.number(row['rebalances_then'])}"
    ),
    m.numbers("Of", lambda row: w.time(row["until_ms"] - row["since_ms"]), "the time that was replayed"),
)


def gains(found: ReportData) -> m.Markup:
    """What the model says, and what the analyzers found."""
    return m.section(
        "settings",
        "Settings that would gain the most",
        *_model(found),
        m.heading("What the analyzers found"),
        *_found(found),
    )


def _model(found: ReportData) -> list[m.Markup]:
    it = found.gains
    how = m.join(
        [
            "For a group: ",
            m.code("kshadow whatif GROUP --bootstrap-server … -o json > what-if/GROUP.json"),
            ", then this report with that directory as what-if.",
        ]
    )
    if it is None:
        return [m.paragraph("Not asked: no replay under other settings was given.", how)]
    groups = f"{w.number(it.asked)} replayed group{'' if it.asked == 1 else 's'}"
    if not it.rows:
        return [m.paragraph(f"Of {groups} no setting would have saved any standstill worth the name.")]
    rows = it.rows[: found.most_groups]
    saved = sum(row["saved_partition_ms"] for row in it.rows)
    first = rows[0]
    return [
        m.paragraph(
            m.join(
                [
                    f"Of {groups} {w.number(len(it.rows))} would gain from another setting, ",
                    f"in all {w.time(saved)} of partition time. ",
                    m.name(first["group"]),
                    f" would gain the most, by {m.shortened(first['setting'])}.",
                ]
            )
        ),
        m.table("The setting that would have saved each group the most", _COLUMNS, rows),
        m.note(
            "A model, not a measurement; its standstill counts deaths that nobody has noticed yet as well: it is not",
            "that of the sections above. Groups were replayed over different times; savings are not by the day.",
            "“Not exact”: under today's settings the replay does not come out as the log.",
        ),
        *_assumptions(rows),
    ]


def _named(row: Row) -> m.Markup:
    inexact = "" if row["exact"] else m.Markup(" <small>not exact</small>")
    return m.join([m.name(row["group"]), inexact])


def _assumptions(shown: Rows) -> list[m.Markup]:
    often = Counter(text for row in shown for text in dict.fromkeys(row["assumptions"]))
    common = [text for text, times in often.items() if times == len(shown)]
    out = (
        [m.paragraph("What this takes for granted:"), m.items(m.shortened(text, 500) for text in common)]
        if common
        else []
    )
    own = [
        m.Markup(f"{m.name(row['group'])}{m.items(m.shortened(text, 500) for text in rest)}")
        for row in shown
        if (rest := [text for text in row["assumptions"] if text not in common])
    ]
    return [*out, m.folded("What it takes for granted of one group", m.items(own))] if own else out


def _found(found: ReportData) -> list[m.Markup]:
    if not found.findings:
        return [m.paragraph("No finding began to fire in the range, or no analyzer looked.")]
    return [
        m.table(
            "Findings that began to fire",
            [
                m.Column("Analyzer", lambda it: it["analyzer"] and m.shortened(it["analyzer"])),
                m.field("Findings", "count"),
                m.field("Groups", "groups"),
                m.Column("Most in", _most_in),
            ],
            found.findings,
        ),
        m.paragraph("What to do is in ", m.code("kshadow explain GROUP"), " and in each finding's advice."),
        m.note("Findings that were open before the range and stayed so are not in these tables."),
    ]


def _most_in(row: Row) -> m.Cell:
    return join_names([m.name(name) for name in row["most"]]) if row["most"] else "the cluster"
