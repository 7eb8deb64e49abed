"""Metrics as OTLP: what a scrape says, number for number, and the names of the collector's Kafka receiver."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.config.values import parse_otlp_endpoint
from agent.serving.metrics import otlp
from agent.serving.metrics.otlp import RECEIVER_METRICS, OtlpMetrics, points_of
from tests.harness.otlp import Receiver, attributes, receiving
from tests.waiting import until

TEXT = """\
# HELP kshadow_group_members Members of the group.
# TYPE kshadow_group_members gauge
kshadow_group_members{group="a"} 3.0
kshadow_group_members{group="b \\"\\\\\\n"} 0.0
# HELP kshadow_group_rebalances_total Rebalances.
# TYPE kshadow_group_rebalances_total counter
kshadow_group_rebalances_total{group="a",cause="member_left"} 1.5e+06
# HELP kshadow_group_topic_lag_records Lag.
# TYPE kshadow_group_topic_lag_records gauge
kshadow_group_topic_lag_records{group="a",topic="t"} 7.0
# HELP kshadow_group_topic_lag_seconds Lag.
# TYPE kshadow_group_topic_lag_seconds gauge
kshadow_group_topic_lag_seconds{group="a",topic="t"} 0.25
# HELP kshadow_group_partition_committed_offset Offsets.
# TYPE kshadow_group_partition_committed_offset gauge
kshadow_group_partition_committed_offset{group="a",topic="t",partition="0"} 1e+09
kshadow_group_partition_committed_offset{group="a",topic="t",partition="1"} 5.0
# HELP kshadow_group_partition_lag_records Lag.
# TYPE kshadow_group_partition_lag_records gauge
kshadow_group_partition_lag_records{group="a",topic="t",partition="0"} 7.0
"""
Series = tuple[str, tuple[tuple[str, Any], ...]]


def series(name: str, labels: dict[str, Any]) -> Series:
    return name, tuple(sorted(labels.items()))


def scraped(text: str) -> dict[Series, float]:
    return {
        series(it.name, it.labels): it.value
        for family in text_string_to_metric_families(text)
        for it in family.samples
    }


def received(metrics: list[Any]) -> dict[Series, float]:
    return {
        series(it.name, attributes(point)): getattr(point, point.WhichOneof("value"))
        for it in metrics
        for point in getattr(it, it.WhichOneof("data")).data_points
    }


def send(receiver: Receiver, text: str, by: str = "http", **options: Any) -> None:
    sender = OtlpMetrics(parse_otlp_endpoint(getattr(receiver, by)), lambda: [text.encode()], 60, **options)
    assert sender.export() is None


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_every_value_of_a_scrape(by: str) -> None:
    with receiving() as receiver:
        send(receiver, TEXT, by)
    got = received(receiver.metrics())
    theirs = {it.name for it in RECEIVER_METRICS}
    assert {key: value for key, value in got.items() if key[0] not in theirs} == scraped(TEXT)
    assert {key: value for key, value in got.items() if key[0] in theirs} == {
        series("kafka.consumer_group.members", {"group": "a"}): 3,
        series("kafka.consumer_group.members", {"group": 'b "\\\n'}): 0,
        series("kafka.consumer_group.lag_sum", {"group": "a", "topic": "t"}): 7,
        series("kafka.consumer_group.lag", {"group": "a", "topic": "t", "partition": 0}): 7,
        series("kafka.consumer_group.offset", {"group": "a", "topic": "t", "partition": 0}): 10**9,
        series("kafka.consumer_group.offset", {"group": "a", "topic": "t", "partition": 1}): 5,
        series("kafka.consumer_group.offset_sum", {"group": "a", "topic": "t"}): 10**9 + 5,
    }


def test_kinds_and_units_are_as_the_receiver_has_them() -> None:
    with receiving() as receiver:
        send(receiver, TEXT)
    kinds = {it.name: (it.WhichOneof("data"), it.unit) for it in receiver.metrics()}
    assert kinds["kafka.consumer_group.members"] == ("sum", "{members}")
    assert kinds["kafka.consumer_group.lag"] == ("gauge", "1")
    assert kinds["kshadow_group_topic_lag_seconds"] == ("gauge", "s")
    (counter,) = [it.sum for it in receiver.metrics() if it.name == "kshadow_group_rebalances_total"]
    (members,) = [it.sum for it in receiver.metrics() if it.name == "kafka.consumer_group.members"]
    assert (counter.is_monotonic, members.is_monotonic, counter.aggregation_temporality) == (True, False, 2)
    point = counter.data_points[0]
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano <= time.time_ns()


def test_a_clock_that_is_set_back_makes_no_beginning_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that changes says that a counter began anew, so it is another one once."""
    with receiving() as receiver:
        sender = OtlpMetrics(parse_otlp_endpoint(receiver.http), lambda: [TEXT.encode()], 60)
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
        assert [sender.export() for _ in range(2)] == [None, None]
    points = [it.sum.data_points[0] for it in receiver.metrics() if it.name == "kshadow_group_rebalances_total"]
    assert all(it.start_time_unix_nano <= it.time_unix_nano for it in points)
    assert len({it.start_time_unix_nano for it in points}) == 1


def test_of_several_clusters_those_that_are_sent_there() -> None:
    text = "".join(TEXT.replace('{group="a"', f'{{cluster="{cluster}",group="a"') for cluster in ("eu", "us"))
    found = {it.attributes.get("cluster") for it in points_of(text, {"eu"}) if it.attributes.get("group") == "a"}
    assert found == {"eu"}
    assert ("kafka.consumer_group.members", 3) in [
        (it.name, it.value) for it in points_of(text, {"eu"}) if it.attributes == {"group": "a", "cluster": "eu"}
    ]


def test_what_is_much_goes_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "REQUEST_POINTS", 3)
    with receiving() as receiver:
        send(receiver, TEXT)
    assert len(receiver.requests) == 5
    assert scraped(TEXT).items() <= received(receiver.metrics()).items()


@pytest.mark.parametrize("by", ["http", "grpc"])
def test_points_that_a_collector_rejects_beside_its_success_are_told(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(otlp, "REQUEST_POINTS", 8)
    with receiving() as receiver:
        receiver.rejected = 2
        sender = OtlpMetrics(parse_otlp_endpoint(getattr(receiver, by)), lambda: [TEXT.encode()], 60.0)
        told = sender.export()
        sent = len(receiver.requests)
    assert re.fullmatch(r"2 of \d points are rejected: too old, .*it says", told or "")
    assert sent == 2  # the rest is sent all the same


def test_one_that_is_away_is_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    caplog.set_level("INFO")
    with receiving() as receiver:
        pass
    sender = OtlpMetrics(parse_otlp_endpoint(receiver.http), lambda: [TEXT.encode()], 0.1)
    sender.start()
    until(lambda: len(caplog.messages) == 1)
    with receiving(receiver):
        until(lambda: len(receiver.requests) > 1)
        sender.stop()
    first, last = caplog.messages
    assert re.fullmatch(rf"metrics are not sent to {receiver.http}: .*refused.*", first)
    assert last == f"metrics are sent to {receiver.http} again"
