"""TLS contexts of the server."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any

from agent.serving.web.config import TlsConfig, WebConfigError


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """A server's context, from the files as they are now. Raises `WebConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = tls.min_version, tls.max_version
    # What nobody asked to be there: TLS 1.2's compression and renegotiation are attacks, and tickets of TLS 1.2
    # would outlive a key that was replaced.
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if not tls.prefer_server_ciphers:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
    except (OSError, ValueError) as error:
        raise WebConfigError(f"certificate {tls.cert_file} with key {tls.key_file}: {_error_text(error)}") from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (OSError, ValueError) as error:
            raise WebConfigError(f"client_ca_file {tls.client_ca_file}: {_error_text(error)}") from error
        # Whatever stands in the file is trusted, an intermediate certificate too: so it is with the toolkit.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = tls.verify
    return context


def _no_password() -> str:
    """OpenSSL would ask for it at the terminal."""
    raise ValueError("the key needs a password, and there is nobody to ask; give it without")


def _error_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{error.reason or error}: no PEM, or the key of another certificate?"
    return str(getattr(error, "strerror", None) or error)


class ReloadingContext(ssl.SSLContext):
    """Gives each new connection the context that is the newest by then: asyncio asks for one through `wrap_bio`."""

    newest: Callable[[], ssl.SSLContext]

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """TLS for one connection, from the newest context."""
        return self.newest().wrap_bio(*arguments, **named)


def reloading_context(newest: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """A context that is whatever `newest` gives at each connection."""
    context = ReloadingContext(ssl.PROTOCOL_TLS_SERVER)
    context.newest = newest
    return context


def alternative_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    """A client certificate's alternative names, as `client_allowed_sans` writes them: DNS, IP, e-mail, URI."""
    for kind, name in certificate.get("subjectAltName", ()):
        if kind == "IP Address":
            # OpenSSL writes 2001:DB8:0:0:0:0:0:1.
            yield str(ip_address(name.strip()))
        elif kind in ("DNS", "email", "URI"):
            yield name
