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
    m.field("Saves", "saved_partition_ms", w.time, "stopped partition time"),
    m.numbers(
        "Stopped now → then", lambda row: f"{w.time(row['stopped_now_ms'])} → {w.time(row['stopped_then_ms'])}"
    ),
    m.numbers(
        "Rebalances now → then", lambda row: f"{w.number(row['rebalances_now'])} → {w.number(row['rebalances_then'])}"
    ),
    m.numbers("Of", lambda row: w.time(row["until_ms"] - row["since_ms"]), "the time that was replayed"),
)
_OF_WHICH_CLUSTER = (
    "kshadow whatif does not say in which cluster a group is: of several groups of one name, the replay that ends "
    "last is shown."
)


def gains(found: ReportData) -> m.Markup:
    """What the model says, and what the analyzers found."""
    return m.section(
        "settings",
        "Settings that would save the most",
        *_model(found),
        m.heading("Findings"),
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
        return [m.paragraph("No replay under other settings was given (--what-if).", how)]
    left_out = []
    if it.doubtful:
        left_out = [
            m.note(
                f"Left out ({w.number(it.doubtful)}): groups whose log does not confirm the model's stopped times."
            )
        ]
    sure = it.asked - it.doubtful
    groups = w.count(sure, "replayed group")
    if not it.rows:
        return [m.paragraph(f"No other setting would have saved notable stopped time in {groups}."), *left_out]
    rows = it.rows[: found.most_groups]
    saved = sum(row["saved_partition_ms"] for row in it.rows)
    first = rows[0]
    return [
        m.paragraph(
            m.join(
                [
                    f"Another setting would have saved stopped time for {w.number(len(it.rows))} of {groups}: ",
                    f"{w.time(saved)} of partition time in all. ",
                    m.name(first["group"]),
                    f" would save the most, with {m.shortened(first['setting'])}.",
                ]
            )
        ),
        m.table("The setting that saves most, by group", _COLUMNS, rows),
        m.note(
            "From a model. Its stopped time includes the time until a dead member is detected, so it is not "
            "comparable",
            "with the sections above. Groups were replayed over different times; savings are not per day.",
            "“Not exact”: under today's settings the replay differs from the log.",
            _OF_WHICH_CLUSTER if found.has_clusters else None,
        ),
        *left_out,
        *_assumptions(rows),
    ]


def _named(row: Row) -> m.Markup:
    inexact = "" if row["exact"] else m.Markup(" <small>not exact</small>")
    return m.join([m.name(row["group"]), inexact])


def _assumptions(shown: Rows) -> list[m.Markup]:
    often = Counter(text for row in shown for text in dict.fromkeys(row["assumptions"]))
    common = [text for text, times in often.items() if times == len(shown)]
    out = [m.paragraph("Assumptions:"), m.items(m.shortened(text, 500) for text in common)] if common else []
    own = [
        m.Markup(f"{m.name(row['group'])}{m.items(m.shortened(text, 500) for text in rest)}")
        for row in shown
        if (rest := [text for text in row["assumptions"] if text not in common])
    ]
    return [*out, m.folded("Assumptions about single groups", m.items(own))] if own else out


def _found(found: ReportData) -> list[m.Markup]:
    if not found.findings:
        return [m.paragraph("No finding was opened in the range, or no analyzer ran.")]
    return [
        m.table(
            "Findings opened in the range",
            [
                m.Column("Analyzer", lambda it: it["analyzer"] and m.shortened(it["analyzer"])),
                m.field("Findings", "count"),
                m.field("Groups", "groups"),
                m.Column("Most in", lambda row: _most_in(row["most"], shows_cluster=found.has_clusters)),
            ],
            found.findings,
        ),
        m.paragraph(m.code("kshadow explain GROUP"), " and each finding's advice say what to do."),
        m.note("Findings that were opened before the range are not counted."),
    ]


def _most_in(most: Rows, *, shows_cluster: bool) -> m.Cell:
    names = [m.name(it["group"], cluster=it["cluster"], shows_cluster=shows_cluster) for it in most]
    return join_names(names) if names else "the cluster"
