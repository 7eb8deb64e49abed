"""One address, step by step: its name, the connection, TLS, and what a Kafka broker says before a login.

Each step is a check; the first that fails ends it. Where a broker does not answer as it should, the other protocol is
tried: whether a port wants TLS or not shows best by which of the two it takes.
"""

from __future__ import annotations

import shlex
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from agent.core.wire.errors import WireError
from agent.tools.doctor import handshake, tls
from agent.tools.doctor.checks import Check, CheckOutcome, mechanism, protocol, uses_sasl, uses_tls

_NO_MECHANISM = "NONE"  # a name that no mechanism has: asked for what there is
SOON = timedelta(days=30)
"""A certificate that ends before is worth a warning."""


class Endpoint(Struct):
    """What is known of an address: the checks, and what the broker said of itself if it could be asked."""

    host: str
    port: int
    checks: list[Check] = field(default_factory=list)
    versions: handshake.ApiVersions | None = None

    @property
    def address(self) -> str:
        """`host:port`; an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def works(self) -> bool:
        """Whether a broker is there that a client can log in to."""
        return self.versions is not None and all(it.outcome is not CheckOutcome.FAILED for it in self.checks)

    def add(self, check: str, outcome: CheckOutcome, tried: str, found: str, *fix: str) -> None:
        """One more check of this address."""
        self.checks.append(Check(check, self.address, outcome, tried, found, fix))


class NotKafka(Exception):
    """What listens there does not answer as a broker does."""


def probe(host: str, port: int, conf: Mapping[str, str], timeout_s: float) -> Endpoint:
    """Everything about one address."""
    endpoint = Endpoint(host, port)
    if _check_tcp(endpoint, timeout_s):
        if uses_tls(conf):
            _probe_tls(endpoint, conf, timeout_s)
        else:
            _check_protocol(endpoint, None, conf, timeout_s)
    return endpoint


def _check_tcp(endpoint: Endpoint, timeout_s: float) -> bool:
    tried = f"looked up {endpoint.host}"
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        look_up = f"getent hosts {shlex.quote(endpoint.host)}"
        fix = f"correct the name, or let this machine's DNS or /etc/hosts know it: {look_up}"
        endpoint.add("name", CheckOutcome.FAILED, tried, f"no address: {why}", fix)
        return False
    addresses = list(dict.fromkeys(str(it[4][0]) for it in found))
    endpoint.add("name", CheckOutcome.OK, tried, ", ".join(addresses))
    tried, began = "opened a TCP connection", time.monotonic()
    try:
        _open_connection(endpoint, timeout_s).close()
    except OSError as error:
        if isinstance(error, ConnectionRefusedError):
            found_out = "refused: nothing listens on that port"
            fix = "start the broker, or correct the port: it is in the broker's listeners"
        elif isinstance(error, TimeoutError):
            found_out = f"no answer within {timeout_s:g} s: the host is down, or a firewall drops what is sent there"
            fix = f"see whether the host is up, and allow TCP from here to {endpoint.address}"
        else:
            found_out, fix = f"{error.strerror or error}", f"see whether there is a route to {endpoint.host}"
        endpoint.add("connection", CheckOutcome.FAILED, tried, found_out, fix)
        return False
    took_ms = (time.monotonic() - began) * 1000
    endpoint.add("connection", CheckOutcome.OK, tried, f"accepted within {took_ms:.0f} ms")
    return True


def _open_connection(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    return socket.create_connection((endpoint.host, endpoint.port), timeout_s)


def _probe_tls(endpoint: Endpoint, conf: Mapping[str, str], timeout_s: float) -> None:
    tried = "made a TLS handshake"
    try:
        trusting, blind = tls.verifying_context(conf), tls.unverified_context(conf)
    except tls.TlsMisconfigured as error:
        endpoint.add("tls", CheckOutcome.FAILED, tried, str(error), "correct the ssl.* properties")
        return
    try:
        with closing(_open_connection(endpoint, timeout_s)) as raw, blind.wrap_socket(raw) as stream:
            version, der = stream.version(), stream.getpeercert(binary_form=True)
    except OSError as error:
        found, fix = f"no handshake: {_reason(error)}", f"see what listens on {endpoint.address}"
        if other := detect_protocol(endpoint, timeout_s, by_tls=False):
            found = f"the port has no TLS ({other}), and security.protocol is {protocol(conf)}"
            fix = f"-X security.protocol={other}, or better the port of a listener with TLS"
        endpoint.add("tls", CheckOutcome.FAILED, tried, found, fix)
        return
    endpoint.add("tls", CheckOutcome.OK, tried, f"{version}")
    shown = None
    try:
        shown = tls.peer_certificate(der, _open_connection(endpoint, timeout_s)) if der else None
        raw = _open_connection(endpoint, timeout_s)
        with closing(raw), trusting.wrap_socket(raw, server_hostname=endpoint.host) as stream:
            _check_certificate(endpoint, shown, trusting)
            _check_protocol(endpoint, stream, conf, timeout_s)
    except ssl.SSLCertVerificationError as error:
        found, fix = _refused(error, shown, endpoint, conf)
        endpoint.add("certificate", CheckOutcome.FAILED, "checked the broker's certificate", found, fix)
    except OSError as error:
        endpoint.add("tls", CheckOutcome.FAILED, tried, f"no handshake: {_reason(error)}")


def _check_protocol(
    endpoint: Endpoint, by_tls: socket.socket | None, conf: Mapping[str, str], timeout_s: float
) -> None:
    """Talk to it on a connection by TLS, or without TLS on a new one."""
    try:
        with nullcontext(by_tls) if by_tls else closing(_open_connection(endpoint, timeout_s)) as stream:
            _handshake(endpoint, stream, conf)
    except (OSError, NotKafka, WireError) as error:
        found, fix = _failed_connection(error), f"see what listens on {endpoint.address}: it should be a Kafka broker"
        # TLS 1.3 refuses a client's certificate only after the handshake.
        if isinstance(error, ssl.SSLError) and "CERTIFICATE" in (error.reason or "").upper():
            found, fix = _refused_ours(error, conf)
        elif by_tls is None and (other := detect_protocol(endpoint, timeout_s, by_tls=True)):
            found = f"the port wants TLS ({other}), and security.protocol is {protocol(conf)}"
            fix = f"-X security.protocol={other}, or the port of another listener"
        endpoint.add("protocol", CheckOutcome.FAILED, _asked_for_versions(conf), found, fix)


def _asked_for_versions(conf: Mapping[str, str]) -> str:
    return f"asked a broker for its API versions ({protocol(conf)})"


def _check_certificate(endpoint: Endpoint, shown: tls.Certificate | None, context: ssl.SSLContext) -> None:
    tried = "checked the broker's certificate"
    if context.verify_mode == ssl.CERT_NONE:
        found = "not checked, as enable.ssl.certificate.verification=false says: whoever is in between can listen"
        endpoint.add("certificate", CheckOutcome.WARNING, tried, found, "-X enable.ssl.certificate.verification=true")
        return
    if shown is None:
        endpoint.add("certificate", CheckOutcome.OK, tried, "trusted")
        return
    whose = f"{shown.subject}, signed by {shown.issuer}, good until {shown.ends:%Y-%m-%d}"
    left = shown.ends - datetime.now(UTC)
    if left < SOON:
        found = f"{whose}: that is in {_days(left)}; then no client can connect any more"
        endpoint.add("certificate", CheckOutcome.WARNING, tried, found, "renew the broker's certificate")
    elif not context.check_hostname:
        found = f"{whose}; whether it is for {endpoint.host} is not checked"
        fix = "-X ssl.endpoint.identification.algorithm=https"
        endpoint.add("certificate", CheckOutcome.WARNING, tried, found, fix)
    else:
        endpoint.add("certificate", CheckOutcome.OK, tried, whose)


def _refused(
    error: ssl.SSLCertVerificationError, shown: tls.Certificate | None, endpoint: Endpoint, conf: Mapping[str, str]
) -> tuple[str, str]:
    """Why a certificate is not good, and what to do."""
    code, said = error.verify_code, error.verify_message
    subject = shown.subject if shown else "its subject"
    if code == tls.EXPIRED and shown:
        ago = _days(datetime.now(UTC) - shown.ends)
        found = f"{subject}: the certificate, or one that it is signed by, has expired; its own time ended {ago} ago"
        if shown.ends > datetime.now(UTC):
            found = f"{subject}: a certificate that it is signed by has expired"
        return found, "renew the certificate, and see that this machine's clock is right: date -u"
    if code == tls.NOT_YET_VALID:
        begins = f" before {shown.begins:%Y-%m-%d %H:%M}Z" if shown else ""
        return f"{subject}: not good{begins}", "see that this machine's clock is right: date -u"
    if code in (tls.HOST_MISMATCH, tls.ADDRESS_MISMATCH):
        hosts = ", ".join(shown.hosts) if shown and shown.hosts else "no name"
        found = f"the certificate is not for {endpoint.host}, but for {hosts}"
        return found, "connect by one of these names, or have the certificate made for this one, too"
    if code in tls.UNKNOWN_AUTHORITY:
        issuer = shown.issuer if shown else "an authority"
        location = conf.get("ssl.ca.location")
        trusted = f"those in {location}" if location else "this system's authorities"
        found = f"{subject} is signed by {issuer}, which is not among {trusted} ({said})"
        return found, f"-X ssl.ca.location=FILE, with the certificate of {issuer}"
    return f"{subject}: {said}", "have the certificate made anew"


def _refused_ours(error: ssl.SSLError, conf: Mapping[str, str]) -> tuple[str, str]:
    """That the broker does not let us in without a certificate, or with this one, and what to do."""
    location = conf.get("ssl.certificate.location") or conf.get("ssl.keystore.location")
    if location is None and not conf.get("ssl.certificate.pem"):
        found = f"the broker wants a certificate of ours, and none is given: {_reason(error)}"
        return found, "-X ssl.certificate.location=FILE -X ssl.key.location=FILE, signed by whom the broker trusts"
    fix = "renew it if it has expired, and have it signed by whom the broker trusts"
    if "ssl.certificate.location" in conf:
        fix += f": openssl x509 -noout -enddate -issuer -in {shlex.quote(conf['ssl.certificate.location'])}"
    return f"the broker refuses our certificate{f' in {location}' if location else ''}: {_reason(error)}", fix


def _handshake(endpoint: Endpoint, stream: socket.socket, conf: Mapping[str, str]) -> None:
    """Ask for versions and how to log in. Raises `OSError`, `NotKafka`, `WireError`."""
    versions = handshake.parse_api_versions(_exchange(stream, handshake.api_versions_request()))
    tried = _asked_for_versions(conf)
    if not versions.apis:
        endpoint.versions = versions
        found = "a broker older than Kafka 2.4; kshadow is tested with 3.9 and 4.x"
        endpoint.add("protocol", CheckOutcome.WARNING, tried, found)
        return
    if handshake.METADATA not in versions.apis:
        found = "a controller (KRaft), not a broker: it does not tell clients of topics"
        endpoint.add("protocol", CheckOutcome.FAILED, tried, found, "the port of a broker's listener for clients")
        return
    wants_login = uses_sasl(conf)
    login = _ask_for_login(stream, mechanism(conf) if wants_login else _NO_MECHANISM)
    endpoint.versions = versions
    transport = "SSL" if uses_tls(conf) else "PLAINTEXT"
    taken = ", ".join(login.mechanisms) or "none"
    if login.wanted and not wants_login:
        found = f"the port wants a login, and security.protocol is {protocol(conf)}; it takes {taken}"
        fix = (
            f"-X security.protocol=SASL_{transport} -X sasl.mechanism=… -X sasl.username=… "
            "-X sasl.password='${KAFKA_PASSWORD}', with the password in that variable"
        )
        endpoint.add("protocol", CheckOutcome.FAILED, tried, found, fix)
        return
    if wants_login and not login.wanted:
        found = f"the port takes no login, and security.protocol is {protocol(conf)}"
        fix = f"-X security.protocol={transport}, or the port of a listener with SASL"
        endpoint.add("protocol", CheckOutcome.FAILED, tried, found, fix)
        return
    endpoint.add("protocol", CheckOutcome.OK, tried, f"a Kafka broker that wants {protocol(conf)}")
    tried = "asked how to log in (SaslHandshake)"
    if wants_login and login.taken:
        endpoint.add("mechanism", CheckOutcome.OK, tried, f"{mechanism(conf)}, of {taken}")
    elif wants_login:
        found = f"the broker does not take {mechanism(conf)}; it takes {taken}"
        fix = f"-X sasl.mechanism={login.mechanisms[0] if login.mechanisms else '…'}, and a user of that kind"
        endpoint.add("mechanism", CheckOutcome.FAILED, tried, found, fix)


def _ask_for_login(stream: socket.socket, mechanism: str) -> handshake.SaslHandshake:
    return handshake.parse_sasl_handshake(_exchange(stream, handshake.sasl_handshake_request(mechanism)))


def _exchange(stream: socket.socket, request: bytes) -> bytes:
    """One answer, without its length; whole within the time that the socket waits for a part of it."""
    deadline = time.monotonic() + (stream.gettimeout() or 0.0)
    stream.sendall(request)
    (size,) = struct.unpack(">i", _read(stream, 4, deadline))
    if not 4 <= size <= handshake.MOST_BYTES:
        raise NotKafka("what answers is no Kafka broker")
    return _read(stream, size, deadline)


def _read(stream: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        if time.monotonic() >= deadline:
            raise TimeoutError
        if not (some := stream.recv(size - len(data))):
            raise ConnectionResetError("it closed the connection")
        data += some
    return data


def detect_protocol(endpoint: Endpoint, timeout_s: float, *, by_tls: bool) -> str | None:
    """The `security.protocol` that the port takes, with TLS or without; None if it is no Kafka broker so.

    Where a handshake fails for want of our certificate it is said to be SSL: that it has TLS is known.
    """
    try:
        raw = _open_connection(endpoint, timeout_s)
        with closing(raw), tls.unverified_context({}).wrap_socket(raw) if by_tls else raw as stream:
            handshake.parse_api_versions(_exchange(stream, handshake.api_versions_request()))
            wants_login = _ask_for_login(stream, _NO_MECHANISM).wanted
    except ssl.SSLError as error:
        return "SSL" if "ALERT" in (error.reason or "") else None
    except (OSError, NotKafka, WireError):
        return None
    return ("SASL_" if wants_login else "") + ("SSL" if by_tls else "PLAINTEXT")


def _failed_connection(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer: what listens there is no Kafka broker, or hangs"
    return f"no answer of a Kafka broker: {_reason(error)}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return str(getattr(error, "strerror", None) or error)


def _days(span: timedelta) -> str:
    return f"{span.days} days" if span.days != 1 else "1 day"
