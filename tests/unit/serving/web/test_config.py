"""The web-config file: what is taken, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from agent.serving.web.config import CIPHERS, TlsConfig, WebConfig, WebConfigError, parse

HERE = Path("/etc/kshadow")
HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
PAIR = "cert_file: a.crt\n  key_file: a.key"


def tls(*lines: str) -> str:
    return "tls_server_config:\n  " + "\n  ".join([PAIR, *lines])


def test_nothing() -> None:
    for text in (
        "",
        "{}",
        "# nothing",
        "tls_server_config:\nbasic_auth_users:\nhttp_server_config:\n",
        "tls_server_config: {}",
    ):
        assert parse(text, HERE) == WebConfig()


def test_everything() -> None:
    text = f"""
tls_server_config:
  cert_file: tls/a.crt
  key_file: /secret/a.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.example, "10.0.0.1"]
  min_version: TLS13
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  prefer_server_cipher_suites: false
http_server_config:
  http2: false
  headers:
    X-Frame-Options: deny
    Strict-Transport-Security: max-age=31536000
    X-XSS-Protection: ""
basic_auth_users:
  alice: {HASH}
"""
    assert parse(text, HERE) == WebConfig(
        tls=TlsConfig(
            cert_file=HERE / "tls/a.crt",
            key_file=Path("/secret/a.key"),
            verify=ssl.CERT_REQUIRED,
            client_ca_file=HERE / "ca.crt",
            client_allowed_sans=frozenset({"prometheus.example", "10.0.0.1"}),
            min_version=ssl.TLSVersion.TLSv1_3,
            max_version=ssl.TLSVersion.TLSv1_3,
            ciphers=("ECDHE-RSA-AES128-GCM-SHA256",),
            prefer_server_ciphers=False,
        ),
        headers={"X-Frame-Options": "deny", "Strict-Transport-Security": "max-age=31536000"},
        users={"alice": HASH.encode()},
    )


def test_openssl_knows_the_ciphers() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in CIPHERS.values():
        context.set_ciphers(name)
        assert name in {it["name"] for it in context.get_ciphers()}


REFUSED = [
    ("tls: 1", "tls: unknown; known are tls_server_config, http_server_config, basic_auth_users"),  # 1
    ("- 1", "the file: expected settings by name, got a list"),  # 2
    ("a: [", "line 1, column 5: expected YAML: "),  # 3
    ("a: " + "[" * 5000, "expected YAML: it is nested too deep"),  # 4
    ("basic_auth_users: {}\nbasic_auth_users: {}", "the key 'basic_auth_users' stands there twice"),  # 5
    ("tls_server_config: x", "tls_server_config: expected settings by name, got a str"),  # 6
    ("tls_server_config: {key_file: a}", "tls_server_config.cert_file: missing"),  # 7
    ("tls_server_config: {cert_file: a}", "tls_server_config.key_file: missing"),  # 8
    (
        "tls_server_config: {cert_file: 5, key_file: a}",
        "cert_file: expected a text, got a int",
    ),  # 9
    (
        tls("certfile: x"),
        "tls_server_config.certfile: unknown; known are cert_file, key_file, client_",
    ),  # 10
    (tls("cert: x"), "tls_server_config.cert: kshadow does not have it: certificates are read from files"),  # 11
    (tls("key: x"), "tls_server_config.key: kshadow does not have it"),  # 12
    (tls("client_ca: x"), "use client_ca_file"),  # 13
    (tls("curve_preferences: [X25519]"), "curve_preferences: kshadow does not have it"),  # 14
    (tls("client_auth_type: RequestClientCert"), "kshadow does not have RequestClientCert, which takes"),  # 15
    (tls("client_auth_type: RequireAnyClientCert"), "does not have RequireAnyClientCert"),  # 16
    (tls("client_auth_type: Maybe"), "'Maybe' is unknown; known are NoClientCert, Verify"),  # 17
    (tls("client_auth_type: RequireAndVerifyClientCert"), "client_ca_file goes with"),  # 18: by which CA?
    (tls("client_ca_file: x"), "client_ca_file goes with"),  # 19: verified by nobody
    (tls("client_allowed_sans: [x]"), "client_allowed_sans: needs a client_auth_type that verifies"),  # 20
    (tls("client_allowed_sans: x"), "client_allowed_sans: expected a list of texts"),  # 21
    (tls("min_version: TLS10"), "min_version: expected TLS12 or TLS13, got 'TLS10'"),  # 22
    (tls("min_version: TLS13", "max_version: TLS12"), "min_version is above max_version"),  # 23
    (tls("cipher_suites: [TLS_AES_128_GCM_SHA256]"), "is one of TLS 1.3, whose suites are not chosen"),  # 24
    (tls("cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]"), "'TLS_RSA_WITH_RC4_128_SHA' is unknown"),  # 25
    (tls("prefer_server_cipher_suites: sure"), "expected true or false"),  # 26
    ("http_server_config: {http2: true}", "http2: kshadow speaks HTTP/1.1 only"),  # 27
    ("http_server_config: {headers: {X-Other: a}}", "http_server_config.headers.X-Other: unknown"),  # 28
    ("http_server_config: {headers: {X-Frame-Options: allow}}", "X-Frame-Options: expected deny or sameorigin"),  # 29
    ('http_server_config: {headers: {X-XSS-Protection: "a\\r\\nb: c"}}', "expected a text of ASCII"),  # 30
    ("rate_limit: {interval: 1s, burst: 20}", "rate_limit: kshadow does not have it: kshadow bounds"),  # 31
    ("basic_auth_users: [alice]", "basic_auth_users: expected hashes by name"),  # 32
    (
        "basic_auth_users: {alice: secret}",
        "basic_auth_users: 'alice': expected a name without colon, and a bcrypt hash",
    ),  # 33
    ("basic_auth_users: {alice: }", "'alice': expected a name without colon"),  # 34
    (f"basic_auth_users: {{'a:b': {HASH}}}", "'a:b': expected a name without colon"),  # 35
    (f"basic_auth_users: {{a: {HASH.replace('10', '31')}}}", "'a': expected a cost from 4 to 20"),  # 36
    (f"basic_auth_users: {{'': {HASH}}}", "expected hashes by name"),  # 37
    (
        f"basic_auth_users: {{a: {HASH[:28]}A{HASH[29:]}}}",
        "'a': expected a name without colon, and a bcrypt hash",
    ),  # 38
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_refused(text: str, said: str) -> None:
    with pytest.raises(WebConfigError) as raised:
        parse(text, HERE)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value), "what is no hash may be a password"
