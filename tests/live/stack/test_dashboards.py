"""Every query of the dashboards, asked of a real Prometheus after real faults: each returns data."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest

from tests.live.helm.dashboards import asking, grafana
from tests.live.helm.dashboards.grafana import Json, Query, Screen
from tests.live.stack.scene import DEPLOY, Stack

pytestmark = [
    pytest.mark.usefixtures("kafka"),
    pytest.mark.thorough,
]  # helm.dashboards has tests without Prometheus

GROUPS = {
    "crash": "checkout-crash-loop",
    "stall": "invoices-slow-batch",
    "lopsided": "search-lopsided",
}
"""Of the scene, by what is done to them."""

EMPTY = {
    "kshadow-agent / Age of the oldest open transaction, by partition (timeseries) / A": "none is left open",
    "kshadow-agent / annotation Alerts about agents": "alerts about agents wait minutes, longer than the scene",
    "kshadow-fleet / Departures by origin (timeseries) / A": "the scene has no Kubernetes",
    "kshadow-group / Departures by origin (timeseries) / A": "the scene has no Kubernetes",
}
"""Queries that may rightly return nothing here, each with the reason. Whatever else is empty is wrong."""

DASHBOARDS = grafana.load()


def _all() -> Iterator[tuple[str, Query]]:
    for uid, dashboard in DASHBOARDS.items():
        for query in (*grafana.queries(dashboard), *grafana.annotations(dashboard)):
            yield uid, query


class Looking(NamedTuple):
    """Someone who looks at the scene."""

    prometheus: str
    screen: Screen
    """Of today, so to say: everything is over."""
    before: Screen
    """While the faults were there."""

    def at(
        self, uid: str, query: Query, chosen: Mapping[str, Sequence[str]], screen: Screen | None = None
    ) -> list[asking.Series]:
        return asking.run(self.prometheus, query, DASHBOARDS[uid], chosen, screen or self.screen)

    def panel(self, uid: str, title: str, kind: str, **chosen: str) -> list[asking.Series]:
        found = [it for it in grafana.queries(DASHBOARDS[uid]) if it.where.startswith(f"{uid} / {title} ({kind})")]
        return [series for it in found for series in self.at(uid, it, {name: [it] for name, it in chosen.items()})]


@pytest.fixture(scope="module")
def looking(stack: Stack) -> Looking:
    """Ten minutes up to now: bars of a minute."""
    now = time.time()
    # Up to the end of a minute that has begun: its bar is there as well.
    return Looking(
        stack.prometheus, Screen(now - 600, now + 60, scrape_s=1), Screen(stack.began, stack.over, scrape_s=1)
    )


def _points(found: Sequence[asking.Series]) -> list[float]:
    return [value for series in found for _, value in series.points if not math.isnan(value)]


@pytest.mark.parametrize(("uid", "query"), [pytest.param(*it, id=it[1].where) for it in _all()])
def test_it_returns_data(looking: Looking, uid: str, query: Query) -> None:
    """Now or while there were faults; of one of the groups at least, if it asks for one: none has all the faults."""
    if " / annotation " in query.where:
        # Alerts stand for seconds in the scene, for less than the minute of which an annotation asks.
        query = query._replace(panel={"interval": "1s"})
    chosen: list[dict[str, Sequence[str]]] = [{}]
    if "group" in grafana.variables(DASHBOARDS[uid]):
        chosen = [{"group": [group]} for group in GROUPS.values()]
    found = [
        _points(looking.at(uid, query, it, screen)) for screen in (looking.screen, looking.before) for it in chosen
    ]
    assert any(found) or query.where in EMPTY, query.expr


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_variables_offer_values(looking: Looking, uid: str) -> None:
    dashboard = DASHBOARDS[uid]
    chosen = {"group": list(GROUPS.values())}
    for name, variable in grafana.variables(dashboard).items():
        if variable["type"] == "query":
            found = asking.values(looking.prometheus, variable, dashboard, chosen, looking.screen)
            # The scene's agents read one cluster each, and there is no such label: All then matches what has none.
            assert bool(found) is (name != "cluster"), name


@pytest.mark.parametrize(
    ("title", "metric", "group"),
    [
        ("Rebalances by cause", "kshadow_group_rebalances_total", GROUPS["crash"]),
        ("Rebalances by cause", "kshadow_group_rebalances_total", DEPLOY),
        ("Departures by cause", "kshadow_group_member_departures_total", GROUPS["crash"]),
        ("Departures by cause", "kshadow_group_member_departures_total", GROUPS["stall"]),
    ],
)
def test_bars_count_each_event_once(stack: Stack, looking: Looking, title: str, metric: str, group: str) -> None:
    """With two agents that tell of it, and the first of its cause, whose series begins with it. All events of a group
    count but those that were there when it was first seen."""
    bars = looking.panel("kshadow-group", title, "timeseries", group=group)
    shown = {it.labels["cause"]: sum(value for _, value in it.points) for it in bars}
    counted = {
        it["metric"]["cause"]: float(it["value"][1])
        for it in stack.monitoring.query(f'max by (cause) ({metric}{{group="{group}"}})')
    }
    assert set(shown) == set(counted)
    seen_first = 0.0
    if title.startswith("Rebalances"):
        # A group is there with its first rebalance; a late scrape finds more of them.
        first = f'min_over_time(sum by (instance) ({metric}{{group="{group}"}})[10m:1s])'
        seen_first = max(float(it["value"][1]) for it in stack.monitoring.query(first))
        print(f"{group}: {seen_first:g} rebalances when first seen")
    assert sum(counted.values()) - seen_first <= sum(shown.values()) <= sum(counted.values())
    assert all(value == int(value) for value in shown.values())


def test_an_unbalanced_group_is_found_and_linked(looking: Looking) -> None:
    """Its row has what a link needs, without a cluster to name."""
    found = looking.panel("kshadow-fleet", "The 25 groups that stopped the longest", "table")
    assert {it.labels["group"] for it in found} >= set(GROUPS.values())
    assert {it.labels["link"] for it in found} == {"All"}


def test_states_are_known_ones(looking: Looking) -> None:
    dashboard = DASHBOARDS["kshadow-group"]
    [panel] = [it for it in grafana.panels(dashboard) if it["title"] == "State" and it["type"] == "state-timeline"]
    [mapping] = panel["fieldConfig"]["defaults"]["mappings"]
    seen = looking.panel("kshadow-group", "State", "state-timeline", group=GROUPS["crash"])
    shown = {mapping["options"][f"{value:g}"]["text"] for value in _points(seen)}
    assert "Stable" in shown
    assert "another state" not in shown


def test_each_group_is_in_one_state_at_a_time(looking: Looking) -> None:
    """Also where two agents are not of one mind for a moment."""
    [query] = [it for it in grafana.queries(DASHBOARDS["kshadow-fleet"]) if "/ Groups by state " in it.where]
    groups: dict[float, float] = {}
    for series in looking.at("kshadow-fleet", query, {}, looking.before):
        for at, count in series.points:
            groups[at] = groups.get(at, 0.0) + count
    assert groups
    # The five of the scene, and the one in which agents share partitions.
    assert max(groups.values()) <= 6


def test_a_name_full_of_signs_is_matched_as_it_is(looking: Looking) -> None:
    """Escaped for regular expressions: a dot is a dot."""
    dashboard: Json = DASHBOARDS["kshadow-group"]
    dotted = GROUPS["crash"].replace("-", ".")
    members = next(it for it in grafana.queries(dashboard) if "/ Members (stat)" in it.where)
    assert looking.at("kshadow-group", members, {"group": [GROUPS["crash"]]})
    assert not looking.at("kshadow-group", members, {"group": [dotted]})
    assert not looking.at("kshadow-group", members, {"group": ["a\\b+(c|d)*"]})
