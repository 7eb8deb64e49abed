"""The frame of a dashboard: variables, links, annotations, rows, and the numbering of panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from grafana_foundation_sdk.builders import dashboard as frame
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardLink,
    DashboardLinkType,
    Panel,
    RowPanel,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from helm.dashboards.panels import DATASOURCE, PLUGIN_VERSION, AnyPanel

FLEET: Final = "kshadow-fleet"
GROUP: Final = "kshadow-group"
AGENT: Final = "kshadow-agent"
TAG: Final = "kshadow"
ALL: Final = VariableOption(selected=True, text=["All"], value=["$__all"])

_KEPT: Final = "${datasource:queryparam}&${job:queryparam}&${__url_time_range}"

TO_GROUP_FROM_ROW: Final = DashboardLink(
    title="This group",
    url=f"/d/{GROUP}?var-group=${{__data.fields.group:percentencode}}"
    f"&var-cluster=${{__data.fields.link:percentencode}}&{_KEPT}",
)
TO_GROUP_FROM_SERIES: Final = DashboardLink(
    title="This group",
    url=f"/d/{GROUP}?var-group=${{__field.labels.group:percentencode}}"
    f"&var-cluster=${{__field.labels.link:percentencode}}&{_KEPT}",
)
TO_AGENTS: Final = DashboardLink(title="Agents", url=f"/d/{AGENT}?${{cluster:queryparam}}&{_KEPT}")


class Row(NamedTuple):
    """Panels under a heading."""

    title: str
    panels: Sequence[AnyPanel]
    collapsed: bool = False


class Mark(AnnotationQuery):
    """An annotation from Prometheus, with the fields that Prometheus' data source adds to Grafana's own and the SDK
    lacks. `title` and `tags` name labels; a stranger's text only ever goes into tags, which are shown as they are,
    since a title may hold markup.
    """

    def __init__(
        self, name: str, expr: str, *, color: str, title: str, tags: Sequence[str], enable: bool = True
    ) -> None:
        super().__init__(name=name, datasource=DATASOURCE, enable=enable, hide=False, icon_color=color, expr=expr)
        self.title = title
        self.tags = tags

    def to_json(self) -> dict[str, object]:
        """As Grafana keeps it: older ones read `expr` and `step`, newer ones the target."""
        more = {
            "step": "1m",
            "titleFormat": self.title,
            "textFormat": "",
            "tagKeys": ",".join(self.tags),
            "useValueForTime": False,
            "target": {"datasource": DATASOURCE, "expr": self.expr, "interval": "1m", "range": True, "refId": "Anno"},
        }
        return {**super().to_json(), **more}


class _Is(Builder[AnnotationQuery]):
    def __init__(self, it: AnnotationQuery) -> None:
        self._it = it

    def build(self) -> AnnotationQuery:
        return self._it


def asked(name: str, label: str, metric: str, description: str, *, all_value: str | None) -> Builder[VariableModel]:
    """A variable: the values of the label `name` of a metric, several at a time. `all_value`: what All matches."""
    variable = frame.QueryVariable(name).label(label).description(description).datasource(DATASOURCE)
    variable.query(f"label_values({metric}, {name})")
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
    # Grafana escapes values for regular expressions only where several may be chosen.
    variable.multi(True).include_all(all_value is not None)
    if all_value is not None:
        variable.all_value(all_value).current(ALL)
    return variable


def datasource() -> Builder[VariableModel]:
    """The Prometheus to ask."""
    return frame.DatasourceVariable("datasource").label("Data source").type("prometheus")


def job() -> Builder[VariableModel]:
    """Whose metrics: where the agents of several clusters have no label `cluster`, their jobs tell them apart."""
    return asked(
        "job",
        "Job",
        "kshadow_build_info",
        "Which agents, by what Prometheus calls them.",
        all_value=".+",
    )


def cluster() -> Builder[VariableModel]:
    """All also matches series without the label: an agent of one cluster has none."""
    return asked(
        "cluster",
        "Cluster",
        'kshadow_source_healthy{job=~"$job"}',
        "Empty but for All where agents read one cluster each and Prometheus adds no label.",
        all_value=".*",
    )


class About(NamedTuple):
    """What a dashboard is."""

    uid: str
    title: str
    description: str
    since: str


def dashboard(
    about: About, variables: Sequence[Builder[VariableModel]], marks: Sequence[Mark], rows: Sequence[Row]
) -> Dashboard:
    """Put it together: a datasource, job and cluster to choose come first."""
    it = frame.Dashboard(about.title).uid(about.uid).description(about.description).tags([TAG]).readonly()
    it.time(about.since, "now").refresh("30s").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
    for variable in (datasource(), job(), cluster(), *variables):
        it.with_variable(variable)
    for mark in marks:
        it.annotation(_Is(mark))
    link = frame.DashboardLink("kshadow").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    it.link(link.include_vars(True).keep_time(True).icon("external link"))
    for row in rows:
        heading = frame.Row(row.title).collapsed(row.collapsed)
        if row.collapsed:
            for panel in row.panels:
                heading.with_panel(panel)
        it.with_row(heading)
        if not row.collapsed:
            for panel in row.panels:
                it.with_panel(panel)
    built = it.build()
    _number(built)
    return built


def _number(built: Dashboard) -> None:
    number = 0
    for panel in built.panels or ():
        number += 1
        panel.id_val = number
        for inner in (panel.panels or ()) if isinstance(panel, RowPanel) else (panel,):
            if inner is not panel:
                number += 1
                inner.id_val = number
            if isinstance(inner, Panel):
                inner.plugin_version = PLUGIN_VERSION
