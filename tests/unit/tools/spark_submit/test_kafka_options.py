"""librdkafka's properties in Java's words."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent.tools.spark_submit.jobs import SECRETS, Kafka
from spark_jobs.errors import JobError, Unreachable
from spark_jobs.kafka import SourceOptions, assigned, options_of, readable

BASE = {"bootstrap.servers": "b:9092"}
SCRAM = {
    **BASE,
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "u",
    "sasl.password": "p",
}
KEY, OLD_KEY = "-----BEGIN PRIVATE KEY-----\nx", "-----BEGIN RSA PRIVATE KEY-----\nx"


def mapped(**properties: str) -> dict[str, str]:
    return options_of({**BASE, **{name.replace("_", "."): it for name, it in properties.items()}}, str.upper).options


def test_the_least() -> None:
    assert options_of(BASE, str) == SourceOptions(
        {
            "kafka.isolation.level": "read_committed",
            "kafka.bootstrap.servers": "b:9092",
            "kafka.security.protocol": "PLAINTEXT",
        },
        (),
    )


def test_names_that_differ_and_names_that_do_not() -> None:
    options = mapped(
        client_id="c", isolation_level="read_uncommitted", fetch_wait_max_ms="7", reconnect_backoff_ms="8"
    )
    assert options["kafka.client.id"] == "c"
    assert options["kafka.isolation.level"] == "read_uncommitted"
    assert options["kafka.fetch.max.wait.ms"] == "7"
    assert options["kafka.reconnect.backoff.ms"] == "8"
    assert options_of({"metadata.broker.list": "x:1"}, str).options["kafka.bootstrap.servers"] == "x:1"


def test_tuning_is_left_out_with_a_note() -> None:
    names = (
        "queued.max.messages.kbytes",
        "fetch.queue.backoff.ms",
        "log_level",
        "socket.keepalive.enable",
        "group.id",
    )
    names += (
        "statistics.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "enable.auto.commit",
        "auto.offset.reset",
    )
    options, notes = options_of({**BASE, **dict.fromkeys(names, "1")}, str)
    assert options == options_of(BASE, str).options
    assert notes == (f"left out, as of no account to Spark: {', '.join(names)}",)


@pytest.mark.parametrize(
    "name", ["no.such.property", "ssl.cipher.suites", "sasl.kerberos.keytab", "plugin.library.paths"]
)
def test_what_has_no_counterpart(name: str) -> None:
    with pytest.raises(JobError, match=f"property {name}: Spark's Kafka client has no counterpart") as error:
        options_of({**BASE, name: "v4lue"}, str)
    assert "v4lue" not in str(error.value)


def test_no_servers() -> None:
    with pytest.raises(JobError, match=r"bootstrap.servers: expected host:port\[,host:port…\], got nothing"):
        options_of({}, str)


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login(mechanism: str, module: str, name: str) -> None:
    properties = {**SCRAM, "sasl.password": 'a"b\\c;= ü\n'}
    del properties["sasl.mechanism"]
    options = options_of({**properties, name: mechanism}, str).options
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == mechanism
    assert options["kafka.sasl.jaas.config"] == rf'{module} required username="u" password="a\"b\\c;= ü\n";'
    assert not {"kafka.sasl.username", "kafka.sasl.password"} & options.keys()


def test_a_login_that_lacks_something() -> None:
    without = {name: it for name, it in SCRAM.items() if name != "sasl.password"}
    with pytest.raises(JobError, match=f"sasl.password: needed for SCRAM-SHA-512, .*, nor in {SECRETS}"):
        options_of(without, str)
    for mechanism in ("GSSAPI", "OAUTHBEARER"):
        with pytest.raises(JobError, match=f"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 for Spark, got {mechanism}"):
            options_of({**SCRAM, "sasl.mechanism": mechanism}, str)


def test_trust() -> None:
    assert "kafka.ssl.truststore.type" not in mapped(security_protocol="ssl")
    options = mapped(security_protocol="ssl", ssl_ca_location="ca.pem")
    assert options["kafka.ssl.truststore.type"] == "PEM"
    assert options["kafka.ssl.truststore.certificates"] == "CA.PEM", "as it was read"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == "https"
    options = mapped(security_protocol="SSL", ssl_ca_pem="text", ssl_endpoint_identification_algorithm="none")
    assert options["kafka.ssl.truststore.certificates"] == "text"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    with pytest.raises(JobError, match=r"enable.ssl.certificate.verification: Java always verifies"):
        mapped(security_protocol="SSL", enable_ssl_certificate_verification="false")
    assert not [it for it in mapped(ssl_ca_location="ca.pem") if ".ssl." in it], "without TLS it is of no account"


def test_a_certificate_of_ones_own() -> None:
    texts = {"cert": "C", "key": KEY, "old": OLD_KEY}
    tls = {**BASE, "security.protocol": "SSL"}
    both = {**tls, "ssl.certificate.location": "cert", "ssl.key.location": "key", "ssl.key.password": "p"}
    options = options_of(both, texts.__getitem__).options
    assert {name: it for name, it in options.items() if "key" in name} == {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "C",
        "kafka.ssl.keystore.key": KEY,
        "kafka.ssl.key.password": "p",
    }
    inline = {**tls, "ssl.certificate.pem": "C", "ssl.key.pem": KEY}
    assert options_of(inline, str).options["kafka.ssl.keystore.key"] == KEY
    for absent in ("ssl.certificate", "ssl.key"):
        half = {name: it for name, it in both.items() if not name.startswith(f"{absent}.")}
        with pytest.raises(JobError, match=f"property {absent}.location: a certificate and its key go together"):
            options_of(half, texts.__getitem__)
    with pytest.raises(JobError, match="old: Java reads keys in PKCS#8, another form came: openssl pkcs8 -topk8"):
        options_of({**both, "ssl.key.location": "old"}, texts.__getitem__)


def test_a_key_behind_a_password() -> None:
    """Java 17 makes nothing of PBES2, which openssl and others use by default: seen with Spark."""
    key = ec.generate_private_key(ec.SECP256R1())
    behind = serialization.BestAvailableEncryption(b"p")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, behind).decode()
    tls = {**BASE, "security.protocol": "SSL", "ssl.certificate.pem": "C", "ssl.key.password": "p"}
    with pytest.raises(JobError, match=r"its password is of a kind \(PBES2\) that Kafka's Java client does not take"):
        options_of({**tls, "ssl.key.pem": pem}, str)
    other = pem.splitlines()[0] + "\nAAAA\n" + pem.splitlines()[-1]
    assert options_of({**tls, "ssl.key.pem": other}, str).options["kafka.ssl.keystore.key"] == other


def test_a_keystore() -> None:
    options = mapped(security_protocol="SSL", ssl_keystore_location="/k.p12", ssl_keystore_password="p")
    assert options["kafka.ssl.keystore.type"] == "PKCS12"
    assert options["kafka.ssl.keystore.location"] == "/k.p12"
    assert options["kafka.ssl.keystore.password"] == "p"
    assert "kafka.ssl.keystore.password" not in mapped(security_protocol="SSL", ssl_keystore_location="/k.p12")


def test_secrets_come_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Kafka(properties={name: it for name, it in SCRAM.items() if name != "sasl.password"} | {"debug": "all"})
    monkeypatch.setenv(SECRETS, json.dumps({"sasl.password": "s3"}))
    options = readable(kafka)
    assert 'password="s3"' in options["kafka.sasl.jaas.config"]
    assert options["groupIdPrefix"] == "kshadow-spark"
    assert capsys.readouterr().err == "kshadow: left out, as of no account to Spark: debug\n"
    monkeypatch.delenv(SECRETS)
    with pytest.raises(JobError, match=r"sasl\.password: needed"):
        readable(kafka)
    for text in ("s3cret", '["s3cret"]', '{"a":1}'):
        monkeypatch.setenv(SECRETS, text)
        with pytest.raises(JobError, match="expected a JSON object of properties and their texts") as error:
            readable(kafka)
        assert "s3cret" not in str(error.value)


def test_files_that_cannot_be_read() -> None:
    with pytest.raises(JobError, match="/no/such: expected a file in PEM, where the driver runs: No such file"):
        readable(Kafka(properties={**BASE, "security.protocol": "ssl", "ssl.ca.location": "/no/such"}))


def test_partitions_of_nobody() -> None:
    with pytest.raises(Unreachable):
        assigned(Kafka(properties={"bootstrap.servers": "127.0.0.1:1"}), "t", timeout_s=0.2)
    with pytest.raises(JobError, match=r"librdkafka does not take the properties: .*no\.such"):
        assigned(Kafka(properties={**BASE, "no.such": "1"}), "t")
