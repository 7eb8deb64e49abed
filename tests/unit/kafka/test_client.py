"""What clients are made of, and what their errors are told as."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agent.common.collector import collector_paused
from agent.kafka.admin_api import session_settings
from agent.kafka.admin_api.session_settings import SessionSettingsWatch
from agent.kafka.client import CertificateFiles, error_text, new_consumer, new_producer
from agent.kafka.source import brokers
from agent.kafka.source.brokers import require_topic
from agent.kafka.source.client import consumer_properties
from agent.kafka.source.errors import SourceError
from agent.kafka.source.topic import TopicReader
from agent.persistence.snapshot.compacted_topic import CompactedTopic
from agent.persistence.snapshot.store import StoreError
from tests.waiting import until

CONF = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
AT = "sasl_ssl://127.0.0.1:9093/bootstrap"
OURS, THEIRS = "the broker refuses this client's certificate", "the broker's certificate is refused here"


SSL, TLS = KafkaError._SSL, "Receive failed: error:0A000412:SSL routines::"


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (SSL, f"{AT}: {TLS}ssl/tls alert certificate unknown: SSL alert number 46 (after 2ms)", OURS),
        (SSL, f"{AT}: {TLS}ssl/tls alert bad certificate: SSL alert number 42", OURS),
        (SSL, f"{AT}: {TLS}tlsv13 alert certificate required", OURS),
        (SSL, f"{AT}: {TLS}tlsv1 alert unknown ca", OURS),
        (SSL, f"{AT}: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker", THEIRS),
        (SSL, f"{AT}: SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?", None),
        (KafkaError._TRANSPORT, f"{AT}: Connect to ipv4#127.0.0.1:9093 failed: Connection refused", None),
    ],
)
def test_what_is_wrong_with_which_certificate(code: int, said: str, told: str | None) -> None:
    text = error_text(KafkaError(code, said))
    assert text == said if told is None else text.startswith(f"{AT}: {told}")
    assert told is None or "; expected one that is valid now" in text


def test_closed_without_a_word() -> None:
    text = error_text(KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/2 brokers are down"))
    assert text == "no broker answers: they are down, or their ports want another security.protocol"


def test_files_that_are_renewed(tmp_path: Path) -> None:
    directory, certificate = tmp_path / "authorities", tmp_path / "certificate.pem"
    directory.mkdir()
    certificate.write_text("1")
    conf = {
        "ssl.ca.location": str(directory),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(tmp_path / "not there yet"),
        "ssl.crl.location": "",
        "sasl.username": "u",
    }
    files = CertificateFiles(conf)
    assert not files.are_renewed()
    certificate.write_text("1")
    assert not files.are_renewed(), "the same again"
    for renew in (
        lambda: certificate.write_text("2"),
        lambda: (directory / "new.pem").write_text("3"),
        lambda: (tmp_path / "not there yet").write_text("4"),
    ):
        renew()
        assert files.are_renewed()
        assert not files.are_renewed(), "it counts as read"
    link, other = tmp_path / "link.pem", tmp_path / "other.pem"
    other.write_text("5")
    link.symlink_to(certificate)
    files = CertificateFiles({"ssl.certificate.location": str(link)})
    link.unlink()
    link.symlink_to(other)
    assert files.are_renewed(), "as Kubernetes renews what it mounts"


def test_who_names_none_has_none_that_are_renewed() -> None:
    assert not CertificateFiles({"bootstrap.servers": "b:9092", "ssl.ca.location": "probe"}).are_renewed()


@pytest.mark.parametrize("name", ["group.id", "group.instance.id"])
def test_properties_that_are_no_text(name: str) -> None:
    """The client ended the process, or raised what no `except` of ours names."""
    with pytest.raises(KafkaException, match=f"{name}: expected a text in UTF-8") as raised:
        new_consumer({**CONF, "group.id": "g", name: "g\udcff"})
    assert raised.value.args[0].code() == KafkaError._NOT_CONFIGURED


def test_what_is_no_broker_is_told_as_that() -> None:
    """librdkafka took the first bytes of a web server's answer for a size, and advised to allow it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    with client:
                        client.recv(1_000)
                        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        said: list[str] = []
        producer = new_producer(
            {
                "bootstrap.servers": f"127.0.0.1:{listening.getsockname()[1]}",
                "log_level": 2,
                "error_cb": lambda it: said.append(error_text(it)),
            }
        )
        until(lambda: producer.poll(0.1) or said, said="an error")
        listening.shutdown(socket.SHUT_RDWR)
    assert said[0].endswith(
        "/bootstrap: what answers is no Kafka broker, or its port wants another security.protocol"
    )


def test_an_outage_of_all_brokers_is_no_storm_of_connections() -> None:
    """Its client begins anew whenever all are away, and forgets then how long it had waited between attempts."""
    accepted = list[float]()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    accepted.append(time.monotonic())
                    connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        consumer = new_consumer(dict(consumer_properties({"bootstrap.servers": f"127.0.0.1:{port}"})))
        consumer.assign([TopicPartition("t", 0, 0)])
        try:
            until(lambda: (consumer.poll(0.01), len(accepted) > 40)[1], said="attempts")
        finally:
            consumer.close()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert accepted[40] - accepted[0] > 1.5, "20 a second, with librdkafka's own waits"


def _running_clients() -> int:
    """Each has a thread of that name."""
    return sum(it.read_text() == "rdk:main\n" for it in Path("/proc/self/task").glob("*/comm"))


def _connect() -> None:
    with TopicReader(CONF) as reader, suppress(SourceError):
        reader.connect(0.2)


def _write() -> None:
    """A snapshot, into a topic that was opened while there were brokers."""
    topic = CompactedTopic.__new__(CompactedTopic)
    topic._conf, topic._topic, topic._timeout_s, topic._producer = CONF, "snapshots", 0.2, None
    topic._checked_s = time.monotonic()
    with pytest.raises(StoreError):
        topic.write(0, {"partition-7": b"image"}, "writing partition-7")


@pytest.mark.parametrize(
    "ask",
    [_connect, _write, lambda: require_topic(CONF), lambda: SessionSettingsWatch(CONF, {}, list).ask()],
    ids=["reader", "snapshots", "topic", "sessions"],
)
def test_who_asked_lets_go_of_the_client(ask: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for the topic had four threads and five open files more every five seconds."""
    monkeypatch.setattr(brokers, "PROBE_S", 0.2)
    monkeypatch.setattr(session_settings, "ASK_S", 0.2)
    before = _running_clients()
    with collector_paused():
        ask()
        assert _running_clients() <= before
