"""`kshadow run --otlp` and OpenTelemetry's own collector: what it wrote down, beside what the agent says elsewhere.

`KSHADOW_OTLP_OUTAGE_S=600` (with pytest's `--timeout 1400 -o faulthandler_timeout=1450`) keeps the collector away for
ten minutes; unless told it is seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from agent.persistence.export.otlp_sink import BATCH_EVENTS
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.truth import history
from tests.harness.tools import need
from tests.live.scenarios.committing import commit
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

OUTAGE_S = float(os.environ.get("KSHADOW_OTLP_OUTAGE_S", "8"))
Series = tuple[str, tuple[tuple[str, Any], ...]]


class Collector:
    """The collector's process, and what it wrote."""

    def __init__(self, directory: Path) -> None:
        # Before anything else is started: where it is missing the test is skipped.
        self._program = need("otelcol")
        self.http_port, grpc_port = free_ports(2)
        self._directory, self._runs = directory, 0
        ports = {"http": self.http_port, "grpc": grpc_port}
        self._listens = {name: {"endpoint": f"127.0.0.1:{port}"} for name, port in ports.items()}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Up, for as long as the block."""
        self._runs += 1
        pipelines = {signal: {"receivers": ["otlp"], "exporters": ["file"]} for signal in ("logs", "metrics")}
        config = self._directory / "collector.yaml"
        config.write_text(
            json.dumps(
                {
                    "receivers": {"otlp": {"protocols": self._listens}},
                    "exporters": {"file": {"path": str(self._directory / f"out-{self._runs}.json")}},
                    "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": pipelines},
                }
            )
        )
        with (self._directory / "collector.log").open("ab") as log:
            process = subprocess.Popen([str(self._program), "--config", str(config)], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(30) == 0

    def _written(self) -> Iterator[dict[str, Any]]:
        for file in sorted(self._directory.glob("out-*.json")):
            for line in file.read_text().splitlines():
                if line.endswith("}"):  # the last may not be whole yet
                    yield json.loads(line)

    def event_ids(self) -> list[str]:
        """Of the log records, in the order in which they came."""
        return [
            next(it["value"]["stringValue"] for it in record["attributes"] if it["key"] == "event_id")
            for request in self._written()
            for of in request.get("resourceLogs", ())
            for scope in of["scopeLogs"]
            for record in scope["logRecords"]
        ]

    def metrics_since(self, since_ns: int) -> dict[Series, float] | None:
        """The values of the first export after that time (epoch nanoseconds) which is whole: another followed it."""
        exports: dict[int, dict[Series, float]] = {}
        for request in self._written():
            for of in request.get("resourceMetrics", ()):
                for metric in (it for scope in of["scopeMetrics"] for it in scope["metrics"]):
                    for point in (metric.get("gauge") or metric["sum"])["dataPoints"]:
                        labels = {it["key"]: next(iter(it["value"].values())) for it in point.get("attributes", ())}
                        value = float(point["asDouble"] if "asDouble" in point else point["asInt"])
                        of_export = exports.setdefault(int(point["timeUnixNano"]), {})
                        of_export[metric["name"], tuple(sorted(labels.items()))] = value
        later = sorted(at for at in exports if at > since_ns)
        return exports[later[0]] if len(later) > 1 else None


def scraped(agent: AgentProcess) -> dict[Series, float]:
    status, body = agent.get("/metrics", 60)
    assert status == 200
    return {
        (it.name, tuple(sorted(it.labels.items()))): it.value
        for family in text_string_to_metric_families(body.decode())
        for it in family.samples
    }


def test_a_collector_gets_every_event_and_every_value(tmp_path: Path) -> None:
    collector = Collector(tmp_path)
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "4"}) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(20)

        def commit_some(group: str) -> None:
            commit(admin, group, [TopicPartition("orders", 0, 0), TopicPartition("orders", 1, 0)])

        def told() -> set[str]:
            return {str(it["event_id"]) for it in history(servers, "history")}

        commit_some("first")
        options = [
            *("--bootstrap-server", servers, "--state-dir", str(tmp_path / "state"), "--history-topic", "history"),
            *("--otlp", f"http://127.0.0.1:{collector.http_port}", "--otlp-interval", "2s"),
            *("--granularity", "partition", "--lag-interval", "1s"),
        ]
        agent = AgentProcess(tmp_path, *options).start(OTEL_EXPORTER_OTLP_HEADERS="authorization=s3cr3t-header")
        with collector.running():
            agent.wait_ready()
            until(lambda: collector.event_ids() != [], 30, agent.tail)
        began = time.monotonic()
        groups = 0
        while time.monotonic() - began < OUTAGE_S:
            groups += 1
            commit_some(f"away-{groups}")
            time.sleep(0.5)
        with collector.running():
            agent.wait_level()
            until(lambda: {*collector.event_ids()} >= told(), 90, agent.tail)
            # What changes between two scrapes has no one value; all else was sent as it is.
            before, sent_ns = scraped(agent), time.time_ns()
            until(lambda: collector.metrics_since(sent_ns) is not None, 60, agent.tail)
            sent = collector.metrics_since(sent_ns)
            assert sent is not None
            after = scraped(agent)
            assert agent.stop() == 0
        events, ids = told(), collector.event_ids()
    print(f"{len(ids)} records of {len(events)} events, {groups} groups while it was away for {OUTAGE_S:g} s")
    assert {*ids} == events
    assert len(events) > groups
    # A request that was under way as the collector went may have been written down, and comes again.
    assert len(ids) - len(events) <= BATCH_EVENTS
    still = {key: value for key, value in before.items() if after.get(key) == value and key[0].startswith("kshadow_")}
    assert len(still) > 100
    assert {name for name, _ in before.keys() & after.keys()} <= {name for name, _ in sent}
    assert {key: sent.get(key) for key in still} == still
    group = ("group", "first")
    assert sent["kafka.consumer_group.members", (group,)] == 0
    assert sent["kafka.consumer_group.offset", (group, ("partition", "1"), ("topic", "orders"))] == 0
    assert sent["kafka.consumer_group.lag_sum", (group, ("topic", "orders"))] == 0
    said = agent.log.read_text()
    assert "s3cr3t" not in said
    assert "Traceback" not in said
