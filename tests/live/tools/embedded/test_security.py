"""SASL_SSL and rights, on real brokers: what is not granted is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from agent.tools.embedded import fetch_jars
from tests.live.scenarios import faults
from tests.live.scenarios.certificates import Authority
from tests.live.scenarios.secured import DESCRIBE_TOPIC, MECHANISM, PASSWORD, TOPIC, Secured, secured
from tests.live.versions import SUPPORTED
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

PROPERTIES = {"offsets.topic.num.partitions": "2"}


def code_of(conf: dict[str, str]) -> int | None:
    """The topic's error in the metadata that this client gets."""
    said: list[KafkaError] = []
    admin = AdminClient({**conf, "log_level": "0"} | {"error_cb": said.append})
    try:
        error = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].error
        return None if error is None else int(error.code())
    except KafkaException:
        # A handshake that takes long on a busy machine is first one that could not be made.
        noise = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
        for _ in range(20):
            admin.poll(1)
            if codes := [int(it.code()) for it in said if it.code() not in noise]:
                return codes[0]
        raise


@pytest.mark.thorough  # other tests have brokers with users
@pytest.mark.parametrize("version", SUPPORTED)
def test_users_passwords_certificates_and_rights(version: str, tmp_path: Path) -> None:
    with secured(fetch_jars(version), tmp_path, properties=PROPERTIES) as it:
        faults.create(it.broker, 2)
        granted, refused = it.user("granted", DESCRIBE_TOPIC), it.user("refused")
        assert code_of(granted) is None
        assert code_of(refused) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        it.allow("granted")
        assert code_of(granted) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert code_of(it.conf("granted", sasl_password="wrong")) == KafkaError._AUTHENTICATION
        stranger = Authority(tmp_path / "stranger").file
        assert code_of(it.conf("granted", ssl_ca_location=str(stranger))) == KafkaError._SSL
        it.broker.restart()
        assert code_of(granted) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        _by_a_file_of_javas(it, tmp_path / "client.properties")


def _by_a_file_of_javas(it: Secured, file: Path) -> None:
    """What Kafka's own tools would be given: `--command-config`, and what is given beside it."""
    it.allow("granted", DESCRIBE_TOPIC)
    # Escaped for the quotes of JAAS, and again for the file.
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    file.write_text(
        f"# for kafka-consumer-groups.sh\nsecurity.protocol = SASL_SSL\nsasl.mechanism:{MECHANISM}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'    username="granted" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={it.authority.file}\n",
        encoding="latin-1",
    )
    asked = ("coordinator", "g", "--bootstrap-server", it.broker.bootstrap_servers, "--command-config", file)
    found = kshadow(*asked, "-o", "json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["partitions"] == 2
    refused = kshadow(*asked, "-X", "sasl.password=wrong")
    assert (refused.exit_code, PASSWORD in refused.output) == (3, False)
