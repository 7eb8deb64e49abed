"""Which value is in force, what contradicts what, and what the settings come to."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import click
import pytest

from agent.cli.run_options import RUN_OPTIONS
from agent.config.settings import PER_CLUSTER, PER_PROCESS, Address, Granularity, GroupSource, Shard, SnapshotLocation
from agent.config.value_source import InvalidSettings
from tests.unit.config.building import BROKERS, file_options, settings, settled


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in RUN_OPTIONS.values():
        monkeypatch.delenv(str(option.envvar), raising=False)


def test_every_option_has_its_field_and_every_field_its_option() -> None:
    assert {*PER_PROCESS, *PER_CLUSTER, "cluster"} == set(RUN_OPTIONS)
    assert not PER_PROCESS & PER_CLUSTER


def test_defaults() -> None:
    made = settings(*BROKERS)
    (cluster,) = made.clusters
    assert cluster.name is None
    assert cluster.conf == {"bootstrap.servers": "b:9092"}
    assert (cluster.read.source, cluster.read.partitions, cluster.read.shard) == (GroupSource.TOPIC, None, None)
    assert (cluster.lag.enabled, cluster.lag.interval_ms) == (True, 30_000)
    assert (cluster.snapshots.location, cluster.snapshots.interval_ms) == (None, 60_000)
    assert (cluster.history.enabled, cluster.history.roll_ms, cluster.history.spool_bytes) == (
        False,
        300_000,
        1 << 30,
    )
    assert cluster.history.samples_ms is None
    assert cluster.metrics.granularity is Granularity.TOPIC
    assert (cluster.metrics.max_series, cluster.metrics.expire_after_ms) == (500_000, 7 * 86_400_000)
    assert made.http.listen == Address("127.0.0.1", 9308)
    assert made.warnings == ()


def test_everything_on_the_command_line() -> None:
    made = settings(
        *BROKERS,
        *("--cluster", "eu", "-X", "sasl.password=hunter2", "--shard", "auto/3", "--state-dir", "/s"),
        *("--snapshots", "kafka:snaps", "--snapshot-interval", "5s", "--history-topic", "events"),
        *("--no-history-topic-create", "--history-parquet", "s3://k:hunter3@b/p", "--history-roll", "1m"),
        *("--history-samples", "10s"),
        *("--spool-size", "10MB", "--no-lag", "--allow-group", "a", "--deny-group", "/b/", "--allow-topic", "/c.*/"),
        *("--deny-topic", "d", "--granularity", "partition", "--max-series", "9", "--expire-after", "never"),
        *("--listen", ":1", "--web-config", "w.yaml", "--log-format", "json", "--log-level", "debug"),
        *("--broker-log", "/l", "--broker-log-timezone", "local", "--analyzers", "none", "--admin-rate", "5"),
    )
    (cluster,) = made.clusters
    assert (cluster.name, cluster.read.shard, cluster.state_dir) == ("eu", Shard(None, 3), "/s")
    assert cluster.conf["sasl.password"] == "hunter2"
    assert (cluster.snapshots.location, cluster.snapshots.interval_ms) == (SnapshotLocation(topic="snaps"), 5000)
    history = cluster.history
    assert (history.topic, history.create_topic, history.parquet) == ("events", False, "s3://k:hunter3@b/p")
    assert (history.roll_ms, history.spool_bytes, history.enabled) == (60_000, 10_000_000, True)
    assert history.samples_ms == 10_000
    assert not cluster.lag.enabled
    filters = cluster.filters
    assert (filters.allow_groups, filters.deny_groups) == (("a",), ("/b/",))
    assert (filters.allow_topics, filters.deny_topics) == (("/c.*/",), ("d",))
    assert (cluster.metrics.granularity, cluster.metrics.max_series) == (Granularity.PARTITION, 9)
    assert cluster.metrics.expire_after_ms is None
    assert (cluster.broker_log.paths, cluster.broker_log.time_zone) == (("/l",), "local")
    assert (cluster.analyzers.names, cluster.admin.groups_per_s) == ("none", 5)
    assert (made.http.web_config, made.log.format, made.log.level) == ("w.yaml", "json", "debug")
    assert made.warnings == ()
    assert "hunter" not in repr(made)


def test_who_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "lag-interval: 1s\nrun: {lag-interval: 2s}\nclusters: {eu: {bootstrap-server: a, lag-interval: 3s}}"
    lines = text.split("\n")
    assert settings(*BROKERS).clusters[0].lag.interval_ms == 30_000
    for count, expected in ((1, 1000), (2, 2000)):
        file = file_options(tmp_path, "\n".join(lines[:count]))
        assert settings(*BROKERS, file=file).clusters[0].lag.interval_ms == expected
    file = file_options(tmp_path, text)
    assert settings(file=file).clusters[0].lag.interval_ms == 3000
    monkeypatch.setenv("KSHADOW_LAG_INTERVAL", "4s")
    assert settings(file=file).clusters[0].lag.interval_ms == 4000
    assert settings("--lag-interval", "5s", file=file).clusters[0].lag.interval_ms == 5000


CLUSTERS = """
bootstrap-server: asked-by-other-commands:9092
state-dir: /state
property: {client.id: all}
deny-group: /tmp-.*/
clusters:
  eu:
    bootstrap-server: eu:9092
    property: {sasl.username: u}
    snapshots: /snaps
  us:
    bootstrap_server: us:9092
    lag: false
    deny-group: [a, b]
"""


def test_clusters(tmp_path: Path) -> None:
    effective, made = settled("--snapshot-interval", "5s", file=file_options(tmp_path, CLUSTERS))
    eu, us = made.clusters
    assert (eu.name, us.name) == ("eu", "us")
    assert (eu.conf, us.conf) == (
        {"bootstrap.servers": "eu:9092", "sasl.username": "u"},
        {"bootstrap.servers": "us:9092", "client.id": "all"},
    )
    assert (eu.lag.enabled, us.lag.enabled) == (True, False)
    assert (eu.filters.deny_groups, us.filters.deny_groups) == (("/tmp-.*/",), ("a", "b"))
    assert {it.snapshots.interval_ms for it in made.clusters} == {5000}
    # What they share has a place for each; what one says itself is taken as it is.
    assert (eu.state_dir, us.state_dir) == ("/state/eu", "/state/us")
    assert (eu.snapshots.location, us.snapshots.location) == (SnapshotLocation(directory="/snaps"), None)
    assert str(effective.clusters["us"]["lag"].source) == "file"
    assert effective.clusters["us"]["lag"].place.endswith("kshadow.yaml: clusters: us: lag")
    both = settings("--snapshots", "/x/", file=file_options(tmp_path, CLUSTERS))
    assert [str(it.snapshots.location) for it in both.clusters] == ["/x/eu", "/x/us"]
    topic = settings("--snapshots", "kafka:t", file=file_options(tmp_path, CLUSTERS))
    assert [str(it.snapshots.location) for it in topic.clusters] == ["kafka:t", "kafka:t"]


def test_what_a_stronger_place_puts_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_options(tmp_path, "bootstrap-server: b\nshard: 0/3\n")
    assert settings(file=file).clusters[0].read.shard == Shard(0, 3)
    read = settings("--partitions", "1-2", file=file).clusters[0].read
    assert (read.shard, read.partitions) == (None, (1, 2))
    monkeypatch.setenv("KSHADOW_GROUP", "a b")
    read = settings(file=file).clusters[0].read
    assert (read.shard, read.groups) == (None, ("a", "b"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)"),  # 1
        (
            "--bootstrap-server b --partitions 1 --shard 0/2",
            "--partitions and --shard: only one of --group, --partitions, --shard, --share-group can say what is",
        ),  # 2
        ("--bootstrap-server b --group g --share-group x", "--group and --share-group: only one of"),  # 3
        ("--bootstrap-server b --share-instance-id x", "--share-instance-id goes with --share-group"),  # 4
        ("--bootstrap-server b --snapshot-interval 5s", "--snapshot-interval goes with --snapshots"),  # 5
        ("--bootstrap-server b --history-roll 5s", "--history-roll goes with --history-parquet"),  # 6
        (
            "--bootstrap-server b --no-history-topic-create",
            "--no-history-topic-create goes with --history-topic",
        ),  # 7
        ("--bootstrap-server b --spool-size 1GB", "--spool-size goes with --state-dir"),  # 8
        ("--bootstrap-server b --no-lag --lag-interval 5s", "--lag-interval goes with --lag"),  # 9
        ("--bootstrap-server b --no-admin --admin-rate 5", "--admin-rate goes with --admin"),  # 10
        ("--bootstrap-server b --broker-log-timezone UTC", "--broker-log-timezone goes with --broker-log"),  # 11
        (
            "--bootstrap-server b --source admin --no-admin",
            "--source: groups are read from the Admin API, and --no-admin turns that off",
        ),  # 12
        (
            "--bootstrap-server b --source admin --shard 0/2 --history-topic t",
            "--shard: the topic is needed for that, and --source is admin",
        ),  # 13
        (
            "--bootstrap-server b --group a --group b --deny-group b",
            "--group: 'b' is asked for, and the patterns of groups leave it out",
        ),  # 14
        ("--bootstrap-server b --analyzers nonsense", "nonsense"),  # 15
        (
            "--bootstrap-server b --broker-log x --broker-log-timezone Moon",
            "--broker-log-timezone: time zone: ",
        ),  # 16
        (
            "--bootstrap-server b --history-samples 60s",
            "--history-samples goes with --history-topic or --history-parquet or --otlp",
        ),  # 17
    ],
)
def test_contradictions(arguments: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        settings(*arguments.split())
    (problem,) = raised.value.problems
    assert said in problem


def test_all_problems_at_once() -> None:
    with pytest.raises(InvalidSettings) as raised:
        settings("--partitions", "1", "--shard", "0/2", "--history-roll", "5s")
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("clusters: {eu: {lag: false}}", "", "cluster eu: bootstrap-server is needed"),  # 1
        (
            "clusters: {eu: {bootstrap-server: a}}",
            "--bootstrap-server b",
            "--bootstrap-server: the file's clusters (eu) have their own",
        ),  # 2
        (
            "clusters: {eu: {bootstrap-server: a}}",
            "--cluster x",
            "--cluster: the file's clusters (eu) have their own",
        ),  # 3
        (
            "run: {bootstrap-server: b}\nclusters: {eu: {bootstrap-server: a}}",
            "",
            "run: bootstrap-server: the file's clusters (eu) have their own",
        ),  # 4
        (
            "clusters: {eu: {bootstrap-server: a, partitions: 1, shard: 0/2}}",
            "",
            "kshadow.yaml: clusters: eu: shard: only one of",
        ),  # 5
        (
            "clusters: {eu: {bootstrap-server: a, state-dir: /x}, us: {bootstrap-server: b, state-dir: /x}}",
            "",
            "clusters: us: state-dir: expected a directory for each cluster, /x is eu's already",
        ),  # 6
        ("clusters: {eu: {bootstrap-server: a, analyzers: no}}", "", ": eu: analyzers: "),  # 7: a truth to YAML
    ],
)
def test_contradictions_of_clusters(tmp_path: Path, text: str, arguments: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        settings(*arguments.split(), file=file_options(tmp_path, text))
    (problem,) = raised.value.problems
    assert said in problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("share-group: g", ["read again from its beginning"]),  # 1
        ("{share-group: g, snapshots: /dir}", ["read again from its beginning"]),  # 2
        ("{share-group: g, snapshots: 'kafka:t'}", []),  # 3
        ("history-topic: t", ["without --state-dir: ", "without --snapshots: "]),  # 4
        ("{history-parquet: /d, state-dir: /s, snapshots: /n}", []),  # 5
        ("history-roll: 5m", ["history-roll says nothing without --history-parquet"]),  # 6: on its day it will
        ("deny-group: tmp-*", ["'tmp-*' is taken for the name itself; a regular expression stands between"]),  # 7
        ("deny-group: /tmp-.*/", []),  # 8
        (
            "clusters: {a: {bootstrap-server: x}, b: {bootstrap-server: x}}",
            ["clusters a and b have the same bootstrap-server"],
        ),  # 9
        ("clusters: {a: {bootstrap-server: x, share-group: g}}", ["cluster a: "]),  # 10
        ("{workers: 2, kubernetes: true}", ["workers: one process reads all, because of "]),  # 11
        ("{workers: 1, kubernetes: true}", []),  # 12
        ("{workers: 2, source: admin}", ["workers: one process reads all, because of "]),  # 13
    ],
)
def test_warnings(tmp_path: Path, text: str, said: list[str]) -> None:
    file = file_options(tmp_path, text)
    warnings = settings(*(() if file.clusters else BROKERS), file=file).warnings
    assert len(warnings) == len(said)
    assert all(part in warning for part, warning in zip(said, warnings, strict=True))


def test_every_option_can_be_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    some = {"bootstrap-server": "b:1", "property": "a=b", "log-level": "debug", "max-series": "7", "no-lag": None}
    for name, text in some.items():
        if text is not None:
            monkeypatch.setenv("KSHADOW_" + name.replace("-", "_").upper(), text)
    effective, made = settled()
    assert made.clusters[0].metrics.max_series == 7
    assert effective.clusters[None]["max-series"].place == "KSHADOW_MAX_SERIES"
    assert str(effective.process["log-level"].source) == "environment"


def test_settings_are_values() -> None:
    assert settings(*BROKERS) == settings(*BROKERS)
    assert hash(settings(*BROKERS)) == hash(settings(*BROKERS))
    assert {it.name for it in fields(settings(*BROKERS))} == {"clusters", "process", "http", "log", "warnings"}
    assert isinstance(RUN_OPTIONS["lag"], click.Option)
