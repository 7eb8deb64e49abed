"""librdkafka's properties, which kshadow takes everywhere, as options of Spark's Kafka source and sink: Java's names.

Files of certificates and keys in PEM are read where the driver runs and handed on as text: executors need none. Only
a PKCS#12 keystore is named, and must be at the same path everywhere.

The least rights to read `__consumer_offsets`, as seen with Spark 4.0.5 and ACLs: Describe and Read on the topic, and
Describe on groups prefixed `GROUP_PREFIX`, with the partitions assigned (`assigned`). Subscribed to by name the
driver joins a group, which needs Read on it and leaves a group behind. Of other topics, with
`spark.sql.streaming.kafka.useDeprecatedOffsetFetching` off, Describe and Read on the topic are enough.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agent.core.records import LogId
from agent.tools.spark_submit.jobs import GROUP_PREFIX, SECRETS, Diagnosis, Kafka
from spark_jobs.errors import JobError, Unreachable
from spark_jobs.progress import print_status

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_LOOK_UP_S = 60.0
"""How long a job waits for brokers to tell of its topic."""
PREFIX = "kafka."
"""Of options that Spark hands on to the client."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAME = _names(
    """
    acks allow.auto.create.topics batch.size bootstrap.servers check.crcs client.dns.lookup client.id client.rack
    compression.type connections.max.idle.ms delivery.timeout.ms enable.metrics.push fetch.max.bytes fetch.min.bytes
    heartbeat.interval.ms isolation.level linger.ms max.partition.fetch.bytes max.poll.interval.ms
    metadata.max.age.ms reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
    retry.backoff.ms session.timeout.ms socket.connection.setup.timeout.ms
    """
)
_RENAMED = {
    "metadata.broker.list": "bootstrap.servers",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.timeout.ms": "request.timeout.ms",
}
_MAPPED = _names(
    """
    security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem ssl.key.password ssl.keystore.location
    ssl.keystore.password ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
    """
)
"""Those that mean something to Java in other words."""
_TUNING = re.compile(
    r"(queue|queued|socket|broker|topic|log|api\.version|statistics|message|coordinator|partition\.assignment)\..*"
    r"|fetch\.(queue|error)\..*|.*\.k?bytes|log_level|debug|builtin\.features|internal\.termination\.signal"
    r"|max\.in\.flight(\..*)?|metadata\..*|enable\.(auto\..*|partition\.eof|random\.seed|sparse\.connections)"
    r"|auto\..*|group\..*|(consume|delivery\.report)\..*|client\.software\..*"
)
"""Those of which the result does not depend; and those of groups and offsets, which are Spark's own business."""
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OLD_KEY = re.compile(r"-----BEGIN (?:RSA|EC|DSA) PRIVATE KEY-----")
_ENCRYPTED_KEY = re.compile(r"-----BEGIN ENCRYPTED PRIVATE KEY-----([A-Za-z0-9+/=\s]*)-----END")
_PBES2 = bytes.fromhex("06092a864886f70d01050d")
"""The algorithm's object identifier, 1.2.840.113549.1.5.13, as DER has it."""

Read = Callable[[str], str]


class SourceOptions(NamedTuple):
    """Options of Spark, with their prefix, and what is to be said of those that were left out."""

    options: dict[str, str]
    notes: tuple[str, ...]


def readable(kafka: Kafka) -> dict[str, str]:
    """The options for Spark's Kafka source or sink; the secrets among them come from the environment.

    Says on standard error what was left out. Raises `JobError`.
    """
    mapped = options_of(_all_of(kafka), _text_of)
    for note in mapped.notes:
        print(f"kshadow: {note}", file=sys.stderr)  # noqa: T201
    # The sink takes no notice of it.
    return {**mapped.options, "groupIdPrefix": GROUP_PREFIX}


def assigned(kafka: Kafka, topic: str, *, timeout_s: float = 30.0) -> dict[str, str]:
    """The option that has Spark's source read all partitions that the topic has now. Raises `JobError`."""
    from agent.kafka.source.cluster import leaders

    with _asking(kafka) as (consumer, _):
        return {"assign": json.dumps({topic: sorted(leaders(consumer, topic, timeout_s))})}


def log_of(kafka: Kafka, topic: str) -> tuple[LogId, int]:
    """Which log the topic is now, and how many partitions it has. Raises `JobError`."""
    from agent.kafka.source.cluster import leaders
    from agent.kafka.source.identity import IdentityClient

    with _asking(kafka) as (consumer, properties):
        log_id = IdentityClient(consumer, properties).ask(topic, _LOOK_UP_S)
        return log_id, len(leaders(consumer, topic, _LOOK_UP_S))


def begins_of(kafka: Kafka, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The first offset of each partition that the topic has now. Raises `JobError`."""
    from agent.kafka.source.cluster import EARLIEST, offsets_at

    with _asking(kafka) as (consumer, _):
        return offsets_at(consumer, topic, partitions, EARLIEST, _LOOK_UP_S)


def ends_of(kafka: Kafka, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The offset behind the last record of each partition that can be read now. Raises `JobError`."""
    from agent.kafka.source.cluster import LATEST, offsets_at

    with _asking(kafka) as (consumer, _):
        return offsets_at(consumer, topic, partitions, LATEST, _LOOK_UP_S)


@contextmanager
def _asking(kafka: Kafka) -> Iterator[tuple[Consumer, dict[str, str]]]:
    """A consumer and its properties, to ask by. Raises `JobError`, for `SourceError`s of the block as well."""
    from confluent_kafka import KafkaException

    from agent.kafka.client import new_consumer, quiet, refused_properties
    from agent.kafka.source.errors import SourceError

    properties = quiet({**_all_of(kafka), "group.id": GROUP_PREFIX})
    try:
        consumer = new_consumer(properties)
    except KafkaException as error:
        raise JobError(refused_properties(error.args[0])) from error
    try:
        yield consumer, properties
    except SourceError as error:
        raise Unreachable(str(error)) from error
    finally:
        consumer.close()


def with_broker_sessions(diagnosis: Diagnosis, kafka: Kafka) -> Diagnosis:
    """The same, with what the brokers say of sessions where nobody told. Where they do not answer, that is said."""
    from confluent_kafka import KafkaException

    from agent.core.inference.session_settings import untold_types
    from agent.kafka.admin_api.session_settings import fetch_session_settings, unknown_phrase

    if not (untold := untold_types(diagnosis.sessions)):
        return diagnosis
    try:
        asked = fetch_session_settings(_all_of(kafka))
    except KafkaException as error:
        print_status(unknown_phrase(untold, error.args[0]))
        return diagnosis
    return msgspec.structs.replace(diagnosis, sessions={**asked, **diagnosis.sessions})


def _all_of(kafka: Kafka) -> dict[str, str]:
    """The properties, with those that are secret."""
    try:
        return kafka.properties | msgspec.json.decode(os.environ.get(SECRETS) or "{}", type=dict[str, str])
    except ValueError:
        # What came is not shown.
        expected = f"{SECRETS}: expected a JSON object of properties and their texts, got something else"
        raise JobError(expected) from None


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no PEM"
        raise JobError(f"{path}: expected a file in PEM, where the driver runs: {why}") from error


def options_of(properties: Mapping[str, str], read: Read) -> SourceOptions:
    """Map them; `read` gives the text of a file. Raises `JobError` for what has no counterpart."""
    # librdkafka's own default, which is not Java's.
    out: dict[str, str] = {"isolation.level": "read_committed"}
    left_out: list[str] = []
    for name, value in properties.items():
        if name in _SAME:
            out[name] = value
        elif name in _RENAMED:
            out[_RENAMED[name]] = value
        elif name in _MAPPED:
            continue
        elif _TUNING.fullmatch(name):
            left_out.append(name)
        else:
            raise JobError(f"property {name}: Spark's Kafka client has no counterpart that kshadow knows of")
    if not out.get("bootstrap.servers"):
        raise JobError("property bootstrap.servers: expected host:port[,host:port…], got nothing")
    protocol = properties.get("security.protocol", "plaintext").upper()
    out["security.protocol"] = protocol
    if protocol.startswith("SASL_"):
        out |= _sasl(properties)
    if protocol.endswith("SSL"):
        out |= _trusted(properties, read) | _presented(properties, read)
    notes = (f"left out, as of no account to Spark: {', '.join(left_out)}",) if left_out else ()
    return SourceOptions({PREFIX + name: value for name, value in out.items()}, notes)


def _sasl(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in _LOGIN:
        raise JobError(f"property sasl.mechanism: expected {', '.join(_LOGIN)} for Spark, got {mechanism}")
    for name in ("sasl.username", "sasl.password"):
        if name not in properties:
            where = f", nor in {SECRETS} where the driver runs" if name == "sasl.password" else ""
            raise JobError(f"property {name}: needed for {mechanism}, not among the properties{where}")
    user, password = (_quoted(properties[name]) for name in ("sasl.username", "sasl.password"))
    jaas = f"{_LOGIN[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _quoted(text: str) -> str:
    """As Kafka's parser of such lines has it, which is `java.io.StreamTokenizer`: C's escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _trusted(properties: Mapping[str, str], read: Read) -> dict[str, str]:
    """What the broker's certificate is checked with. Without any: what Java trusts."""
    out: dict[str, str] = {}
    if properties.get("enable.ssl.certificate.verification", "true") != "true":
        raise JobError("property enable.ssl.certificate.verification: Java always verifies; name the CA instead")
    checks_name = properties.get("ssl.endpoint.identification.algorithm", "https")
    out["ssl.endpoint.identification.algorithm"] = "" if checks_name == "none" else checks_name
    location = properties.get("ssl.ca.location", "probe")
    pem = properties.get("ssl.ca.pem") or (None if location == "probe" else read(location))
    if pem is not None:
        out |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}
    return out


def _presented(properties: Mapping[str, str], read: Read) -> dict[str, str]:
    """The client's own certificate."""
    if "ssl.keystore.location" in properties:
        out = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": properties["ssl.keystore.location"]}
        if "ssl.keystore.password" in properties:
            out["ssl.keystore.password"] = properties["ssl.keystore.password"]
        return out
    certificate = _pem(properties, "ssl.certificate", read)
    key = _pem(properties, "ssl.key", read)
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        absent = "ssl.certificate" if certificate is None else "ssl.key"
        raise JobError(f"property {absent}.location: a certificate and its key go together, this one is missing")
    if _OLD_KEY.search(key) or "-----BEGIN " not in key:
        raise JobError(
            f"property ssl.key.location: {properties.get('ssl.key.location', 'the key')}: Java reads keys in PKCS#8,"
            " another form came: openssl pkcs8 -topk8 -in KEY -out KEY.pkcs8 makes one"
        )
    if _is_pbes2(key):
        raise JobError(
            f"property ssl.key.location: {properties.get('ssl.key.location', 'the key')}: its password is of a kind"
            " (PBES2) that Kafka's Java client does not take on Java 17: name a PKCS#12 file (ssl.keystore.location),"
            " or a key that openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in KEY made"
        )
    out = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}
    if "ssl.key.password" in properties:
        out["ssl.key.password"] = properties["ssl.key.password"]
    return out


def _is_pbes2(key: str) -> bool:
    body = _ENCRYPTED_KEY.search(key)
    return body is not None and _PBES2 in base64.b64decode("".join(body[1].split()))


def _pem(properties: Mapping[str, str], name: str, read: Read) -> str | None:
    if pem := properties.get(f"{name}.pem"):
        return pem
    location = properties.get(f"{name}.location")
    return None if location is None else read(location)
