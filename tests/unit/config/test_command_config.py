"""Java's client properties, read and translated."""

from __future__ import annotations

import pytest

from agent.config.command_config import CommandConfig, translate
from agent.config.java_properties import parse_jaas, parse_properties

# 1-17: as java.util.Properties reads them (held against Java itself with random texts).
LINES = [
    ("a=b", {"a": "b"}),  # 1
    ("a:b\nc d\n e\t=\t f ", {"a": "b", "c": "d", "e": "f "}),  # 2: three separators; blanks at the end stay
    ("# c\n ! c\n\n\t\n", {}),  # 3: comments, blank lines
    ("a=b\\\n   c\\\r\n\td", {"a": "bcd"}),  # 4: continued
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),  # 5: an even number of backslashes continues nothing
    ("a=b\\\n# no comment", {"a": "b# no comment"}),  # 6
    ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),  # 7: an empty line ends it
    ("a\\ b\\:c\\=d = e=f:g", {"a b:c=d": "e=f:g"}),  # 8: escaped in the key
    ("a=\\u00e4\\t\\n\\q", {"a": "ä\t\nq"}),  # 9: a backslash before another letter says nothing
    ("a=\\ud83d\\ude00", {"a": "😀"}),  # 10: two halves
    ("a", {"a": ""}),  # 11
    ("a =", {"a": ""}),  # 12
    ("a==b", {"a": "=b"}),  # 13
    ("a = : b", {"a": ": b"}),  # 14: one separator
    ("a=1\ra=2", {"a": "2"}),  # 15: the last of two; a line may end as on old Macs
    ("\fa\f=b", {"a": "b"}),  # 16
    ("=b", {"": "b"}),  # 17
]


@pytest.mark.parametrize(("text", "expected"), LINES)
def test_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_escape() -> None:
    with pytest.raises(ValueError, match="line 2: expected four hexadecimal digits"):
        parse_properties("a=b\nc=\\u12g4")


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


def test_jaas() -> None:
    login = parse_jaas(f'{PLAIN} username="a\\"b;\\\\" // who\n password=\'c d\' x=y-1 /* = */ ;')
    assert (login.class_name, login.options) == (
        "PlainLoginModule",
        {"username": 'a"b;\\', "password": "c d", "x": "y-1"},
    )
    assert "c d" not in repr(login)


@pytest.mark.parametrize(
    "text", ["", "a", "a required", f"{PLAIN} a;", f"{PLAIN} a=;", f'{PLAIN} a="b', f"{PLAIN} a b c;"]
)
def test_what_is_no_jaas(text: str) -> None:
    with pytest.raises(ValueError, match=r"sasl\.jaas\.config"):
        parse_jaas(text)


FILES = {
    "/s.jks": b"\xfe\xed\xfe\xed\0",
    "/s.p12": b"\x30\x82",
    "/s.pem": b"Bag\n-----BEGIN CERTIFICATE-----\n",
}


def translated(text: str) -> CommandConfig:
    return translate("client.properties", parse_properties(text), lambda path: FILES.get(path, b""))


SASL = "security.protocol=SASL_SSL\nsasl.mechanism="
SASL_OUT = {"security.protocol": "SASL_SSL"}
KERBEROS_OUT = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}

# 1-22: what becomes of it.
GOOD = [
    (
        "client.id=x\nrequest.timeout.ms=5\nreceive.buffer.bytes=-1",
        {"client.id": "x", "socket.timeout.ms": "5", "socket.receive.buffer.bytes": "0"},
    ),  # 1
    (
        f'{SASL}PLAIN\nsasl.jaas.config={PLAIN} username="u" password="p";',
        SASL_OUT | {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
    ),  # 2
    (
        f'{SASL}SCRAM-SHA-512\nsasl.jaas.config={SCRAM} \\\n username="u" \\\n password="p";',
        SASL_OUT | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
    ),  # 3
    (
        f'{SASL}OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://t\nsasl.jaas.config={OAUTH} clientId="i" '
        'clientSecret="s" scope="o" extension_logicalCluster="l";\n'
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        SASL_OUT
        | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://t",
            "sasl.oauthbearer.client.id": "i",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "o",
            "sasl.oauthbearer.extensions": "logicalCluster=l",
        },
    ),  # 4
    (
        f"{SASL}OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://t\nsasl.oauthbearer.client.credentials.client.id=i\nsasl.oauthbearer.client.credentials.client.secret=s",
        SASL_OUT
        | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://t",
            "sasl.oauthbearer.client.id": "i",
            "sasl.oauthbearer.client.secret": "s",
        },
    ),  # 5: by Kafka 4.1's own names
    (
        f'{SASL}OAUTHBEARER\nsasl.jaas.config={OAUTH} unsecuredLoginStringClaim_sub="a";',
        SASL_OUT
        | {
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=a",
        },
    ),  # 6
    ("ssl.truststore.location=/s.pem\nssl.truststore.type=PEM", {"ssl.ca.location": "/s.pem"}),  # 7
    (
        "ssl.truststore.location=/new.pem\nssl.truststore.type=pem",
        {"ssl.ca.location": "/new.pem"},
    ),  # 8: not there yet
    (
        "ssl.keystore.location=/s.p12\nssl.keystore.password=p\nssl.key.password=p",
        {"ssl.keystore.location": "/s.p12", "ssl.keystore.password": "p"},
    ),  # 9: no type said
    (
        "ssl.keystore.location=/s.pem\nssl.key.password=p",
        {"ssl.key.password": "p", "ssl.certificate.location": "/s.pem", "ssl.key.location": "/s.pem"},
    ),  # 10
    (
        "ssl.truststore.certificates=-----BEGIN CERTIFICATE----- QUJD REVG -----END CERTIFICATE-----",
        {"ssl.ca.pem": "-----BEGIN CERTIFICATE-----\nQUJDREVG\n-----END CERTIFICATE-----\n"},
    ),  # 11
    ("ssl.endpoint.identification.algorithm=", {"ssl.endpoint.identification.algorithm": "none"}),  # 12
    ("ssl.endpoint.identification.algorithm=HTTPS", {"ssl.endpoint.identification.algorithm": "https"}),  # 13
    (
        "sasl.username=u\nssl.ca.location=/x\ngroup.id=g\nbootstrap.servers=b",
        {"sasl.username": "u", "ssl.ca.location": "/x"},
    ),  # 14: librdkafka's own
    (
        f"{SASL}PLAIN\nsasl.username=u\nsasl.password=p",
        SASL_OUT | {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
    ),  # 15
    (
        f"{SASL}AWS_MSK_IAM\nsasl.jaas.config={IAM};\n"
        "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        SASL_OUT | {"sasl.mechanism": "AWS_MSK_IAM"},
    ),  # 16: as MSK's documentation has it
    (
        f'{SASL}AWS_MSK_IAM\nsasl.jaas.config={IAM} awsProfileName="my profile" awsRoleArn="arn:aws:iam::1:role/r" '
        'awsRoleSessionName="s" awsRoleExternalId="x" awsStsRegion="eu-west-1" awsMaxRetries="3" awsDebugCreds=true;',
        SASL_OUT
        | {
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.oauthbearer.config": "profile='my profile' role_arn=arn:aws:iam::1:role/r role_session_name=s "
            "external_id=x sts_region=eu-west-1",
        },
    ),  # 17
    (
        f"{SASL}OAUTHBEARER\nsasl.jaas.config={OAUTH} awsProfileName=p;\n"
        "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
        SASL_OUT | {"sasl.mechanism": "AWS_MSK_IAM", "sasl.oauthbearer.config": "profile=p"},
    ),  # 18: the same login, as the newer of Amazon's handlers has it
    (
        f"{SASL}OAUTHBEARER\nsasl.jaas.config={OAUTH};\n"
        "sasl.login.callback.handler.class=com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler",
        SASL_OUT | {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "google"},
    ),  # 19: as Google's documentation has it
    (
        f"{SASL}OAUTHBEARER\nsasl.oauthbearer.method=oidc\n"
        "sasl.oauthbearer.metadata.authentication.type=azure_imds\n"
        "sasl.oauthbearer.config=query=api-version=2025-04-01&resource=https://ns.servicebus.windows.net",
        SASL_OUT
        | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "sasl.oauthbearer.config": "query=api-version=2025-04-01&resource=https://ns.servicebus.windows.net",
        },
    ),  # 20: Azure's managed identity, which librdkafka does itself
    (
        f"{SASL}GSSAPI\nsasl.kerberos.service.name=broker\nsasl.jaas.config={KRB5} useKeyTab=true "
        'keyTab="/k.keytab" principal="me@REALM";',
        SASL_OUT
        | {
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.keytab": "/k.keytab",
            "sasl.kerberos.principal": "me@REALM",
            "sasl.kerberos.service.name": "broker",
        },
    ),  # 21
    ("security.protocol=SASL_SSL", {"security.protocol": "SASL_SSL", **KERBEROS_OUT}),  # 22: Java's default
]


@pytest.mark.parametrize(("text", "expected"), GOOD)
def test_translated(text: str, expected: dict[str, str]) -> None:
    made = translated(text)
    assert (dict(made.properties), made.problems, made.warnings) == (expected, (), ())


# 1-13: what librdkafka cannot do, with what to do, and what mends it.
BAD = [
    ("ssl.truststore.location=/s.jks", "keytool -list -rfc -keystore /s.jks > ca.pem", "ssl.ca.location"),  # 1
    (
        "ssl.truststore.location=/s.p12\nssl.truststore.type=PKCS12",
        "openssl pkcs12 -in /s.p12 -nokeys",
        "ssl.ca.pem",
    ),  # 2
    ("ssl.truststore.location=/nowhere", "/nowhere is JKS", "ssl.ca.location"),  # 3: Java's default
    ("ssl.keystore.location=/s.jks", "keytool -importkeystore -srckeystore /s.jks", "ssl.keystore.location"),  # 4
    (f"{SASL}NTLM", "AWS_MSK_IAM or GSSAPI", "sasl.mechanism"),  # 5
    (f"{SASL}AWS_MSK_IAM\nsasl.jaas.config={IAM} a", "a login module", "sasl.oauthbearer.config"),  # 6
    (f"{SASL}GSSAPI\nsasl.jaas.config={KRB5} keyTab=", "a login module", "sasl.username"),  # 7
    (f"{SASL}PLAIN", "java.security.auth.login.config is not read", "sasl.username"),  # 8
    (
        f'{SASL}PLAIN\nsasl.jaas.config={SCRAM} username="u" password="hunter2";',
        "expected PlainLoginModule",
        "sasl.username",
    ),  # 9
    (f'{SASL}PLAIN\nsasl.jaas.config={PLAIN} password="hunter2";', "expected username", "sasl.username"),  # 10
    (f'{SASL}PLAIN\nsasl.jaas.config={PLAIN} password="hunter2', "a quote is not closed", "sasl.username"),  # 11
    (
        f'{SASL}SCRAM-SHA-256\nsasl.jaas.config={SCRAM} username="u" password="p" tokenauth="true";',
        "delegation tokens",
        "sasl.password",
    ),  # 12
    (
        f"{SASL}OAUTHBEARER\nsasl.login.callback.handler.class=io.x.Y",
        "a class of Java",
        "sasl.oauthbearer.method",
    ),  # 13
    ("config.providers=file", "only Java has those", ""),  # 14
]


@pytest.mark.parametrize(("text", "said", "mended_by"), BAD)
def test_problems(text: str, said: str, mended_by: str) -> None:
    made = translated(text)
    (problem,) = made.unsolved_problems([])
    assert problem.startswith("client.properties: ")
    assert said in problem
    assert "hunter2" not in problem
    assert made.unsolved_problems([mended_by]) == ([] if mended_by else [problem])


def test_names_that_nobody_knows() -> None:
    made = translated("secruity.protocol=PLAIN\nwhatever=hunter2\n")
    assert made.warnings == (
        "client.properties: unknown property 'secruity.protocol' is left out; did you mean 'security.protocol'?",
        "client.properties: unknown property 'whatever' is left out",
    )


def test_what_is_given_beside_wins() -> None:
    made = translated(
        "client.id=a\nssl.truststore.location=/s.pem\nssl.keystore.location=/s.p12\nssl.keystore.password=p"
    )
    assert made.merged_with({"client.id": "b", "ssl.ca.pem": "x", "ssl.certificate.pem": "y"}) == {
        "client.id": "b",
        "ssl.ca.pem": "x",
        "ssl.certificate.pem": "y",
    }
    assert "'p'" not in repr(made)
