"""Which groups, and whose, are the least stable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agent.history.report.page import markup as m
from agent.history.report.page import words as w
from agent.history.report.page.header import cause_words, without_unknown
from agent.history.report.page.plots import sparkline
from agent.history.report.report_data import ReportData, Row


def _group_columns(found: ReportData) -> Sequence[m.Column]:
    return (
        m.field("#", "rank"),
        m.group_column(found.has_clusters),
        m.numbers("Stopped partition time", _with_share, "and its share of the total"),
        m.field("Rebalances", "rebalances"),
        m.field("Per day", "rebalances_per_day", w.decimal, "rebalances per known time of the group"),
        m.Column("Over time", partial(_course, found), "rebalances by day or hour; each row has its own scale"),
        m.field("Mean time between", "mean_time_between_rebalances_ms", w.time),
        m.Column("Main cause", main_cause, "the cause of most rebalances, and its share of them"),
        m.field("Departures", "departures"),
        m.field("Members", "members_avg", w.decimal, "the mean"),
        m.numbers("Lag p99", _lag, "of an hour, in seconds and in records; the mean over hours"),
    )


def _team_columns() -> Sequence[m.Column]:
    return (
        m.field("#", "rank"),
        m.Column("Team", lambda row: m.name(row["team"])),
        m.field("Groups", "groups"),
        m.numbers("Stopped partition time", _with_share),
        m.field("Rebalances", "rebalances"),
        m.field("Per group and day", "rebalances_per_day", w.decimal),
        m.Column("Main cause", main_cause),
        m.field("Departures", "departures"),
    )


def rankings(found: ReportData) -> m.Markup:
    """Two rankings."""
    return m.section(
        "groups",
        "Least stable groups",
        m.paragraph(
            "Ranked by stopped partition time. Each row's bars have their own scale:",
            f"the highest is that group's worst {found.step}.",
        ),
        m.table(
            f"{m.first_of(len(found.ranking), found.totals['groups'], 'group')} by stopped partition time",
            _group_columns(found),
            found.ranking,
        ),
        m.note(
            "The same rebalance costs more in a group with more partitions. Time between rebalances is blank "
            "where there",
            "was at most one. Lag is blank where no agent recorded it.",
        ),
        m.heading("By team"),
        m.paragraph("A team is the part of a group's name before the first . - or _."),
        m.table(
            f"{m.first_of(len(found.teams), found.teams_total, 'team')} by stopped partition time of their groups",
            _team_columns(),
            found.teams,
        ),
        m.note("Where names follow another rule, ignore this table."),
    )


def _with_share(row: Row) -> m.Cell:
    shown = w.time(row["stopped_partition_ms"])
    if shown is None:
        return None
    notes = [it for it in (w.share(row["stopped_share"]), without_unknown(row)) if it is not None]
    return m.Markup(f"{shown}{''.join(f' <small>{it}</small>' for it in notes)}")


def main_cause(row: Row) -> m.Cell:
    """With its part; a group without rebalances has none."""
    if row["main_cause"] is None:
        return "none" if row["rebalances"] == 0 else None
    return m.join([cause_words(row["main_cause"]), m.Markup(f" <small>{w.share(row['main_cause_share'])}</small>")])


def _course(found: ReportData, row: Row) -> m.Cell:
    of_group = found.courses.get(row["rank"], {})
    values = [of_group.get(start) for start in found.starts]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sparkline(values, f"Rebalances by {found.step}: at most {w.number(max(known))}")


def _lag(row: Row) -> m.Cell:
    shown, records = w.seconds(row["lag_seconds_p99"]), w.number(row["lag_records_p99"])
    if records is None:
        return shown
    told = f"{records} records"
    return told if shown is None else m.Markup(f"{shown} <small>{told}</small>")
