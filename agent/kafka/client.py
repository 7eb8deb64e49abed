"""What all share that talk to brokers: properties of clients, what error codes mean, records that are delivered."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from agent.config.logins import librdkafka_properties, login_of
from agent.config.secrets import is_utf8


def quiet(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a client beside the one that reads: its errors are told by us, so it logs nothing unless
    `conf` asks for that, or it ends by a fatal error. It then prints lines of its own: only a client that is polled
    can log elsewhere.
    """
    return {"log_level": "2", **conf}


def new_consumer(conf: Mapping[str, Any], *, logger: logging.Logger | None = None) -> Consumer:
    """A consumer that is not connected yet. Every client of ours is made by one of these three.

    `conf`: librdkafka properties, or those of `agent.config.logins`, for which a token is fetched first. Raises
    `KafkaException`, with `_NOT_CONFIGURED` where a package or a setting is missing.
    """
    more = {} if logger is None else {"logger": logger}
    return Consumer(_with_token(conf), **more)


def new_producer(conf: Mapping[str, Any], *, logger: logging.Logger | None = None) -> Producer:
    """A producer, as `new_consumer`."""
    more = {} if logger is None else {"logger": logger}
    return Producer(_with_token(conf), **more)


def new_admin_client(conf: Mapping[str, Any]) -> AdminClient:
    """An Admin client, as `new_consumer`. Its questions hold it: its threads and connections end with the block of a
    `with`, or when the collector of cycles comes to it."""
    return AdminClient(_with_token(conf))


def _with_token(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The properties, which are text, and with a login of ours what fetches its tokens."""
    for name, value in conf.items():
        if isinstance(value, str) and not is_utf8(value):
            # The client ends the process with some of these, and raises `SystemError` with others.
            raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, f"{name}: expected a text in UTF-8"))
    try:
        login = login_of(conf)
    except ValueError as error:
        raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, str(error))) from None
    if login is None:
        return dict(conf)
    from agent.kafka.logins.tokens import LoginError, LoginMisconfigured, token_source

    source = token_source(login)
    try:
        source.token()
    except LoginError as error:
        is_ours = isinstance(error, LoginMisconfigured)
        code = KafkaError._NOT_CONFIGURED if is_ours else KafkaError._AUTHENTICATION
        raise KafkaException(KafkaError(code, str(error))) from None

    def on_error(error: KafkaError) -> None:
        """librdkafka knows only that there was none."""
        if error.code() == KafkaError._AUTHENTICATION and source.failure is not None:
            error = KafkaError(error.code(), str(source.failure))
        if (told := conf.get("error_cb")) is not None:
            told(error)

    return {**librdkafka_properties(conf), "oauth_cb": source.on_refresh, "error_cb": on_error}


CERTIFICATE_FILES = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.crl.location",
    "ssl.key.location",
    "ssl.keystore.location",
)
"""Properties that name files of certificates and keys; `ssl.ca.location` may name a directory of them."""


class CertificateFiles:
    """The files of certificates and keys that a client's properties name.

    librdkafka reads them once, as a client is made: one that was renewed since, only a new client shows.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """`conf`: librdkafka properties. What is there now counts as read."""
        self._paths = [Path(conf[name]) for name in CERTIFICATE_FILES if conf.get(name)]
        self._read = self._content()

    def are_renewed(self) -> bool:
        """Whether they hold something else than was read last, which then counts as read. Not while one of them
        cannot be read, as between two that replace each other."""
        found = self._content()
        if found is None or found == self._read:
            return False
        self._read = found
        return True

    def _content(self) -> bytes | None:
        seen = blake2b()
        try:
            for path in self._paths:
                for file in sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []:
                    if file.is_file():
                        seen.update(blake2b(file.read_bytes()).digest())
        except OSError:
            return None
        return seen.digest()


def ignore_error(error: KafkaError) -> None:
    """An `error_cb` for clients of which each question is answered: what a connection's trouble keeps from being
    answered tells of it."""


IDEMPOTENT_WRITE = (
    "on the cluster IdempotentWrite where it is older than Kafka 2.8 (by AWS' IAM always: WriteDataIdempotently)"
)
"""The right that who writes idempotently may need besides: KIP-679."""

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

OWN_CREDENTIALS = "credentials for this login, which kshadow doctor looks for"
"""What is needed where a client is not even made: no token was to be had."""


def is_login_failure(error: KafkaError) -> bool:
    """Whether a client was not made because there is no token now: trying again may help."""
    return error.code() in RIGHT_CREDENTIALS


def refused_properties(error: KafkaError) -> str:
    """What librdkafka, or a login of ours, says of a client's properties, in our words."""
    if error.code() == KafkaError._NOT_CONFIGURED:
        return error.str()
    if "No provider for SASL mechanism GSSAPI" in error.str():
        return "sasl.mechanism=GSSAPI: this librdkafka is built without Kerberos; docs/logins.md says what to install"
    return f"librdkafka does not take the properties: {error.str()}"


_NO_PROPERTY = "kshadow.none"


def refusals_of_properties(conf: Mapping[str, Any]) -> list[str]:
    """What librdkafka says of each property, or value, that it does not take; files are not looked for.

    It takes properties one after the other, and makes a client, that reads files, with all: so each is given before
    one that does not exist, and no client is ever made.
    """
    try:
        login_of(conf)
    except ValueError as error:
        return [str(error)]
    said = []
    for name, value in librdkafka_properties(conf).items():
        try:
            Producer({name: value, _NO_PROPERTY: ""})
        except KafkaException as error:
            if f'"{_NO_PROPERTY}"' not in error.args[0].str():
                said.append(refused_properties(error.args[0]).rstrip())
    return said


_REFUSED_CERTIFICATE = re.compile(r"alert ((?:bad|unsupported) certificate|certificate \w+|unknown ca)\b")
"""TLS' alerts (RFC 8446, section 6.2) by which a broker refuses what we show."""


def error_text(error: KafkaError) -> str:
    """What librdkafka says, or what that means where its own words do not tell."""
    said = error.str()
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        # Where connections or logins are refused, that is said besides; and how many are down is counted wrongly.
        return "no broker answers: they are down, or their ports want another security.protocol"
    place = said.partition(": ")[0]
    if "Invalid response size" in said and "APIVERSION_QUERY" in said:
        # It advises to raise receive.message.max.bytes, whatever the first bytes that came are, such as HTTP's.
        return f"{place}: what answers is no Kafka broker, or its port wants another security.protocol"
    if (alert := _REFUSED_CERTIFICATE.search(said)) is not None:
        return (
            f"{place}: the broker refuses this client's certificate, or that there is none ({alert[1]}); expected one"
            " that is valid now, and is signed by whom the broker trusts (ssl.certificate.* or ssl.keystore.location)"
        )
    if "certificate verify failed" in said:
        # It does not say which of the three, and advises to look at the last.
        return (
            f"{place}: the broker's certificate is refused here (certificate verify failed); expected one that is"
            " valid now, is for this host, and is signed by whom this client trusts (ssl.ca.location)"
        )
    return said


NO_SUCH_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


@contextmanager
def kafka_errors(translate: Callable[[KafkaError], Exception]) -> Iterator[None]:
    """Raise what `translate` makes of an error in place of librdkafka's exception."""
    try:
        yield
    except KafkaException as error:
        raise translate(error.args[0]) from error


@contextmanager
def fatal_errors_raised() -> Iterator[None]:
    """Raise `KafkaException` for a producer's fatal error, whatever comes with it.

    The client raises one in place of calling back. Where a report is due in the same call, that is called with an
    exception set, which Python takes for broken: a `SystemError`, of it or of nothing at all.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if not isinstance(cause, KafkaException):
            said = "the client's producer ended without a reason; kshadow doctor tries the rights that it needs"
            cause = KafkaException(KafkaError(KafkaError._FATAL, said))
        raise cause from error


def led_partitions(client: AdminClient | Consumer, topic: str, timeout_s: float) -> int | None:
    """How many partitions a topic has: None if there is no such topic, 0 if not each has a leader yet.

    Raises `KafkaException`.
    """
    # All topics: whoever asks for one by its name may create it.
    found = client.list_topics(timeout=timeout_s).topics.get(topic)
    if found is None:
        return None
    if found.error is not None:
        raise KafkaException(found.error)
    return len(found.partitions) if all(it.leader >= 0 for it in found.partitions.values()) else 0


class Undelivered(Exception):
    """Records that were handed over were not written; what was still waiting is dropped.

    `error` and `partition` are of the first of the `failed`, of `count` that were handed over.
    """

    def __init__(self, error: KafkaError, partition: int, failed: int, count: int) -> None:
        super().__init__(error.str())
        self.error, self.partition, self.failed, self.count = error, partition, failed, count


class RecordProducer:
    """Hands records to a producer of one topic, and waits until they are delivered."""

    def __init__(self, topic: str, conf: Mapping[str, Any], *, logger: logging.Logger | None = None) -> None:
        """`conf`: librdkafka properties; `message.timeout.ms` bounds every wait. Raises `KafkaException`."""
        reports = {"on_delivery": self._report, "delivery.report.only.error": True}
        self._topic, self._producer = topic, new_producer({**conf, **reports}, logger=logger)
        self.count = self._failed = 0
        self._first: tuple[KafkaError, Message] | None = None

    def produce(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int = 0) -> None:
        """Hand one over, 0 for the time of now. Raises `KafkaException` for a record that cannot be sent at all,
        `Undelivered` if one before it was not written."""
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, timestamp=timestamp_ms)
                self.count += 1
                return
            except BufferError:  # the broker takes them more slowly than they come
                self.check(0.1)

    def check(self, timeout_s: float = 0.0) -> None:
        """Take reports for that long. Raises `Undelivered`, and `KafkaException` for what ends the producer."""
        with fatal_errors_raised():
            self._producer.poll(timeout_s)
        if self._first is not None:
            self.drop()
            error, message = self._first
            raise Undelivered(error, message.partition() or 0, self._failed, self.count)

    def flush(self, timeout_s: float = math.inf) -> bool:
        """Wait until all are written; False if some are still waiting after that long. Raises as `check` does."""
        deadline = time.monotonic() + timeout_s
        while (waiting := self._flush(0.5)) and time.monotonic() < deadline:
            self.check()
        self.check()
        return not waiting

    def _flush(self, timeout_s: float) -> int:
        with fatal_errors_raised():
            return self._producer.flush(timeout_s)

    def drop(self) -> None:
        """Give up what is still waiting."""
        self._producer.purge()
        with suppress(KafkaException):  # whatever ended it, nothing is waited for any more
            self._flush(1.0)

    def close(self) -> None:
        """Give up what is still waiting, and let go of the connections: reports hold the producer, so that else only
        the collector of cycles ends it."""
        self.drop()
        with suppress(KafkaException), fatal_errors_raised():
            self._producer.close()

    def _report(self, error: KafkaError | None, message: Message) -> None:
        # Calls nothing: see `fatal_errors_raised`.
        if error is not None:
            self._failed += 1
            self._first = self._first or (error, message)
