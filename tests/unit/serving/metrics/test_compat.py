"""Other exporters' names: exactly their labels, nothing that is not known, within the same limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from agent.cli.run_options import RUN_OPTIONS as OPTIONS
from agent.kafka.lag.lag_calculator import positions_of
from agent.runtime.factory import compat_of
from agent.serving.metrics.compat import (
    CLUSTER_LABELS,
    COMPAT_METRICS,
    FAMILIES,
    CompatOptions,
    Exporters,
)
from agent.serving.metrics.exporter import Exporter, MetricsSource
from agent.serving.metrics.group_metrics import GroupCounts, GroupReading, GroupShape
from agent.serving.metrics.limits import Limits
from agent.serving.metrics.lines import GroupLines
from agent.serving.metrics.readings import Readings
from agent.serving.metrics.table import METRICS
from tests.unit.cli.hostile import TEXTS
from tests.unit.config.building import settings
from tests.unit.serving.metrics.oracle import TopicLag

ALL = CompatOptions(tuple(Exporters), "eu")
PAYMENTS = GroupReading(
    GroupShape("payments", "classic", "Stable", 7, 3, 1, 1.5, 0, "range"),
    last_commit_ms=1_000,
    counts=GroupCounts(findings=((("stalled_consumer", "critical"), True), (("idle_members", "info"), True))),
    topics=(TopicLag("a", 5, 2.5), TopicLag("b", 7, None), TopicLag("c", None, None)),
    partitions=positions_of(
        [(("a", 0), 10, 2), (("a", 1), 20, 3), (("b", 0), 5, 7), (("c", 0), 1, None)],
    ),
)
SILENT = GroupReading(GroupShape("silent", "consumer", "Empty", 1, 0, 0, None, 0))


def series_of(lines: GroupLines, group: GroupReading) -> int:
    lines.keep([group])
    return lines.series_count(group)


OWN_SERIES = series_of(GroupLines(None), PAYMENTS)

Found = dict[str, list[tuple[dict[str, str], float]]]


def readings(*groups: GroupReading) -> Readings:
    return Readings({0: True}, {0: 0}, True, {}, {}, groups=groups)


def scrape(
    *groups: GroupReading, wanted: CompatOptions = ALL, cluster: str | None = None, most: int = 10**6
) -> Found:
    source = MetricsSource(cluster, lambda: readings(*groups), Limits(most, None), wanted)
    for openmetrics in (True, False):
        text = b"".join(Exporter([source], process=False).render(openmetrics)).decode()
        found: Found = {}
        for family in (parse_openmetrics if openmetrics else parse)(text):
            if family.name in FAMILIES:
                assert (family.type, family.documentation) == ("gauge", FAMILIES[family.name].help)
                found[family.name] = [(it.labels, it.value) for it in family.samples]
    return found


def test_no_name_is_ours_or_twice_there() -> None:
    names = [of.name for rows in COMPAT_METRICS.values() for of in rows]
    assert len(names) == len(set(names))
    assert not [name for name in names if name in METRICS or name.startswith("kshadow")]


def test_kminion() -> None:
    found = scrape(PAYMENTS, SILENT, wanted=CompatOptions((Exporters.KMINION,)))
    prefix = "kminion_kafka_consumer_group_"
    assert found == {
        f"{prefix}info": [
            ({"group_id": "payments", "protocol": "range", "protocol_type": "consumer", "state": "Stable"}, 1),
            ({"group_id": "silent", "protocol": "", "protocol_type": "consumer", "state": "Empty"}, 0),
        ],
        f"{prefix}members": [({"group_id": "payments"}, 3), ({"group_id": "silent"}, 0)],
        f"{prefix}empty_members": [({"group_id": "payments"}, 1)],
        f"{prefix}topic_lag": [
            ({"group_id": "payments", "topic_name": "a"}, 5),
            ({"group_id": "payments", "topic_name": "b"}, 7),
        ],
        f"{prefix}topic_offset_sum": [
            ({"group_id": "payments", "topic_name": "a"}, 30),
            ({"group_id": "payments", "topic_name": "b"}, 5),
            ({"group_id": "payments", "topic_name": "c"}, 1),
        ],
        f"{prefix}topic_partition_lag": [
            ({"group_id": "payments", "topic_name": "a", "partition_id": "0"}, 2),
            ({"group_id": "payments", "topic_name": "a", "partition_id": "1"}, 3),
            ({"group_id": "payments", "topic_name": "b", "partition_id": "0"}, 7),
        ],
    }


def test_burrow() -> None:
    found = scrape(PAYMENTS, SILENT, wanted=CompatOptions((Exporters.BURROW,), "eu"))
    of = {"cluster": "eu", "consumer_group": "payments"}
    assert found["burrow_kafka_consumer_lag_total"] == [(of, 12)]
    assert found["burrow_kafka_consumer_status"] == [(of, 3)]
    assert found["burrow_kafka_consumer_current_offset"][1] == ({**of, "topic": "a", "partition": "1"}, 20)
    assert len(found["burrow_kafka_consumer_current_offset"]) == 4
    assert [value for _, value in found["burrow_kafka_consumer_partition_lag"]] == [2, 3, 7]
    behind = PAYMENTS._replace(counts=GroupCounts(findings=((("stalled_consumer", "info"), True),)))
    assert [value for _, value in scrape(behind)["burrow_kafka_consumer_status"]] == [2]
    closed = PAYMENTS._replace(counts=GroupCounts(findings=((("stalled_consumer", "critical"), False),)))
    assert "burrow_kafka_consumer_status" not in scrape(closed), "whether it is OK is not known"


def test_kafka_exporter() -> None:
    found = scrape(PAYMENTS, SILENT, wanted=CompatOptions((Exporters.KAFKA_EXPORTER,)))
    of = {"consumergroup": "payments"}
    assert found["kafka_consumergroup_members"] == [(of, 3), ({"consumergroup": "silent"}, 0)]
    assert found["kafka_consumergroup_lag_sum"] == [({**of, "topic": "a"}, 5), ({**of, "topic": "b"}, 7)]
    assert [value for _, value in found["kafka_consumergroup_current_offset_sum"]] == [30, 5, 1]
    assert found["kafka_consumergroup_lag"][0] == ({**of, "topic": "a", "partition": "0"}, 2)
    assert found["kafka_consumergroup_current_offset"][3] == ({**of, "topic": "c", "partition": "0"}, 1)
    assert [len(found[f"kafka_consumergroup_{name}"]) for name in ("lag", "current_offset")] == [3, 4]


def test_kafka_lag_exporter() -> None:
    found = scrape(PAYMENTS, SILENT, wanted=CompatOptions((Exporters.KAFKA_LAG_EXPORTER,), "eu"))
    of = {"cluster_name": "eu", "group": "payments"}
    prefix = "kafka_consumergroup_group_"
    assert {name: rows for name, rows in found.items() if len(rows) == 1} == {
        f"{prefix}sum_lag": [(of, 12)],
        f"{prefix}max_lag": [(of, 7)],
        f"{prefix}max_lag_seconds": [(of, 2.5)],
    }
    assert found[f"{prefix}topic_sum_lag"] == [({**of, "topic": "a"}, 5), ({**of, "topic": "b"}, 7)]
    assert found[f"{prefix}lag"][2] == ({**of, "topic": "b", "partition": "0"}, 7)
    assert found[f"{prefix}offset"][3] == ({**of, "topic": "c", "partition": "0"}, 1)


def test_of_several_clusters_each_series_says_which() -> None:
    for rows in scrape(PAYMENTS, cluster="eu").values():
        assert {labels.get("cluster") for labels, _ in rows} == {"eu"}
    with_name = scrape(PAYMENTS)
    assert with_name["burrow_kafka_consumer_lag_total"][0][0]["cluster"] == "eu", "Burrow's own label"
    assert "cluster" not in with_name["kafka_consumergroup_members"][0][0]


def test_nobody_who_does_not_ask_has_any() -> None:
    assert scrape(PAYMENTS, wanted=CompatOptions()) == {}
    assert series_of(GroupLines(None, CompatOptions()), PAYMENTS) == OWN_SERIES


NAMES = st.sampled_from([*TEXTS.values(), 'quote"', "back\\slash", "", "line\nend"]) | st.text(max_size=5)
TOPICS = st.builds(TopicLag, NAMES, st.none() | st.integers(0, 10**16), st.none() | st.floats(0, 10**9))
OFFSETS = st.integers(0, 10**16)
PLACES = st.tuples(st.tuples(NAMES, st.integers(0, 9)), OFFSETS, st.none() | OFFSETS)


@given(NAMES, NAMES, st.lists(TOPICS, max_size=3), st.lists(PLACES, max_size=3), st.none() | NAMES)
def test_whatever_names_there_are(
    group: str, protocol: str, topics: list[Any], places: list[Any], cluster: str | None
) -> None:
    shape = GroupShape(group, "classic", "Stable", 1, 1, 1, None, 0, protocol)
    it = GroupReading(shape, last_commit_ms=1, topics=topics, partitions=positions_of(places))
    lines = GroupLines(cluster, ALL)
    most = series_of(lines, it) - series_of(GroupLines(None), it)
    found = (b"".join(rows).decode() for name, rows in lines.write(readings(it)).items() if name in FAMILIES)
    written = [line for text in found for line in text.splitlines(keepends=True)]
    assert len(written) <= most
    for line in written:
        assert line.count("\n") == 1
        (family,) = parse(line)
        (sample,) = family.samples
        (of,) = (of for rows in COMPAT_METRICS.values() for of in rows if of.name == family.name)
        exporters = (it for it, rows in COMPAT_METRICS.items() if of in rows)
        more = {CLUSTER_LABELS[it] for it in exporters if it in CLUSTER_LABELS} | (
            {"cluster"} if cluster is not None else set()
        )
        assert sample.labels.keys() == {*of.labels, *more}
        assert [*sample.labels] == sorted(sample.labels), "as all other lines"


def test_they_count_among_the_series() -> None:
    for most in range(10, 80, 7):
        source = MetricsSource(None, lambda: readings(PAYMENTS, SILENT), Limits(most, None), ALL)
        text = b"".join(Exporter([source], process=False).render()).decode()
        assert sum(not line.startswith("#") for line in text.splitlines()) <= most
    assert series_of(GroupLines(None, ALL), PAYMENTS) > OWN_SERIES + 30


def test_the_option() -> None:
    made = settings(*("--bootstrap-server", "b", "--cluster", "eu", "--compat-metrics", "burrow"))
    (cluster,) = made.clusters
    assert compat_of(cluster) == CompatOptions((Exporters.BURROW,), "eu")
    assert any("--granularity partition" in it for it in made.warnings)
    fine = settings(
        *("--bootstrap-server", "b", "--compat-metrics", "burrow", "--compat-metrics", "kminion"),
        *("--granularity", "partition"),
    )
    assert compat_of(fine.clusters[0]) == CompatOptions((Exporters.BURROW, Exporters.KMINION), "")
    assert not fine.warnings


def test_the_options_choices_are_those_that_there_are() -> None:
    kind: Any = OPTIONS["compat-metrics"].type
    assert sorted(kind.choices) == sorted(COMPAT_METRICS) == sorted(Exporters)


@pytest.mark.parametrize("exporter", list(Exporters))
def test_each_has_its_own(exporter: Exporters) -> None:
    names = scrape(PAYMENTS, wanted=CompatOptions((exporter, exporter))).keys()
    assert names == {of.name for of in COMPAT_METRICS[exporter]}
