"""Panels as the dashboards have them: kinds of panels over the SDK's builders, with the settings that all share.

Each has a title, a description (what it shows, when to worry, which command tells more) and a unit. Neither holds
names of groups: Grafana renders descriptions as Markdown, and group names are strangers' text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from grafana_foundation_sdk.builders import common as make
from grafana_foundation_sdk.builders import dashboard as frame
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DashboardLink,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMapping,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from helm.dashboards.looks import GREY, steps

DATASOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
PLUGIN_VERSION: Final = "11.6.0"
"""Grafana 12 and later carry panels of this version over to theirs."""
BAR: Final = "1m"
"""The narrowest bar: at least as long as most scrape intervals."""
BARS: Final = 240
"""How many at most."""

AnyPanel = timeseries.Panel | stat.Panel | statetimeline.Panel | table.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, statetimeline.Panel, table.Panel)


class Q(NamedTuple):
    """A query, and how its series are called."""

    expr: str
    legend: str = ""


class Says(NamedTuple):
    """What a panel says in words. `empty` stands where there is no data, with the reason."""

    title: str
    description: str
    unit: str = "short"
    empty: str = "No data"


class Size(NamedTuple):
    """In Grafana's grid of 24 columns."""

    width: int
    height: int


HALF: Final = Size(12, 8)
SMALL: Final = Size(4, 4)
WIDE: Final = Size(24, 5)


def _panel(panel: P, says: Says, size: Size, colors: Sequence[Threshold] | None = None) -> P:
    panel.title(says.title).description(says.description).datasource(DATASOURCE)
    panel.unit(says.unit).no_value(says.empty).span(size.width).height(size.height)
    thresholds = frame.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE)
    panel.thresholds(thresholds.steps(list(colors or steps(GREY))))
    return panel


def _ask(panel: P, queries: Sequence[Q], *, at_end: bool = False, rows: bool = False) -> P:
    """`at_end`: only the last value is asked for, not its course."""
    for index, it in enumerate(queries):
        query = prometheus.Dataquery().ref_id(chr(ord("A") + index)).expr(it.expr).datasource(DATASOURCE)
        query.legend_format(it.legend)
        query.format(PromQueryFormat.TABLE if rows else PromQueryFormat.TIME_SERIES)
        panel.with_target(query.instant() if at_end else query.range())
    return panel


def _legend(*calcs: str, right: bool = False) -> make.VizLegendOptions:
    legend = make.VizLegendOptions().show_legend(True).calcs(list(calcs))
    legend.display_mode(common.LegendDisplayMode.TABLE if calcs else common.LegendDisplayMode.LIST)
    return legend.placement(common.LegendPlacement.RIGHT if right else common.LegendPlacement.BOTTOM)


def _all_in_tooltip() -> make.VizTooltipOptions:
    return make.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)


def fixed(panel: P, colors: Mapping[str, str]) -> P:
    """Give series of these names these colours."""
    for name, color in colors.items():
        panel.override_by_name(name, [_fixed(color)])
    return panel


def fixed_by_start(panel: P, colors: Mapping[str, str]) -> P:
    """The same for series whose names begin with these words."""
    for start, color in colors.items():
        panel.override_by_regexp(f"/^{start} /", [_fixed(color)])
    return panel


def _series(
    says: Says,
    queries: Sequence[Q],
    size: Size,
    *,
    calcs: Sequence[str],
    decimals: int | None,
    link: DashboardLink | None,
) -> timeseries.Panel:
    panel = _ask(_panel(timeseries.Panel(), says, size), queries)
    panel.legend(_legend(*calcs, right=size.width > 12)).tooltip(_all_in_tooltip()).min(0)
    panel.color_scheme(frame.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    if decimals is not None:
        panel.decimals(decimals)
    if link is not None:
        panel.data_links([_Link(link)])
    return panel


class _Link(frame.DashboardLink):
    """A link that is there already, where the SDK wants to build one."""

    def __init__(self, link: DashboardLink) -> None:
        self._internal = link


def lines(
    says: Says,
    *queries: Q,
    size: Size = HALF,
    calcs: Sequence[str] = ("lastNotNull", "max"),
    decimals: int | None = None,
    steps_: bool = False,
    link: DashboardLink | None = None,
) -> timeseries.Panel:
    """Lines over time. What is missing stays a gap: unknown is not zero. `steps_`: a value holds until the next."""
    panel = _series(says, queries, size, calcs=calcs, decimals=decimals, link=link)
    panel.line_interpolation(
        common.LineInterpolation.STEP_AFTER if steps_ else common.LineInterpolation.LINEAR
    ).line_width(2).fill_opacity(8).show_points(common.VisibilityMode.AUTO).span_nulls(False)
    return panel


def bars(
    says: Says,
    *queries: Q,
    size: Size = HALF,
    colors: Mapping[str, str] | None = None,
    link: DashboardLink | None = None,
) -> timeseries.Panel:
    """How often things happened, one bar on the other; each bar is what came since the one before."""
    panel = _series(says, queries, size, calcs=("sum",), decimals=0, link=link)
    panel.draw_style(common.GraphDrawStyle.BARS).bar_alignment(common.BarAlignment.BEFORE).line_width(0)
    panel.fill_opacity(90).stacking(make.StackingConfig().mode(common.StackingMode.NORMAL))
    panel.interval(BAR).max_data_points(BARS)
    return fixed(panel, colors or {})


def areas(says: Says, *queries: Q, named: Mapping[str, tuple[str, str]], size: Size = HALF) -> timeseries.Panel:
    """Parts of a whole over time. `named`: what series of these names are shown as, and in which colours."""
    panel = _series(says, queries, size, calcs=("lastNotNull", "max"), decimals=0, link=None)
    panel.line_interpolation(common.LineInterpolation.STEP_AFTER).line_width(1).fill_opacity(70)
    panel.stacking(make.StackingConfig().mode(common.StackingMode.NORMAL)).show_points(common.VisibilityMode.NEVER)
    for name, (shown, color) in named.items():
        panel.override_by_name(name, [DynamicConfigValue("displayName", shown), _fixed(color)])
    return panel


def _fixed(color: str) -> DynamicConfigValue:
    return DynamicConfigValue("color", {"mode": FieldColorModeId.FIXED, "fixedColor": color})


def number(
    says: Says,
    *queries: Q,
    size: Size = SMALL,
    colors: Sequence[Threshold] | None = None,
    mappings: list[ValueMapping] | None = None,
    decimals: int | None = None,
    names: bool = False,
    link: DashboardLink | None = None,
) -> stat.Panel:
    """The latest value, large. `names`: the series' names are shown as well."""
    panel = _ask(_panel(stat.Panel(), says, size, colors), queries, at_end=True)
    panel.reduce_options(make.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    panel.color_mode(common.BigValueColorMode.VALUE if colors or mappings else common.BigValueColorMode.NONE)
    panel.graph_mode(common.BigValueGraphMode.NONE).orientation(common.VizOrientation.AUTO)
    panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME if names else common.BigValueTextMode.AUTO)
    panel.color_scheme(frame.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    if mappings:
        panel.mappings(mappings)
    if decimals is not None:
        panel.decimals(decimals)
    if link is not None:
        panel.data_links([_Link(link)])
    return panel


def name_only(says: Says, *queries: Q) -> stat.Panel:
    """The names of series: what is told by a label."""
    panel = number(says, *queries, size=SMALL)
    return panel.text_mode(common.BigValueTextMode.NAME)


def timeline(says: Says, *queries: Q, mappings: list[ValueMapping], size: Size = WIDE) -> statetimeline.Panel:
    """States over time, a row for each series."""
    panel = _ask(_panel(statetimeline.Panel(), says, size), queries)
    panel.mappings(mappings).merge_values(True).show_value(common.VisibilityMode.AUTO).row_height(0.85)
    panel.color_scheme(frame.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    panel.fill_opacity(90).line_width(0).align_value(common.TimelineValueAlignment.LEFT).legend(_legend())
    return panel.tooltip(make.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE)).per_page(20)


class Column(NamedTuple):
    """A column of a table: a label, or `Value #A` for what query A says. A title of None hides it."""

    field: str
    title: str | None
    unit: str = "string"
    decimals: int | None = None
    colors: Sequence[Threshold] = ()
    mappings: Sequence[ValueMapping] = ()
    link: DashboardLink | None = None
    width: int | None = None


def rows(says: Says, *queries: Q, columns: Sequence[Column], sort_by: str, size: Size = HALF) -> table.Panel:
    """A table of what holds at the end of the range; rows of several queries with the same labels become one."""
    panel = _ask(_panel(table.Panel(), says, size), queries, at_end=True, rows=True)
    if len(queries) > 1:
        panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    order = {it.field: index for index, it in enumerate(columns)}
    panel.with_transformation(
        DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}, "indexByName": order})
    )
    panel.sort_by([make.TableSortByFieldState().display_name(sort_by).desc(True)])
    panel.filterable(True).show_header(True).cell_height(common.TableCellHeight.SM)
    panel.footer(make.TableFooterOptions().show(False).enable_pagination(True))
    for it in columns:
        panel.override_by_name(it.field, _column(it))
    return panel


def _column(it: Column) -> list[DynamicConfigValue]:
    if it.title is None:
        return [DynamicConfigValue("custom.hidden", True)]
    said: list[DynamicConfigValue] = [
        DynamicConfigValue("displayName", it.title),
        DynamicConfigValue("unit", it.unit),
    ]
    if it.decimals is not None:
        said.append(DynamicConfigValue("decimals", it.decimals))
    if it.colors:
        said.append(DynamicConfigValue("thresholds", {"mode": ThresholdsMode.ABSOLUTE, "steps": list(it.colors)}))
    if it.mappings:
        said.append(DynamicConfigValue("mappings", list(it.mappings)))
    if it.colors or it.mappings:
        said.append(DynamicConfigValue("custom.cellOptions", {"type": common.TableCellDisplayMode.COLOR_TEXT}))
    if it.link:
        said.append(DynamicConfigValue("links", [it.link]))
    if it.width:
        said.append(DynamicConfigValue("custom.width", it.width))
    return said
