"""What deploys cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from agent.history.report.page import markup as m
from agent.history.report.page import plots as p
from agent.history.report.page import words as w
from agent.history.report.report_data import ReportData

_SCALING = ("scale_out", "scale_in")


class Split(NamedTuple):
    """A part of all stopped partition time: what it is of, how many episodes and rebalances, how long."""

    what: str
    episodes: int
    rebalances: int
    stopped_ms: int


def deploys(found: ReportData) -> m.Markup:
    """By group, and against all else."""
    split, whole = _split(found)
    return m.section(
        "deploys",
        "What deploys cost",
        m.paragraph(_sentence(split, whole)),
        _plot(split, whole) if whole else m.Markup(""),
        m.table(
            "Stopped partition time by kind of episode",
            [
                m.Column("Episode", lambda it: it.what),
                m.numbers("Episodes", lambda it: w.number(it.episodes)),
                m.numbers("Rebalances", lambda it: w.number(it.rebalances)),
                m.numbers("Stopped partition time", lambda it: w.time(it.stopped_ms)),
                m.numbers("Share", lambda it: w.part(it.stopped_ms, whole)),
            ],
            split,
        ),
        _ranking(found),
        m.note(
            "A deploy is an episode, with less than ten minutes from one rebalance to the next, in which "
            "members were",
            "replaced; a crash loop looks the same. Members replaced: the smaller of joins and departures, "
            "plus static",
            "members that joined again. The rest: other episodes, and rebalances outside of any.",
        ),
    )


def _split(found: ReportData) -> tuple[list[Split], int]:
    kinds = {row["kind"]: row for row in found.kinds}

    def of(what: str, *names: str) -> Split:
        rows = [kinds[name] for name in names if name in kinds]
        return Split(what, *(sum(row[key] or 0 for row in rows) for key in ("episodes", "rebalances", _STOPPED)))

    deploys, scaling = of("Deploys", "deploy"), of("Scaling", *_SCALING)
    others = of("The rest", *(name for name in kinds if name not in ("deploy", *_SCALING)))
    parts = (deploys, scaling, others)
    # At the range's ends an episode may hold more than the hours within it.
    whole = max(found.totals[_STOPPED] or 0, sum(it.stopped_ms for it in parts))
    rebalances = max(found.totals["rebalances"] or 0, sum(it.rebalances for it in parts))
    rest = others._replace(
        rebalances=rebalances - deploys.rebalances - scaling.rebalances,
        stopped_ms=whole - deploys.stopped_ms - scaling.stopped_ms,
    )
    return [deploys, scaling, rest], whole


_STOPPED = "stopped_partition_ms"


def _sentence(split: Sequence[Split], whole: int) -> str:
    (_, count, _, ms), scaling, rest = split
    if not count:
        return "The range contains no deploy."
    return (
        f"{w.number(count)} deploy{'' if count == 1 else 's'} stopped partitions for {w.time(ms)}, "
        f"{w.part(ms, whole) or 'nothing'} of all stopped partition time; scaling "
        f"{w.part(scaling.stopped_ms, whole) or 'none'}, the rest {w.part(rest.stopped_ms, whole) or 'none'}."
    )


def _ranking(found: ReportData) -> m.Markup:
    if not found.deploys:
        return m.Markup("")
    return m.table(
        f"{m.first_of(len(found.deploys), found.deploys_total)} groups by stopped time of deploys",
        [
            m.field("#", "rank"),
            m.group_column(found.has_clusters),
            m.field("Deploys", "deploys"),
            m.field("Stopped, total", _STOPPED, w.time, "stopped partition time of all its deploys"),
            m.field("Stopped, median", "stopped_median_ms", w.time, "per deploy"),
            m.field("Rebalances", "rebalances"),
            m.field("A deploy", "rebalances_per_deploy", w.decimal, "rebalances"),
            m.field("Members replaced", "members_replaced"),
            m.field(
                "Stopped per member", "stopped_per_member_ms", w.time, "stopped partition time by members replaced"
            ),
        ],
        found.deploys,
    )


def _plot(split: Sequence[Split], whole: int) -> m.Markup:
    def draw(figure: Figure, ink: p.Palette, is_wide: bool) -> None:
        at = p.axes(figure, (1, 1, 1), ink, "")
        left = 0.0
        for it, color in zip(split, (p.BLUE, p.ORANGE, p.GREY), strict=True):
            part = 100 * it.stopped_ms / whole
            at.barh([0], [part], 0.6, left=left, color=color, edgecolor=ink.ground, linewidth=1, label=it.what)
            left += part
        at.set_yticks([])
        at.set_xlim(0, 100)
        at.grid(visible=False)
        at.set_xlabel("% of stopped partition time", color=ink.text, parse_math=False)
        p.legend(at, ink, 3 if is_wide else 1)

    return p.picture(
        draw,
        "One bar of all stopped partition time: deploys, scaling, the rest. The table has the numbers.",
        m.Markup("All stopped partition time, by kind of episode."),
        wide=(1240, 130),
        narrow=(340, 170),
    )
