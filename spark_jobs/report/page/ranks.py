"""Which groups, and whose, are the least stable."""

from __future__ import annotations

from spark_jobs.report.found import Found, Row
from spark_jobs.report.page import markup as m
from spark_jobs.report.page import words as w
from spark_jobs.report.page.head import words_of
from spark_jobs.report.page.plots import sparkline

_GROUPS = (
    m.N("#"),
    m.Head("Group"),
    m.N("Stopped partition time", "and its part of that of all groups"),
    m.N("Rebalances"),
    m.N("A day", "rebalances by the time that the group was known"),
    m.Head("Course", about="rebalances by day or hour; each row has a scale of its own"),
    m.N("Mean time between"),
    m.Head("Main cause", about="of most of its rebalances, and its part of them"),
    m.N("Members that went"),
    m.N("Members", "the mean"),
    m.N("Lag p99", "of an hour, in seconds and in records; the mean over hours"),
)
_TEAMS = (
    m.N("#"),
    m.Head("Team"),
    m.N("Groups"),
    m.N("Stopped partition time"),
    m.N("Rebalances"),
    m.N("A group and day"),
    m.Head("Main cause"),
    m.N("Members that went"),
)


def ranks(found: Found) -> m.Html:
    """Two rankings."""
    return m.section(
        "groups",
        "Least stable groups",
        m.paragraph(
            "Ranked by for how long their partitions stood still during rebalances. Each row's course is to a scale",
            f"of its own: the highest bar is that group's worst {found.step}.",
        ),
        m.table(
            f"{m.first(len(found.ranking), found.totals['groups'])} groups by stopped partition time",
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
            f"{m.first(len(found.teams), found.teams_total)} teams by stopped partition time of their groups",
            _TEAMS,
            [_team(row) for row in found.teams],
        ),
        m.note("Where names follow another rule, these are no teams."),
    )


def _group(found: Found, it: Row) -> list[m.Cell]:
    return [
        w.number(it["rank"]),
        m.name(it["group"], cluster=it["cluster"], shows_cluster=found.has_clusters),
        _with_share(it),
        w.number(it["rebalances"]),
        w.decimal(it["rebalances_per_day"]),
        _course(found, it),
        w.time(it["mean_time_between_rebalances_ms"]),
        main_cause(it),
        w.number(it["departures"]),
        w.decimal(it["members_avg"]),
        _lag(it),
    ]


def _with_share(it: Row) -> m.Cell:
    shown = w.time(it["stopped_partition_ms"])
    part = w.share(it["stopped_share"])
    return shown if shown is None or part is None else m.Html(f"{shown} <small>{part}</small>")


def main_cause(it: Row) -> m.Cell:
    """With its part; a group without rebalances has none."""
    if it["main_cause"] is None:
        return "none" if it["rebalances"] == 0 else None
    return m.join([words_of(it["main_cause"]), m.Html(f" <small>{w.share(it['main_cause_share'])}</small>")])


def _course(found: Found, it: Row) -> m.Cell:
    of_group = found.courses.get(it["rank"], {})
    values = [of_group.get(start) for start in found.starts]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sparkline(values, f"Rebalances by {found.step}: at most {w.number(max(known))}")


def _lag(it: Row) -> m.Cell:
    shown, records = w.seconds(it["lag_seconds_p99"]), w.number(it["lag_records_p99"])
    if records is None:
        return shown
    told = f"{records} records"
    return told if shown is None else m.Html(f"{shown} <small>{told}</small>")


def _team(it: Row) -> list[m.Cell]:
    return [
        w.number(it["rank"]),
        m.name(it["team"]),
        w.number(it["groups"]),
        _with_share(it),
        w.number(it["rebalances"]),
        w.decimal(it["rebalances_per_day"]),
        main_cause(it),
        w.number(it["departures"]),
    ]
