"""Questions of the Admin API that nobody answers."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from agent.tools.doctor import connection
from agent.tools.doctor.checks import DoctorRequest
from agent.tools.embedded.ports import free_ports


def test_nobody_answers_and_there_is_no_token_for_another_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    link = connection.connect_admin(DoctorRequest({"bootstrap.servers": nobody}, timeout_s=0.5))

    def no_token(conf: object) -> None:
        raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, "no token"))

    monkeypatch.setattr(connection, "new_admin_client", no_token)
    for _ in range(2):
        with pytest.raises(connection.NoAnswer):
            link.ask(link.admin.describe_topics, TopicCollection(["orders"]))
