"""What deploys cost."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from matplotlib.figure import Figure

from agent.history.report.page import markup as m
from agent.history.report.page import plots as p
from agent.history.report.page import words as w
from agent.history.report.report_data import ReportData

_SCALING = ("scale_out", "scale_in")


class Split(NamedTuple):
    """A part of all stopped partition time: what it is of, how many episodes and rebalances, how long (None: that is
    known of none of them), and of how many rebalances it is not known."""

    what: str
    episodes: int
    rebalances: int
    stopped_ms: int | None
    unknown: int

    @property
    def known_ms(self) -> int:
        """What is known of it."""
        return self.stopped_ms or 0


def deploys(found: ReportData) -> m.Markup:
    """By group, and against all else."""
    split, whole = _split(found)
    is_part = any(it.unknown for it in split)
    return m.section(
        "deploys",
        "What deploys cost",
        m.paragraph(_sentence(split, whole)),
        _plot(split, whole, is_part=is_part) if whole else m.Markup(""),
        m.table(
            "Stopped partition time by kind of episode",
            [
                m.Column("Episode", lambda it: it.what),
                m.numbers("Episodes", lambda it: w.number(it.episodes)),
                m.numbers("Rebalances", lambda it: w.number(it.rebalances)),
                m.numbers("Stopped partition time", lambda it: w.time(it.stopped_ms)),
                m.numbers("Share", lambda it: w.part(it.stopped_ms, whole)),
                *m.not_known(lambda it: it.unknown, split),
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
        sums = (sum(row[key] or 0 for row in rows) for key in ("episodes", "rebalances", _STOPPED, "stopped_unknown"))
        return _with_what_is_known(Split(what, *sums))

    deploys, scaling = of("Deploys", "deploy"), of("Scaling", *_SCALING)
    others = of("The rest", *(name for name in kinds if name not in ("deploy", *_SCALING)))
    parts = (deploys, scaling, others)
    # At the range's ends an episode may hold more than the hours within it.
    whole = max(found.totals[_STOPPED] or 0, sum(it.known_ms for it in parts))
    rebalances = max(found.totals["rebalances"] or 0, sum(it.rebalances for it in parts))
    unknown = max(found.totals["stopped_unknown"] or 0, sum(it.unknown for it in parts))
    rest = others._replace(
        rebalances=rebalances - deploys.rebalances - scaling.rebalances,
        stopped_ms=whole - deploys.known_ms - scaling.known_ms,
        unknown=unknown - deploys.unknown - scaling.unknown,
    )
    return [deploys, scaling, _with_what_is_known(rest)], whole


def _with_what_is_known(it: Split) -> Split:
    return it._replace(stopped_ms=None) if it.unknown and it.unknown >= it.rebalances else it


_STOPPED = "stopped_partition_ms"


def _sentence(split: Sequence[Split], whole: int) -> str:
    it, scaling, rest = split
    if not it.episodes:
        return "The range contains no deploy."
    deploys = w.count(it.episodes, "deploy")
    others = f"scaling {_part(scaling, whole)}, the rest {_part(rest, whole)}"
    if it.stopped_ms is None:
        return f"For how long {deploys} stopped partitions is not known. Of the time that is known: {others}."
    told = (
        f"{deploys} stopped partitions for {w.time(it.stopped_ms)}, {w.part(it.stopped_ms, whole) or 'nothing'} of"
        f" all stopped partition time; {others}."
    )
    if not it.unknown:
        return told
    return (
        f"{told} The stopped time of {w.number(it.unknown)} of the {w.number(it.rebalances)} rebalances in deploys"
        " is not known."
    )


def _part(it: Split, whole: int) -> str:
    return "not known" if it.stopped_ms is None else w.part(it.stopped_ms, whole) or "none"


def _ranking(found: ReportData) -> m.Markup:
    if not found.deploys:
        return m.Markup("")
    return m.table(
        f"{m.first_of(len(found.deploys), found.deploys_total, 'group')} by stopped time of deploys",
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
            *m.not_known(itemgetter("stopped_unknown"), found.deploys),
        ],
        found.deploys,
    )


def _plot(split: Sequence[Split], whole: int, *, is_part: bool) -> m.Markup:
    of_all = "all stopped partition time that is known" if is_part else "all stopped partition time"

    def draw(figure: Figure, ink: p.Palette, is_wide: bool) -> None:
        at = p.axes(figure, (1, 1, 1), ink, "")
        left = 0.0
        for it, color in zip(split, (p.BLUE, p.ORANGE, p.GREY), strict=True):
            part = 100 * it.known_ms / whole
            at.barh([0], [part], 0.6, left=left, color=color, edgecolor=ink.ground, linewidth=1, label=it.what)
            left += part
        at.set_yticks([])
        at.set_xlim(0, 100)
        at.grid(visible=False)
        at.set_xlabel("% of stopped partition time", color=ink.text, parse_math=False)
        p.legend(at, ink, 3 if is_wide else 1)

    return p.picture(
        draw,
        f"One bar of {of_all}: deploys, scaling, the rest. The table has the numbers.",
        m.Markup(f"{of_all.capitalize()}, by kind of episode."),
        wide=(1240, 130),
        narrow=(340, 170),
    )
