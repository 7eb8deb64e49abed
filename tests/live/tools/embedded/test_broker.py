"""The embedded broker's life, with real brokers."""

import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.embedded import EmbeddedBroker, fetch_jars, node
from agent.tools.embedded.errors import BrokerFailedError, EmbeddedError, ToolFailedError
from agent.tools.embedded.ports import free_ports
from tests.live.versions import NEWEST_ELSE_THOROUGH
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

QUIET = {"log_level": 0}


@pytest.fixture
def without_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for users: `make test` has a broker's data beside the jars, so that all other tests take a copy."""
    monkeypatch.setattr(node, "FORMATTED", "no such directory")


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result(20)
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    settings = {"group.id": f"{topic}-{uuid.uuid4()}", "auto.offset.reset": "earliest", "session.timeout.ms": 1000}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **QUIET})
    try:
        consumer.subscribe([topic])
        values, deadline = [], time.monotonic() + 20
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value())
        return values
    finally:
        consumer.close()


def has_ended(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.usefixtures("without_formatted")
@pytest.mark.parametrize("version", NEWEST_ELSE_THOROUGH)
def test_a_broker_of_each_version(version):
    with EmbeddedBroker(fetch_jars(version), properties={"offsets.topic.num.partitions": "3"}) as broker:
        pid, directory = broker.pid, broker.directory
        produce(broker.bootstrap_servers, "orders", [b"one", b"two"])
        assert consume(broker.bootstrap_servers, "orders", 2) == [b"one", b"two"]

        partitions = {path.name for path in broker.log_dirs[0].glob("__consumer_offsets-*")}
        assert partitions == {f"__consumer_offsets-{number}" for number in range(3)}
        assert "GroupCoordinator" in broker.log_file.read_text()
        groups = broker.run_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", broker.bootstrap_servers, "--list"),
        )
        assert groups.strip().startswith("orders-")
        if version.startswith("4."):
            features = broker.run_tool(
                "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", broker.bootstrap_servers, "describe"
            )
            for feature in ("group.version", "share.version", "streams.version"):
                line = next(line for line in features.splitlines() if f"Feature: {feature}" in line)
                assert re.search(r"FinalizedVersionLevel: [1-9]", line)
    assert pid is not None
    assert has_ended(pid)
    assert broker.pid is None
    assert not directory.exists()


def test_pause_kill_and_restart_keep_data_and_address(tmp_path):
    with EmbeddedBroker(fetch_jars(), directory=tmp_path, heap="256m") as broker:
        address = broker.bootstrap_servers
        produce(address, "orders", [b"one"])

        broker.pause()
        admin = AdminClient({"bootstrap.servers": address, **QUIET})
        with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT"):
            admin.list_topics(timeout=1.0)
        broker.resume()
        broker.wait()
        # A client whose first answer names no brokers, as until the lease is back, may stay cut off.
        admin = AdminClient({"bootstrap.servers": address, **QUIET})
        assert "orders" in admin.list_topics(timeout=20).topics

        broker.kill()
        assert broker.pid is None
        broker.restart()
        assert broker.bootstrap_servers == address
        assert consume(address, "orders", 1) == [b"one"]

        broker.pause()  # stopping must not wait for what cannot hear
        began = time.monotonic()
    assert time.monotonic() - began < 9
    assert (tmp_path / "server.log").exists(), "a directory of ours is kept"


def test_broker_that_cannot_start_says_why_and_leaves_nothing(tmp_path):
    broker = EmbeddedBroker(fetch_jars(), properties={"group.max.size": "none"})
    with pytest.raises(EmbeddedError, match=r"Invalid value none for configuration group\.max\.size"):
        broker.start()

    broker = EmbeddedBroker(fetch_jars(), directory=tmp_path, properties={"authorizer.class.name": "no.such.Class"})
    with pytest.raises(BrokerFailedError, match=r"no\.such\.Class"):
        broker.start()
    assert broker.pid is None


@pytest.mark.usefixtures("without_formatted")
def test_settings_that_kafka_refuses_are_told_as_its_data_is_made():
    broker = EmbeddedBroker(fetch_jars(), properties={"group.max.size": "none"})
    with pytest.raises(ToolFailedError, match=r"Invalid value none for configuration group\.max\.size"):
        broker.start()


def test_broker_dies_with_its_owner():
    owner = """if True:
        import os, signal
        from agent.tools.embedded import EmbeddedBroker, fetch_jars
        broker = EmbeddedBroker(fetch_jars())
        broker.start()
        print(broker.pid, broker.directory, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run([sys.executable, "-c", owner], capture_output=True, text=True, timeout=90)
    pid, directory = ended.stdout.split()
    until(lambda: has_ended(int(pid)))
    until(lambda: not Path(directory).exists())


def test_a_port_that_another_broker_took_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both found it free: the one that comes late does not take the other's answers for its own."""
    with EmbeddedBroker(fetch_jars(), heap="256m") as first:
        taken = int(first.bootstrap_servers.rpartition(":")[2])
        offered = iter([[taken, *free_ports(1)], free_ports(2)])
        monkeypatch.setattr("agent.tools.embedded.broker.free_ports", lambda count: next(offered))
        with EmbeddedBroker(fetch_jars(), heap="256m") as second:
            assert second.bootstrap_servers != first.bootstrap_servers
            produce(second.bootstrap_servers, "mine", [b"x"])
            theirs = (
                AdminClient({"bootstrap.servers": first.bootstrap_servers, **QUIET}).list_topics(timeout=10).topics
            )
            assert "mine" not in theirs
