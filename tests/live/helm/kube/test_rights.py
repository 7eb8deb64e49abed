"""The examples' access control lists, on a real broker that goes by them: they suffice, and each is needed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from agent.tools.doctor import topic
from agent.tools.embedded import ProcessReaper, fetch_jars
from agent.tools.embedded.ports import free_ports
from tests.live.helm.kube.helm import Helm, documents
from tests.live.helm.kube.places import CHART, EXAMPLES
from tests.live.scenarios import faults
from tests.live.scenarios.secured import PASSWORD, TOPIC, Right, Secured, secured
from tests.live.scenarios.test_run import KSHADOW, Running, environment
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

USER, HISTORY = "kshadow", "kshadow-history"
STATE, TRANSACTIONS = "__share_group_state", "__transaction_state"
OF_SESSIONS = ("DescribeConfigs cluster", "DescribeConfigs groups")
PARTITIONS = 4
USERS = ("kafka-user.yaml", "kafka-user-tls.yaml")


_KIND = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER}
_OPERATION = {it.name.title().replace("_", ""): it for it in AclOperation}
_PLURAL = {ResourceType.GROUP: "groups", ResourceType.BROKER: "cluster"}


def of_strimzi(file: str) -> list[Right]:
    """The rights that a KafkaUser is to have."""
    spec = yaml.safe_load((EXAMPLES / "strimzi" / file).read_text())["spec"]["authorization"]
    assert spec["type"] == "simple"
    return [
        Right(
            _OPERATION[operation],
            _KIND[it["resource"]["type"]],
            it["resource"].get("name", "kafka-cluster"),
            ResourcePatternType[it["resource"].get("patternType", "literal").upper()],
        )
        for it in spec["acls"]
        for operation in it["operations"]
    ]


def of_msk(directory: Path) -> list[Right]:
    """The rights that the script gives, by what it calls `kafka-acls.sh` with."""
    called = directory / "called"
    command = directory / "kafka-acls.sh"
    command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {called}\n')
    command.chmod(0o755)
    given = {"BOOTSTRAP": "b:9096", "COMMAND_CONFIG": "admin", "PRINCIPAL": f"User:{USER}"}
    environment = {**os.environ, **given, "PATH": f"{directory}:{os.environ['PATH']}"}
    subprocess.run(["sh", EXAMPLES / "msk" / "acls.sh"], env=environment, check=True, timeout=20)
    start = f"--bootstrap-server b:9096 --command-config admin --add --allow-principal User:{USER} --operation "
    rights = []
    for line in called.read_text().splitlines():
        assert line.startswith(start), line
        operation, resource, name = line.removeprefix(start).split(" ")
        rights.append(Right(AclOperation[operation.upper()], ResourceType[resource[2:].upper()], name))
    return rights


RIGHTS = of_strimzi(USERS[0])
DESCRIBED = {
    f"{it.operation.name.title().replace('_', '')} "
    f"{_PLURAL.get(it.resource) or ('topics' if it.name == '*' else it.name)}": it
    for it in RIGHTS
}
"""As `kshadow doctor` calls them."""


def test_the_examples_grant_the_same(tmp_path: Path) -> None:
    for file in USERS:
        assert of_strimzi(file) == RIGHTS
    # An ACL on the cluster may shut others out.
    assert of_msk(tmp_path) == [it for it in RIGHTS if it.operation is not AclOperation.DESCRIBE_CONFIGS]
    assert list(DESCRIBED) == [
        f"Read {TOPIC}",
        "Describe groups",
        "Describe topics",
        f"Read {STATE}",
        f"Read {TRANSACTIONS}",
        *OF_SESSIONS,
        f"Write {HISTORY}",
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    properties = {"offsets.topic.num.partitions": str(PARTITIONS)}
    with secured(fetch_jars(), tmp_path_factory.mktemp("rights"), properties=properties) as it:
        faults.create(it.broker, PARTITIONS)
        for made in it.admin.create_topics([NewTopic(name, 1, 1) for name in ("orders", HISTORY, STATE)]).values():
            made.result(20)
        conf = {"bootstrap.servers": it.broker.admin_servers, "group.id": "orders", "log_level": 0}
        consumer = Consumer({**conf, "enable.auto.commit": False})
        faults.commit(consumer, TopicPartition("orders", 0, 0))
        consumer.close()
        it.user(USER)
        yield it


@pytest.fixture(scope="module")
def config(cluster: Secured, rendering: Helm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the chart makes of the example's values, with the places of this machine in it."""
    rendered = rendering.render(
        CHART, "--values", EXAMPLES / "strimzi" / "values.yaml", "--show-only", "templates/configmap.yaml"
    )
    (manifest,) = documents(rendered)
    directory = tmp_path_factory.mktemp("config")
    settings: dict[str, Any] = yaml.safe_load(manifest["data"]["config.yaml"])
    assert settings["property"]["ssl.ca.location"] == "/etc/kshadow/certificates/ca.crt"
    settings["property"]["ssl.ca.location"] = str(cluster.authority.file)
    settings["bootstrap-server"] = cluster.broker.bootstrap_servers
    settings["state-dir"] = str(directory / "state")
    (directory / "state").mkdir()
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture(autouse=True)
def no_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "WATCH_S", 0.2)
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)


def failed(config: Path, code: int) -> list[str]:
    """What doctor finds missing."""
    result = kshadow("--config", config, "doctor", "-o", "ndjson")
    assert result.exit_code == code, result.stdout + result.stderr
    checks = [json.loads(it) for it in result.stdout.splitlines()]
    return [f"{it['check'].removeprefix('right: ')} {it['on']}" for it in checks if it["outcome"] == "failed"]


def test_doctor_finds_all_well(cluster: Secured, config: Path) -> None:
    cluster.allow(USER, *RIGHTS)
    assert failed(config, 0) == []


@pytest.mark.parametrize("missing", [it for it in DESCRIBED if it not in (f"Read {TRANSACTIONS}", *OF_SESSIONS)])
def test_each_is_needed(cluster: Secured, config: Path, missing: str) -> None:
    cluster.allow(USER, *(it for name, it in DESCRIBED.items() if name != missing))
    assert failed(config, 3) == [missing]


class Configured(Running):
    """The agent by that file, as a process; it listens elsewhere."""

    def __init__(self, config: Path, log: Path) -> None:
        listen = f"127.0.0.1:{free_ports(1)[0]}"
        self.url, self.log = f"http://{listen}", log
        with log.open("wb") as file:
            command = [*KSHADOW, "--config", str(config), "run", "--listen", listen]
            given = {**environment(), "KAFKA_PASSWORD": PASSWORD}
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=given)
        self._leash = ProcessReaper()
        self._leash.watch(self.process.pid)


def test_the_agent_runs(cluster: Secured, config: Path, tmp_path: Path) -> None:
    cluster.allow(USER, *RIGHTS)
    it = Configured(config, tmp_path / "log")
    try:
        it.await_ready()
        until(lambda: "kshadow_group_topic_lag_records{" in it.get("/metrics")[1], said="it knows lag")
        until(lambda: 'outcome="answered"' in it.get("/metrics")[1], said="brokers answer the observer")
        until(lambda: written(cluster) > 0, said="history is written")
        assert it.end() < 10
        assert not {"ERROR", "WARNING"} & set(it.log.read_text().split()), it.log.read_text()
    finally:
        it.close()


def written(cluster: Secured) -> int:
    """Events in the history's topic."""
    conf = {"bootstrap.servers": cluster.broker.admin_servers, "group.id": "watching", "log_level": 0}
    consumer = Consumer(conf)
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(HISTORY, 0), timeout=10)[1]
        return end
    finally:
        consumer.close()


def test_where_everybody_may_an_acl_shuts_others_out(tmp_path: Path) -> None:
    """As Amazon MSK is set up unless told: what msk/README.md warns of."""
    properties = {"offsets.topic.num.partitions": "2", "allow.everyone.if.no.acl.found": "true"}
    with secured(fetch_jars(), tmp_path, properties=properties) as it:
        faults.create(it.broker, 2)
        for made in it.admin.create_topics([NewTopic("orders", 1, 1)]).values():
            made.result(20)
        it.user(USER)
        other = AdminClient({**it.user("consumer"), "log_level": "0"})

        def is_shut_out() -> bool:
            """Whether another user, without any right, may not see a group or a topic, and then not use it, or may do
            nothing with the cluster."""
            try:
                other.describe_consumer_groups(["orders"])["orders"].result(10)
            except KafkaException as error:
                return bool(error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED)
            if other.list_topics("orders", timeout=10).topics["orders"].error is not None:
                return True
            (asked,) = other.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
            try:
                asked.result(10)
            except KafkaException:
                return True
            return False

        assert not is_shut_out(), "nobody has rights"
        shutting = []
        for name, right in DESCRIBED.items():
            it.allow(USER, right)
            if is_shut_out():
                shutting.append(name)
        assert shutting == ["Describe groups", "Describe topics", *OF_SESSIONS]
