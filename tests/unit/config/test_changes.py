"""What a reload changes, and what it must leave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.config.reload import Change, Changes, compare
from agent.config.settings import PER_CLUSTER, PER_PROCESS, Granularity
from tests.unit.cli.running import DATA
from tests.unit.config.building import BROKERS, file_options, settings

LIVE = {
    "admin-rate",
    "admin-requests-per-second",
    "lag-interval",
    "history-samples",
    *(f"{verb}-{what}" for verb in ("allow", "deny") for what in ("group", "topic")),
    "granularity",
    "max-series",
    "expire-after",
    "web-config",
    "log-level",
}

OTHER = {
    "bootstrap-server": "other:1",
    "command-config": str(DATA / "client.properties"),
    "property": "a.b=c",
    "source": "admin",
    "group": "g",
    "group-partitioner": "redpanda",
    "partitions": "1",
    "shard": "0/2",
    "share-group": "x",
    "workers": "2",
    "broker-log": "/l",
    "broker-config": "group.share.session.timeout.ms=10000",
    "state-dir": "/s",
    "snapshots": "kafka:s",
    "history-topic": "t",
    "history-parquet": "/p",
    "otlp": "http://c:4318",
    "admin-rate": "5",
    "admin-requests-per-second": "5",
    "lag-interval": "5s",
    "analyzers": "none",
    "tune": "rebalance_storm.window_s=5",
    "allow-group": "g",
    "deny-group": "g",
    "allow-topic": "t",
    "deny-topic": "t",
    "granularity": "group",
    "max-series": "5",
    "expire-after": "1h",
    "compat-metrics": "kminion",
    "listen": ":1",
    "web-config": "w",
    "allowed-host": "kshadow.example",
    "log-format": "json",
    "log-level": "debug",
    "cluster": "eu",
}
"""Another value of each option that stands alone."""

TOGETHER = {
    "share-instance-id": ("--share-group", "x"),
    "broker-log-timezone": ("--broker-log", "/l"),
    "snapshot-interval": ("--snapshots", "/s"),
    "history-topic-create": ("--history-topic", "t"),
    "history-roll": ("--history-parquet", "/p"),
    "history-samples": ("--history-topic", "t"),
    "otlp-interval": ("--otlp", "http://c:4318"),
    "spool-size": ("--state-dir", "/s"),
    "lag": (),
    "share-lag": (),
    "kubernetes": (),
    "kubernetes-namespace": ("--kubernetes",),
    "kubernetes-context": ("--kubernetes",),
    "admin": (),
    "keep-trying": (),
}
"""Those that need others."""

VALUES = {
    "share-instance-id": ("--share-instance-id", "i"),
    "broker-log-timezone": ("--broker-log-timezone", "local"),
    "snapshot-interval": ("--snapshot-interval", "5s"),
    "history-topic-create": ("--no-history-topic-create",),
    "history-roll": ("--history-roll", "5s"),
    "history-samples": ("--history-samples", "60s"),
    "otlp-interval": ("--otlp-interval", "10s"),
    "spool-size": ("--spool-size", "5"),
    "lag": ("--no-lag",),
    "share-lag": ("--no-share-lag",),
    "kubernetes": ("--kubernetes",),
    "kubernetes-namespace": ("--kubernetes-namespace", "shop"),
    "kubernetes-context": ("--kubernetes-context", "prod"),
    "admin": ("--no-admin",),
    "keep-trying": ("--keep-trying",),
}


def test_each_option_alone() -> None:
    assert {*OTHER, *VALUES} == {*PER_PROCESS, *PER_CLUSTER, "cluster"}
    cases = {name: ((), (f"--{name}", value)) for name, value in OTHER.items()}
    cases |= {name: (others, VALUES[name]) for name, others in TOGETHER.items()}
    for name, (before, after) in cases.items():
        brokers = () if name == "bootstrap-server" else BROKERS
        running = settings(*BROKERS, *before)
        wanted = settings(*brokers, *before, *after)
        merged, changes = compare(running, wanted)
        change = (Change(name),)
        if name in LIVE:
            assert (merged, changes) == (wanted, Changes(applied=change)), name
        else:
            assert replace(merged, warnings=()) == replace(running, warnings=()), name
            assert changes == Changes(needs_restart=change)
            assert compare(merged, wanted)[1] == changes, "named again until the restart"
        assert compare(merged, merged)[1] == Changes()


def test_some_of_each() -> None:
    running = settings(*BROKERS)
    wanted = settings(*BROKERS, "--granularity", "group", "--no-lag", "--log-level", "debug", "--listen", ":1")
    merged, changes = compare(running, wanted)
    assert [str(it) for it in changes.applied] == ["granularity", "log-level"]
    assert [str(it) for it in changes.needs_restart] == ["lag", "listen"]
    assert merged.clusters[0].metrics.granularity is Granularity.GROUP
    assert merged.clusters[0].lag.enabled
    assert (merged.log.level, merged.http.listen) == ("debug", running.http.listen)


def clusters(*names: str, more: str = "") -> str:
    return "clusters:\n" + "".join(f"  {name}: {{bootstrap-server: {name}{more}}}\n" for name in names)


def test_clusters(tmp_path: Path) -> None:
    def of(text: str) -> object:
        return settings(file=file_options(tmp_path, text))

    running = settings(file=file_options(tmp_path, clusters("a", "b")))
    wanted = settings(file=file_options(tmp_path, clusters("b", "c", more=", max-series: 5")))
    merged, changes = compare(running, wanted)
    assert [str(it) for it in changes.applied] == ["clusters.b.max-series"]
    assert [str(it) for it in changes.needs_restart] == ["clusters.a", "clusters.c"]
    assert [(it.name, it.metrics.max_series) for it in merged.clusters] == [("a", 500_000), ("b", 5)]
    one = settings(*BROKERS)
    assert compare(one, wanted)[1].needs_restart == (Change(None, "b"), Change(None, "c"))
    assert compare(one, wanted)[0].clusters == one.clusters
