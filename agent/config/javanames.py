"""Names of client properties: Java's, librdkafka's, and which of them matter for reaching a cluster."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAME = _names(
    """
    client.dns.lookup client.id client.rack connections.max.idle.ms metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy reconnect.backoff.max.ms
    reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms sasl.mechanism sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url security.protocol socket.connection.setup.timeout.ms ssl.key.password
    """
)
"""What has the same name and meaning in both."""
OTHER = {
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""What has another name in librdkafka."""
ITS_OWN = _names(
    """
    broker.address.family debug enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification
    https.ca.location https.ca.pem log_level sasl.mechanisms sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.method
    sasl.password sasl.username socket.keepalive.enable socket.timeout.ms ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.crl.location ssl.curves.list ssl.key.location ssl.key.pem
    ssl.sigalgs.list
    """
)
"""Properties of librdkafka that Java has not: files of that kind are taken too."""
NAMED = _names(
    """
    config.providers sasl.client.callback.handler.class sasl.jaas.config sasl.login.callback.handler.class
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.keystore.certificate.chain
    ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """
)
"""What is looked at more closely."""
IDLE = _names(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    bootstrap.controllers bootstrap.servers buffer.memory check.crcs compression.type default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics
    fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
    key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records max.request.size metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy partitioner.class retries
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
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
KNOWN = SAME | OTHER.keys() | ITS_OWN | NAMED | IDLE
"""All of them."""
