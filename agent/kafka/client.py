"""What all share that talk to brokers: properties of clients, and what error codes mean for who grants rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError


def quiet(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a client beside the one that reads: its errors are told by us, so it logs nothing unless
    `conf` asks for that. It then prints lines of its own: only a client that is polled can log elsewhere.
    """
    return {"log_level": "2", **conf}


RIGHT_CREDENTIALS: Mapping[int, str] = dict.fromkeys(
    (
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    ),
    "credentials that the cluster accepts (properties sasl.*, ssl.*)",
)
"""The codes for credentials that do not do, and what is needed instead."""

NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
