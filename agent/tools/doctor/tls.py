"""librdkafka's TLS properties as Python's `ssl` understands them, and what a server's certificate says.

Python's `ssl` tells why a certificate is refused; librdkafka says little more than that it is.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

_NO_CHECK_TIME = 0x200000  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for

# OpenSSL's X509_V_ERR_…
NOT_YET_VALID, EXPIRED, HOST_MISMATCH, ADDRESS_MISMATCH = 9, 10, 62, 64
UNKNOWN_AUTHORITY = frozenset({2, 7, 18, 19, 20, 21})


class TlsMisconfigured(Exception):
    """Properties that name files which are not there, or hold something else."""


class Certificate(Struct, frozen=True):
    """A server's certificate: whom it is for, who signed it, when it is good, and for which names and addresses."""

    subject: str
    issuer: str
    begins: datetime
    ends: datetime
    hosts: tuple[str, ...]


def verifying_context(conf: Mapping[str, str]) -> ssl.SSLContext:
    """A context that checks as the properties say. Raises `TlsMisconfigured`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = conf.get("ssl.endpoint.identification.algorithm", "https") == "https"
    if conf.get("enable.ssl.certificate.verification", "true") != "true":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    location, pem = conf.get("ssl.ca.location"), conf.get("ssl.ca.pem")
    try:
        if pem:
            context.load_verify_locations(cadata=pem)
        elif location and location != "probe":
            of_directory = os.path.isdir(location)
            context.load_verify_locations(None if of_directory else location, location if of_directory else None)
        else:
            context.load_default_certs()
    except (OSError, ssl.SSLError) as error:
        raise TlsMisconfigured(f"ssl.ca.location={location or '(ssl.ca.pem)'}: {_reason(error)}") from error
    _show_certificate(context, conf)
    return context


def unverified_context(conf: Mapping[str, str]) -> ssl.SSLContext:
    """A context that takes whatever certificate comes, to look at it."""
    return verifying_context({**conf, "enable.ssl.certificate.verification": "false"})


def _show_certificate(context: ssl.SSLContext, conf: Mapping[str, str]) -> None:
    """Our own certificate, if the properties name one. Not from a PKCS#12 keystore, which `ssl` cannot read."""
    certificate = conf.get("ssl.certificate.location") or conf.get("ssl.certificate.pem")
    key = conf.get("ssl.key.location") or conf.get("ssl.key.pem")
    if not certificate or not key:
        return
    with tempfile.TemporaryDirectory() as directory:
        files = _file(certificate, Path(directory, "certificate")), _file(key, Path(directory, "key"))
        try:
            # An empty password fails where one is needed; without any OpenSSL would ask on the terminal.
            context.load_cert_chain(files[0], files[1], conf.get("ssl.key.password", ""))
        except (OSError, ssl.SSLError) as error:
            names = "ssl.certificate.location and ssl.key.location"
            raise TlsMisconfigured(f"{names}: {_reason(error)}") from error


def _file(text: str, spare: Path) -> Path:
    if "-----BEGIN" not in text:
        return Path(text)
    spare.touch(mode=0o600)
    spare.write_text(text)
    return spare


def _reason(error: OSError) -> str:
    return str(error.strerror or error)


def peer_certificate(der: bytes, connection: socket.socket) -> Certificate | None:
    """What the certificate `der` says, by a handshake on a new connection that trusts it alone; None if it cannot be
    read so. Closes the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=der)
    context.verify_flags |= ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    try:
        with connection, context.wrap_socket(connection) as stream:
            return _certificate(stream.getpeercert())
    except OSError:
        return None


def _certificate(form: Any) -> Certificate:
    return Certificate(
        subject=_name(form.get("subject", ())),
        issuer=_name(form.get("issuer", ())),
        begins=_time(form["notBefore"]),
        ends=_time(form["notAfter"]),
        hosts=tuple(value for kind, value in form.get("subjectAltName", ()) if kind in ("DNS", "IP Address")),
    )


def _name(parts: Any) -> str:
    """The common name, or all there is."""
    named = [pair for part in parts for pair in part]
    common = [value for name, value in named if name == "commonName"]
    return common[0] if common else ", ".join(f"{name}={value}" for name, value in named) or "nobody"


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
