"""What deploys cost."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from spark_jobs.report.page import markup as m
from spark_jobs.report.page import plots as p
from spark_jobs.report.page import words as w
from spark_jobs.report.report_data import ReportData, Row

_HEADS = (
    m.NumberHead("#"),
    m.Head("Group"),
    m.NumberHead("Deploys"),
    m.NumberHead("Stopped, total", "stopped partition time of all its deploys"),
    m.NumberHead("Stopped, median", "of a deploy"),
    m.NumberHead("Rebalances"),
    m.NumberHead("A deploy", "rebalances"),
    m.NumberHead("Members replaced"),
    m.NumberHead("Stopped per member", "stopped partition time by members replaced"),
)
_SCALING = ("scale_out", "scale_in")
Split = tuple[str, int | None, int | None, int | None]
"""What, how many episodes and rebalances, stopped partition time."""


def deploys(found: ReportData) -> m.Markup:
    """By group, and against all else."""
    split, whole = _split(found)
    return m.section(
        "deploys",
        "What deploys cost",
        m.paragraph(_sentence(split, whole)),
        _plot(split, whole) if whole else m.Markup(""),
        m.table(
            "Stopped partition time by what happened",
            [
                m.Head("What"),
                m.NumberHead("Episodes"),
                m.NumberHead("Rebalances"),
                m.NumberHead("Stopped partition time"),
                m.NumberHead("Part"),
            ],
            [[what, w.number(n), w.number(done), w.time(ms), w.part(ms, whole)] for what, n, done, ms in split],
        ),
        _ranking(found),
        m.note(
            "A deploy is a busy time of a group, with less than ten minutes from one rebalance to the next, in which",
            "members were replaced: a crash loop looks the same. Members replaced are the lesser of those that came",
            "and those that went, and static members that came back. The rest is other episodes and what is in none.",
        ),
    )


def _split(found: ReportData) -> tuple[list[Split], int]:
    kinds = {row["kind"]: row for row in found.kinds}

    def of(*names: str) -> tuple[int, int, int]:
        rows = [kinds[name] for name in names if name in kinds]
        count, done, ms = (sum(row[key] or 0 for row in rows) for key in ("episodes", "rebalances", _STOPPED))
        return count, done, ms

    deploy, scaling = of("deploy"), of(*_SCALING)
    others = of(*(name for name in kinds if name not in ("deploy", *_SCALING)))
    # At the range's ends an episode may hold more than the hours within it.
    whole = max(found.totals[_STOPPED] or 0, deploy[2] + scaling[2] + others[2])
    rebalances = max(found.totals["rebalances"] or 0, deploy[1] + scaling[1] + others[1])
    rest = (others[0], rebalances - deploy[1] - scaling[1], whole - deploy[2] - scaling[2])
    return [("Deploys", *deploy), ("Scaling out and in", *scaling), ("The rest", *rest)], whole


_STOPPED = "stopped_partition_ms"


def _sentence(split: Sequence[Split], whole: int) -> str:
    _, count, _, ms = split[0]
    if not count:
        return "No deploy was seen."
    return (
        f"{w.number(count)} deploy{'' if count == 1 else 's'} kept partitions from being worked on for {w.time(ms)} "
        f"of partition time: {w.part(ms, whole) or 'nothing'} of all of it. "
        f"Scaling had {w.part(split[1][3], whole) or 'none'}, the rest {w.part(split[2][3], whole) or 'none'}."
    )


def _ranking(found: ReportData) -> m.Markup:
    if not found.deploys:
        return m.Markup("")
    shown, total = len(found.deploys), found.deploys_total
    return m.table(
        f"{m.first_of(shown, total)} groups by what deploys cost",
        _HEADS,
        [_group(found, row) for row in found.deploys],
    )


def _group(found: ReportData, row: Row) -> list[m.Cell]:
    return [
        w.number(row["rank"]),
        m.name(row["group"], cluster=row["cluster"], shows_cluster=found.has_clusters),
        w.number(row["deploys"]),
        w.time(row[_STOPPED]),
        w.time(row["stopped_median_ms"]),
        w.number(row["rebalances"]),
        w.decimal(row["rebalances_per_deploy"]),
        w.number(row["members_replaced"]),
        w.time(row["stopped_per_member_ms"]),
    ]


def _plot(split: Sequence[Split], whole: int) -> m.Markup:
    def draw(figure: Figure, ink: p.Palette, is_wide: bool) -> None:
        at = p.axes(figure, (1, 1, 1), ink, "")
        left = 0.0
        for (what, _, _, ms), color in zip(split, (p.BLUE, p.ORANGE, p.GREY), strict=True):
            part = 100 * (ms or 0) / whole
            at.barh([0], [part], 0.6, left=left, color=color, edgecolor=ink.ground, linewidth=1, label=what)
            left += part
        at.set_yticks([])
        at.set_xlim(0, 100)
        at.grid(visible=False)
        at.set_xlabel("% of stopped partition time", color=ink.text, parse_math=False)
        p.legend(at, ink, 3 if is_wide else 1)

    return p.picture(
        draw,
        "One bar of all stopped partition time: deploys, scaling, the rest. The table has the numbers.",
        m.Markup("All stopped partition time, by what happened."),
        wide=(1240, 130),
        narrow=(340, 170),
    )
