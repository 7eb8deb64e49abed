"""What clients are made of, and what their errors are told as."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from agent.kafka.client import error_text

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
