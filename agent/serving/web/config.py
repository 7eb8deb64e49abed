"""The file of `--web-config`: TLS, users and headers, in the format of Prometheus' exporter-toolkit.

Source: exporter-toolkit, docs/web-configuration.md. What it has and kshadow has not is refused, never passed over:
who sets something for its security must not find out later that it did nothing.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from agent.kafka.source.errors import SourceMisconfigured

T = TypeVar("T")


class WebConfigError(SourceMisconfigured):
    """The file, or one that it names, is not as it must be: the message says what, and what is expected."""


class TlsConfig(Struct, frozen=True):
    """`tls_server_config`. Paths are absolute, or relative to the working directory."""

    cert_file: Path
    key_file: Path
    verify: ssl.VerifyMode = ssl.CERT_NONE
    client_ca_file: Path | None = None
    client_allowed_sans: frozenset[str] = frozenset()
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: tuple[str, ...] = ()
    """OpenSSL's names, for TLS 1.2; none is OpenSSL's choice."""
    prefer_server_ciphers: bool = True

    @property
    def files(self) -> list[Path]:
        """What is read besides the file itself."""
        return [it for it in (self.cert_file, self.key_file, self.client_ca_file) if it is not None]


class WebConfig(Struct, frozen=True):
    """The whole file."""

    tls: TlsConfig | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Set on each answer."""
    users: Mapping[str, bytes] = field(default_factory=dict)
    """bcrypt hashes; where there are none, nobody needs a password."""


VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

VERIFY = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")

CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
"""Go's names, which the format uses, and OpenSSL's: those of TLS 1.2 that Go takes for secure."""

HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that can be set, and their values where there are few."""

MAX_BCRYPT_COST = 20
"""Of a bcrypt hash. One step takes twice as long as the one below; at 20 it is about a minute."""
_HASH = re.compile(rb"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
"""22 letters of salt, the last of which has two bits, and 31 of the hash. By another salt nothing can be checked."""

_UNSUPPORTED = {
    "tls_server_config.cert": "certificates are read from files: use cert_file",
    "tls_server_config.key": "keys are read from files: use key_file",
    "tls_server_config.client_ca": "certificates are read from files: use client_ca_file",
    "tls_server_config.curve_preferences": "the curves are OpenSSL's choice",
    "rate_limit": "kshadow bounds connections and what it answers at a time by itself",
}
"""What the toolkit knows and kshadow does not do."""


def parse(text: str, directory: Path) -> WebConfig:
    """The file's text; paths in it are relative to its `directory`. Raises `WebConfigError`."""
    import yaml  # most agents have no such file, and one that starts is waited for

    from agent.common.bounded_yaml import BoundedLoader, yaml_problem

    try:
        form = yaml.load(text, BoundedLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise WebConfigError(yaml_problem(error)) from None
    known = ("tls_server_config", "http_server_config", "basic_auth_users")
    top = _settings("", {} if form is None else form, known)
    return WebConfig(
        tls=_tls(top.get("tls_server_config"), directory),
        headers=_headers(top.get("http_server_config")),
        users=_users(top.get("basic_auth_users")),
    )


def _settings(section: str, form: Any, known: Collection[str]) -> dict[str, Any]:
    """A section's settings, without those that are given as nothing."""
    where = f"{section}." if section else ""
    if not isinstance(form, dict):
        raise WebConfigError(f"{section or 'the file'}: expected settings by name, got {_type_name(form)}")
    for key in form:
        if f"{where}{key}" in _UNSUPPORTED:
            raise WebConfigError(f"{where}{key}: kshadow does not have it: {_UNSUPPORTED[f'{where}{key}']}")
        if key not in known:
            raise WebConfigError(f"{where}{key}: unknown; known are {', '.join(known)}")
    return {key: value for key, value in form.items() if value is not None}


def _type_name(value: Any) -> str:
    """What came, without its content: it may be a secret."""
    return "nothing" if value is None else f"a {type(value).__name__}"


TLS = (
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
)


def _tls(form: Any, directory: Path) -> TlsConfig | None:
    if form is None:
        return None
    settings = _settings("tls_server_config", form, TLS)
    if not settings:
        return None
    for name in ("cert_file", "key_file"):
        if name not in settings:
            raise WebConfigError(f"tls_server_config.{name}: missing")
    verify = _verify(_text(settings, "client_auth_type", "NoClientCert"))
    if (verify is ssl.CERT_NONE) == ("client_ca_file" in settings):
        raise WebConfigError(
            "tls_server_config: client_ca_file goes with client_auth_type VerifyClientCertIfGiven or"
            " RequireAndVerifyClientCert, and these with it"
        )
    sans = frozenset(_texts(settings, "client_allowed_sans"))
    if sans and verify is ssl.CERT_NONE:
        raise WebConfigError("tls_server_config.client_allowed_sans: needs a client_auth_type that verifies")
    lowest, highest = (
        _version(settings, name, it) for name, it in (("min_version", "TLS12"), ("max_version", "TLS13"))
    )
    if lowest > highest:
        raise WebConfigError("tls_server_config: min_version is above max_version")
    prefer = settings.get("prefer_server_cipher_suites", True)
    if not isinstance(prefer, bool):
        raise WebConfigError("tls_server_config.prefer_server_cipher_suites: expected true or false")
    return TlsConfig(
        cert_file=directory / _text(settings, "cert_file"),
        key_file=directory / _text(settings, "key_file"),
        verify=verify,
        client_ca_file=directory / _text(settings, "client_ca_file") if "client_ca_file" in settings else None,
        client_allowed_sans=sans,
        min_version=lowest,
        max_version=highest,
        ciphers=tuple(map(_cipher, _texts(settings, "cipher_suites"))),
        prefer_server_ciphers=prefer,
    )


def _text(settings: Mapping[str, Any], name: str, default: str = "") -> str:
    value = settings.get(name, default)
    if not isinstance(value, str) or not value or "\0" in value:
        raise WebConfigError(f"tls_server_config.{name}: expected a text, got {_type_name(value)}")
    return value


def _texts(settings: Mapping[str, Any], name: str) -> list[str]:
    value = settings.get(name, [])
    if not isinstance(value, list) or not all(isinstance(it, str) for it in value):
        raise WebConfigError(f"tls_server_config.{name}: expected a list of texts")
    return value


def _verify(name: str) -> ssl.VerifyMode:
    if name in _UNVERIFIED:
        raise WebConfigError(
            f"tls_server_config.client_auth_type: kshadow does not have {name}, which takes certificates that nobody"
            f" verified; it has {', '.join(VERIFY)}"
        )
    return _known("client_auth_type", name, VERIFY)


def _known(key: str, name: str, table: Mapping[str, T]) -> T:
    if name not in table:
        raise WebConfigError(f"tls_server_config.{key}: {name!r} is unknown; known are {', '.join(table)}")
    return table[name]


def _version(settings: Mapping[str, Any], key: str, default: str) -> ssl.TLSVersion:
    name = _text(settings, key, default)
    if name not in VERSIONS:
        raise WebConfigError(f"tls_server_config.{key}: expected {' or '.join(VERSIONS)}, got {name!r}")
    return VERSIONS[name]


def _cipher(name: str) -> str:
    if name in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"):
        raise WebConfigError(
            f"tls_server_config.cipher_suites: {name} is one of TLS 1.3, whose suites are not chosen: leave it out"
        )
    return _known("cipher_suites", name, CIPHERS)


def _headers(form: Any) -> dict[str, str]:
    if form is None:
        return {}
    settings = _settings("http_server_config", form, ("headers", "http2"))
    if settings.get("http2", False) is not False:
        raise WebConfigError("http_server_config.http2: kshadow speaks HTTP/1.1 only: false, or leave it out")
    headers = _settings("http_server_config.headers", settings.get("headers", {}), HEADERS)
    for name, value in headers.items():
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise WebConfigError(f"http_server_config.headers.{name}: expected a text of ASCII")
        if HEADERS[name] and value not in HEADERS[name]:
            raise WebConfigError(f"http_server_config.headers.{name}: expected {' or '.join(HEADERS[name])}")
    # The toolkit's way to leave one out.
    return {name: value for name, value in headers.items() if value}


def _users(form: Any) -> dict[str, bytes]:
    if form is None:
        return {}
    if not isinstance(form, dict) or not all(isinstance(name, str) and name for name in form):
        raise WebConfigError("basic_auth_users: expected hashes by name")
    return {name: _hash(name, value) for name, value in form.items()}


def _hash(name: str, value: Any) -> bytes:
    said = value.encode() if isinstance(value, str) else b""
    match = _HASH.fullmatch(said)
    if ":" in name or match is None:
        raise WebConfigError(
            f"basic_auth_users: {name!r}: expected a name without colon, and a bcrypt hash, as"
            ' `htpasswd -nBC 10 ""` prints after the colon'
        )
    if not 4 <= int(match[1]) <= MAX_BCRYPT_COST:
        raise WebConfigError(f"basic_auth_users: {name!r}: expected a cost from 4 to {MAX_BCRYPT_COST}")
    return said
