"""What Java's clients are configured with: files of properties, JAAS logins, and the names of properties. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ENCODING = "latin-1"
"""Of files of properties: Java's tools read them as bytes; other letters are `\\uXXXX`."""


def parse_properties(text: str) -> dict[str, str]:
    """The names and values of a file, as `java.util.Properties` reads them; of two equal names the last.

    Raises `ValueError` with the line of a `\\u` that lacks four digits.
    """
    from javaproperties import InvalidUEscapeError, KeyValue, parse

    out: dict[str, str] = {}
    line = 1
    try:
        for element in parse(text):
            if isinstance(element, KeyValue):
                out[element.key] = element.value
            line += len(_LINE_ENDS.findall(element.source))
    except InvalidUEscapeError:
        raise ValueError(f"line {line}: expected four hexadecimal digits after \\u") from None
    return out


_LINE_ENDS = re.compile(r"\r\n|\r|\n")

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/ | "(?P<double>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)' """
    r"""| (?P<mark>[=;]) | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_KNOWN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_EXPECTED = 'expected a login module, required, and NAME="VALUE" options up to a ;'


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """A module's class, and its options, which hold secrets."""

    module: str
    options: dict[str, str] = field(repr=False)

    @property
    def class_name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> JaasLogin:
    """The one entry. Raises `ValueError`, which quotes nothing of it."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != (";", True) or tokens[1][0].lower() not in _FLAGS:
        raise ValueError(f"sasl.jaas.config: {_EXPECTED}")
    module, options = tokens[0][0], tokens[2:-1]
    if len(options) % 3 or any(mark != ("=", True) for mark in options[1::3]):
        raise ValueError(f"sasl.jaas.config: {_EXPECTED}; a value with blanks or marks stands in quotes")
    names, values = options[::3], options[2::3]
    if any(is_mark for _, is_mark in (*names, *values)):
        raise ValueError(f"sasl.jaas.config: {_EXPECTED}")
    return JaasLogin(module, {name: value for (name, _), (value, _) in zip(names, values, strict=True)})


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each with whether it is a mark."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError("sasl.jaas.config: a quote is not closed")
        at = found.end()
        quoted = found["double"] if found["double"] is not None else found["single"]
        if quoted is not None:
            yield _ESCAPE.sub(_escaped, quoted), False
        elif found["mark"] or found["word"]:
            yield found[0], bool(found["mark"])


def _escaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _KNOWN.get(escape, escape)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAME_NAME = _names(
    """
    client.dns.lookup client.id client.rack connections.max.idle.ms metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy reconnect.backoff.max.ms
    reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms sasl.mechanism sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url security.protocol socket.connection.setup.timeout.ms ssl.key.password
    """
)
"""What has the same name and meaning in both."""
RENAMED = {
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""What has another name in librdkafka."""
LIBRDKAFKA_ONLY = _names(
    """
    broker.address.family debug enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
    https.ca.location https.ca.pem log_level sasl.mechanisms sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.password sasl.username
    socket.keepalive.enable socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.crl.location ssl.curves.list ssl.key.location ssl.key.pem ssl.sigalgs.list
    """
)
"""Properties of librdkafka that Java has not: files of that kind are taken too."""
KERBEROS = _names(
    """
    sasl.kerberos.keytab sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal
    sasl.kerberos.service.name
    """
)
"""Of Kerberos: some of the same name in both, some librdkafka's own. Passed on for that mechanism alone."""
TRANSLATED = _names(
    """
    config.providers sasl.client.callback.handler.class sasl.jaas.config sasl.login.callback.handler.class
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """
)
"""What is looked at more closely."""
IGNORED = _names(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    bootstrap.controllers bootstrap.servers buffer.memory check.crcs compression.type default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics
    fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
    key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records max.request.size metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy partitioner.class retries
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name security.providers session.timeout.ms
    socket.connection.setup.timeout.max.ms ssl.cipher.suites ssl.enabled.protocols ssl.keymanager.algorithm
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm transaction.timeout.ms
    transactional.id value.deserializer value.serializer
    """
)
"""Properties of Java's clients that say nothing of how a cluster is reached, or that librdkafka decides itself."""
KNOWN = SAME_NAME | RENAMED.keys() | LIBRDKAFKA_ONLY | KERBEROS | TRANSLATED | IGNORED
"""All of them."""
