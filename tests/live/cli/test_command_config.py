"""`--command-config` where TLS, a login and a certificate are wanted: one file for Kafka's own tools and for us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from agent.tools.embedded import fetch_jars
from agent.tools.embedded.settings import render_properties
from tests.live.scenarios import faults
from tests.live.scenarios.secured import DESCRIBE_GROUPS, DESCRIBE_TOPIC, PASSWORD, READ_TOPIC, Secured, secured
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

KEY_PASSWORD = 'key "word\\'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    with secured(fetch_jars(), directory, properties={}, client_certificates=True) as it:
        it.admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        consumer = Consumer({"bootstrap.servers": it.broker.admin_servers, "group.id": "payments", "log_level": 0})
        faults.commit(consumer, TopicPartition("orders", 0, 1))
        consumer.close()
        it.user("reader", DESCRIBE_TOPIC, READ_TOPIC, DESCRIBE_GROUPS)
        yield it


def written(directory: Path, properties: Mapping[str, str]) -> str:
    """A properties file, in which Java reads Latin-1 and escapes."""
    text = "".join(it if ord(it) < 128 else f"\\u{ord(it):04x}" for it in render_properties(properties))
    file = directory / "client.properties"
    file.write_text(text, encoding="ascii")
    return str(file)


def login() -> dict[str, str]:
    text = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="reader" password="{text}";',
    }


def with_pkcs12(cluster: Secured, directory: Path) -> dict[str, str]:
    store = cluster.authority.sign("client").keystore(directory / "client.p12", KEY_PASSWORD)
    return {
        "ssl.truststore.location": str(cluster.authority.file),
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": KEY_PASSWORD,
        "ssl.key.password": KEY_PASSWORD,
    }


def with_pem_files(cluster: Secured, directory: Path) -> dict[str, str]:
    return {
        "ssl.truststore.location": str(cluster.authority.file),
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": str(cluster.authority.sign("client-1").both),
        "ssl.keystore.type": "PEM",
    }


def with_pem_inside(cluster: Secured, directory: Path) -> dict[str, str]:
    signed = cluster.authority.sign("client-2")
    return {
        "ssl.truststore.certificates": cluster.authority.file.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.keystore.key": signed.key.read_text(),
        "ssl.keystore.certificate.chain": signed.certificate.read_text(),
        "ssl.keystore.type": "PEM",
    }


@pytest.mark.parametrize("keys", [with_pkcs12, with_pem_files, with_pem_inside])
def test_one_file_for_both(keys, cluster: Secured, tmp_path: Path) -> None:
    file = written(tmp_path, {**login(), **keys(cluster, tmp_path)})
    servers = ("--bootstrap-server", cluster.broker.bootstrap_servers, "--command-config", file)
    assert cluster.broker.run_tool(TOOL, *servers, "--list").split() == ["payments"]
    result = kshadow("groups", *servers, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert '"group": "payments"' in result.stdout or '"group":"payments"' in result.stdout


def test_without_its_certificate(cluster: Secured, tmp_path: Path) -> None:
    """What is seen above is due to the file."""
    trust = {"ssl.truststore.location": str(cluster.authority.file), "ssl.truststore.type": "PEM"}
    file = written(tmp_path, {**login(), **trust})
    result = kshadow("groups", "--bootstrap-server", cluster.broker.bootstrap_servers, "--command-config", file)
    assert (result.exit_code, result.stdout) == (3, "")
