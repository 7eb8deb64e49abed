"""Which groups, and whose, are the least stable."""

from __future__ import annotations

from spark_jobs.report.page import markup as m
from spark_jobs.report.page import words as w
from spark_jobs.report.page.header import cause_words
from spark_jobs.report.page.plots import sparkline
from spark_jobs.report.report_data import ReportData, Row

_GROUPS = (
    m.NumberHead("#"),
    m.Head("Group"),
    m.NumberHead("Stopped partition time", "and its part of that of all groups"),
    m.NumberHead("Rebalances"),
    m.NumberHead("A day", "rebalances by the time that the group was known"),
    m.Head("Course", about="rebalances by day or hour; each row has a scale of its own"),
    m.NumberHead("Mean time between"),
    m.Head("Main cause", about="of most of its rebalances, and its part of them"),
    m.NumberHead("Members that went"),
    m.NumberHead("Members", "the mean"),
    m.NumberHead("Lag p99", "of an hour, in seconds and in records; the mean over hours"),
)
_TEAMS = (
    m.NumberHead("#"),
    m.Head("Team"),
    m.NumberHead("Groups"),
    m.NumberHead("Stopped partition time"),
    m.NumberHead("Rebalances"),
    m.NumberHead("A group and day"),
    m.Head("Main cause"),
    m.NumberHead("Members that went"),
)


def rankings(found: ReportData) -> m.Markup:
    """Two rankings."""
    return m.section(
        "groups",
        "Least stable groups",
        m.paragraph(
            "Ranked by for how long their partitions stood still during rebalances. Each row's course is to a scale",
            f"of its own: the highest bar is that group's worst {found.step}.",
        ),
        m.table(
            f"{m.first_of(len(found.ranking), found.totals['groups'])} groups by stopped partition time",
            _GROUPS,
            [_group(found, row) for row in found.ranking],
        ),
        m.note(
            "A group with many partitions pays more for the same rebalance. Time between rebalances is the mean",
            "of the gaps; it is blank where there was at most one. Lag is blank where no agent looked at it.",
        ),
        m.heading("By team"),
        m.paragraph("A team is what stands before the first . - or _ in a group's name."),
        m.table(
            f"{m.first_of(len(found.teams), found.teams_total)} teams by stopped partition time of their groups",
            _TEAMS,
            [_team(row) for row in found.teams],
        ),
        m.note("Where names follow another rule, these are no teams."),
    )


def _group(found: ReportData, row: Row) -> list[m.Cell]:
    return [
        w.number(row["rank"]),
        m.name(row["group"], cluster=row["cluster"], shows_cluster=found.has_clusters),
        _with_share(row),
        w.number(row["rebalances"]),
        w.decimal(row["rebalances_per_day"]),
        _course(found, row),
        w.time(row["mean_time_between_rebalances_ms"]),
        main_cause(row),
        w.number(row["departures"]),
        w.decimal(row["members_avg"]),
        _lag(row),
    ]


def _with_share(row: Row) -> m.Cell:
    shown = w.time(row["stopped_partition_ms"])
    part = w.share(row["stopped_share"])
    return shown if shown is None or part is None else m.Markup(f"{shown} <small>{part}</small>")


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


def _team(row: Row) -> list[m.Cell]:
    return [
        w.number(row["rank"]),
        m.name(row["team"]),
        w.number(row["groups"]),
        _with_share(row),
        w.number(row["rebalances"]),
        w.decimal(row["rebalances_per_day"]),
        main_cause(row),
        w.number(row["departures"]),
    ]
