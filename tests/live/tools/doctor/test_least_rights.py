"""The least rights: Read and Describe on the offsets topic, alone, are all that the agent and the commands need."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from agent.tools.embedded import fetch_jars
from tests.live.scenarios import faults
from tests.live.scenarios.secured import (
    DESCRIBE_GROUPS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPICS,
    READ_TOPIC,
    TOPIC,
    Secured,
    secured,
)
from tests.live.scenarios.test_run import Running
from tests.live.versions import SUPPORTED
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 4
PROPERTIES = {"offsets.topic.num.partitions": str(PARTITIONS)}
USER = "kshadow-agent"
GROUP = "orders"
DESCRIBE_GROUP = DESCRIBE_GROUPS._replace(name=GROUP)


@pytest.fixture(scope="module", params=SUPPORTED)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(fetch_jars(request.param), tmp_path_factory.mktemp("rights"), properties=PROPERTIES) as it:
        faults.create(it.broker, PARTITIONS)
        for made in it.admin.create_topics([NewTopic("orders", 4, 1)]).values():
            made.result(20)
        conf = {"bootstrap.servers": it.broker.admin_servers, "group.id": GROUP, "auto.offset.reset": "earliest"}
        consumer = Consumer({**conf, "session.timeout.ms": 6000, "log_level": 0})
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        it.user(USER)
        yield it
        consumer.close()


def properties(cluster: Secured) -> tuple[str, ...]:
    conf = cluster.conf(USER).items()
    return tuple(it for name, value in conf if name != "bootstrap.servers" for it in ("-X", f"{name}={value}"))


def source(cluster: Secured) -> tuple[str, ...]:
    return ("--bootstrap-server", cluster.broker.bootstrap_servers, *properties(cluster))


COMMANDS = [
    ("groups",),
    ("describe", GROUP),
    ("members", GROUP),
    ("timeline", GROUP),
    ("explain", GROUP),
    ("findings",),
    ("coordinator", GROUP),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda it: it[0])
def test_commands_need_no_more(cluster: Secured, command: tuple[str, ...]) -> None:
    cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC)
    result = kshadow(*command, *source(cluster), "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    if command[0] not in ("findings", "coordinator"):
        assert "orders" in result.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda it: it[0])
def test_commands_say_which_right_is_missing(cluster: Secured, command: tuple[str, ...]) -> None:
    for granted, missing in (((), "Describe"), ((READ_TOPIC, DESCRIBE_TOPIC._replace(deny=True)), "Describe")):
        cluster.allow(USER, *granted)
        result = kshadow(*command, *source(cluster))
        assert result.exit_code == 3
        assert f"needed: ACL operation {missing} on topic {TOPIC}" in result.stderr
    cluster.allow(USER, DESCRIBE_TOPIC)
    result = kshadow(*command, *source(cluster))
    if command[0] == "coordinator":
        assert result.exit_code == 0, "it does not read"
    else:
        assert result.exit_code == 3
        assert f"needed: ACL operation Read on topic {TOPIC}" in result.stderr


def test_the_agent_needs_no_more_without_the_observer(cluster: Secured, tmp_path: Path) -> None:
    cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC)
    it = Running(cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster), "--no-admin")
    try:
        it.await_ready()
        assert [(row["group"], row["state"]) for row in json.loads(it.get("/api/v1/groups")[1])] == [
            (GROUP, "Stable")
        ]
        time.sleep(3)  # that librdkafka may not ask for its group's coordinator is of no account, now or later
        assert it.get("/readyz")[0] == 200
        assert it.end() < 5
        assert not {"ERROR", "WARNING"} & set(it.log.read_text().split()), it.log.read_text()
    finally:
        it.close()


def test_the_observer_says_what_it_may_not_and_the_agent_goes_on(cluster: Secured, tmp_path: Path) -> None:
    cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC)
    it = Running(cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster))
    try:
        it.await_ready()
        said = "the observer has no right to a description of group 'orders', ACL operation Describe on the group"
        until(lambda: said in it.log.read_text(), said="it says so")
        assert it.get("/readyz")[0] == 200
        assert it.end() < 5
        assert it.log.read_text().count("no right") == 1
    finally:
        it.close()
    cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC, DESCRIBE_GROUPS)
    it = Running(cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster))
    try:
        it.await_ready()
        until(lambda: 'outcome="answered"' in it.get("/metrics")[1], said="it has answers")
        assert "WARNING" not in it.log.read_text()
    finally:
        it.close()


def test_without_the_topic_what_is_not_seen_any_more_is_not_told_to_be_gone(cluster: Secured, tmp_path: Path) -> None:
    """Lists leave out what a client may not see, and do not say so."""
    cluster.allow(USER, DESCRIBE_GROUP, DESCRIBE_TOPICS)
    it = Running(
        cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster), "--source", "admin", "--no-lag"
    )

    def told() -> list[tuple[str, bool | None]]:
        return [(e["type"], e.get("observed")) for e in json.loads(it.get(f"/api/v1/groups/{GROUP}/timeline")[1])]

    def is_shown() -> bool:
        return it.get(f"/api/v1/groups/{GROUP}")[0] == 200

    try:
        it.await_ready()
        assert is_shown()
        cluster.allow(USER, DESCRIBE_TOPICS)
        until(lambda: not is_shown(), said="it is not known any more")
        assert told() == [("group_created", False)]
        assert "1 group cannot be seen any more: ACL operation Describe is needed" in it.get("/readyz")[1]
        assert "no ACL operation Describe" in it.get(f"/api/v1/groups/{GROUP}")[1]
        cluster.allow(USER, DESCRIBE_GROUP, DESCRIBE_TOPICS)
        until(is_shown, said="it is known again")
        until(lambda: "1 group cannot" not in it.get("/readyz")[1], said="and nothing is missing")
        until(lambda: len(told()) > 1, said="it is told of again")
        time.sleep(1)  # for what may follow
        assert told() == [("group_created", False)] * 2, "neither it nor its members are new"
        assert f"group '{GROUP}' cannot be seen" in it.log.read_text()
    finally:
        it.close()


def test_without_the_topic_a_wrong_password_is_told(cluster: Secured, tmp_path: Path) -> None:
    wrong = ("-X", "sasl.password=wrong", "--source", "admin")
    it = Running(cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster), *wrong)
    try:
        assert it.process.wait(60) == 3
        assert "Authentication failed during authentication due to invalid credentials" in it.log.read_text()
    finally:
        it.close()


@pytest.mark.parametrize(("granted", "missing"), [((), "Describe"), ((DESCRIBE_TOPIC,), "Read")])
def test_the_agent_ends_at_once_and_says_which_right_is_missing(
    cluster: Secured, granted: tuple[object, ...], missing: str, tmp_path: Path
) -> None:
    cluster.allow(USER, *granted)  # type: ignore[arg-type]
    it = Running(cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster), "--no-admin")
    try:
        assert it.process.wait(20) == 3
        assert f"needed: ACL operation {missing} on topic {TOPIC}" in it.log.read_text()
        assert "Traceback" not in it.log.read_text()
    finally:
        it.close()


def test_there_is_no_lag_while_what_groups_commit_may_not_be_read(cluster: Secured, tmp_path: Path) -> None:
    """The ends go on, and are seen: that the group has stopped is not known. The last test, as it leaves a group."""
    conf = {"bootstrap.servers": cluster.broker.admin_servers, "log_level": 0}
    producer = Producer(conf)

    def produce() -> None:
        for _ in range(5):
            producer.produce("orders", b"x", partition=0)
        assert producer.flush(20) == 0

    produce()
    committer = Consumer({**conf, "group.id": "payments"})
    faults.commit(committer, TopicPartition("orders", 0, 2))
    cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC, DESCRIBE_TOPICS)
    options = ("--no-admin", "--lag-interval", "1s")
    it = Running(cluster.broker.bootstrap_servers, tmp_path / "log", *properties(cluster), *options)

    def lags() -> list[int | None]:
        form = json.loads(it.get("/api/v1/groups/payments")[1])
        rows = json.loads(it.get("/api/v1/groups")[1])
        return [row["lag"] for row in (*form["offsets"], *(row for row in rows if row["group"] == "payments"))]

    metric = 'kshadow_group_topic_lag_records{group="payments"'
    try:
        it.await_ready()
        until(lambda: lags() == [3, 3], said="lag is known")
        assert metric in it.get("/metrics")[1]
        cluster.allow(USER, DESCRIBE_TOPIC, DESCRIBE_TOPICS)
        until(lambda: it.get("/readyz")[0] == 503, said="reading has stopped")
        produce()
        time.sleep(3)  # ends are looked at
        assert lags() == [None, None]
        assert metric not in it.get("/metrics")[1]
        cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC, DESCRIBE_TOPICS)
        it.await_ready()
        until(lambda: lags() == [8, 8], said="lag is known again")
    finally:
        it.close()
        committer.close()
