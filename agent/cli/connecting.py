"""How an agent is reached over HTTP: whom to trust, and who asks.

A password comes from the environment or a file, never from the command line or an address: those are seen by
everyone on the machine, and kept in shells' histories.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPResponse
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import click

from agent.cli.output import warn

if TYPE_CHECKING:
    import ssl
    from urllib.request import OpenerDirector

PASSWORD = "KSHADOW_AGENT_PASSWORD"
OPTIONS = ("agent_ca", "agent_user", "agent_password_file", "agent_cert", "agent_key")
MOST_PASSWORD_BYTES = 4096


class Connection(NamedTuple):
    """An agent's address, without who asks, and how it is opened."""

    url: str
    opener: OpenerDirector
    authorization: str | None

    def open(self, path: str, timeout_s: float) -> HTTPResponse:
        """`GET` a path. Raises what `urllib.request.urlopen` raises; a redirection is an `HTTPError`."""
        from urllib.request import Request

        headers = {} if self.authorization is None else {"Authorization": self.authorization}
        response: HTTPResponse = self.opener.open(Request(self.url + path, headers=headers), timeout=timeout_s)
        return response


def connection(url: str, options: Mapping[str, Any]) -> Connection:
    """To the agent at `url`, by the values of `OPTIONS`. Raises `click.UsageError`."""
    parts = _parts(url)
    given = {name for name in OPTIONS if options.get(name) is not None}
    tls = given & {"agent_ca", "agent_cert", "agent_key"}
    if parts.scheme == "http" and tls:
        raise click.UsageError(f"{_flag(min(tls))} goes with https://")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    bare = f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/")
    authorization = _authorization(parts, options)
    if authorization is not None and parts.scheme == "http" and not _loopback(parts.hostname or ""):
        warn("(http:// shows the password to whoever is on the way; https:// does not)")
    return Connection(bare, _opener(_context(options) if parts.scheme == "https" else None), authorization)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise click.UsageError(f"--agent: a URL such as http://localhost:9308 expected, {url!r} came")
    if parts.password is not None:
        raise click.UsageError(f"--agent: no password in a URL, where everyone sees it: use {PASSWORD}")
    if parts.query or parts.fragment:
        raise click.UsageError("--agent: a URL without ? and # expected")
    return parts


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _authorization(parts: SplitResult, options: Mapping[str, Any]) -> str | None:
    """The header, if there is a user: of `--agent-user`, or of the address."""
    user = options.get("agent_user") or unquote(parts.username or "") or None
    path = options.get("agent_password_file")
    if user is None:
        if path is not None:
            raise click.UsageError("--agent-password-file goes with --agent-user")
        return None
    if ":" in user:
        raise click.UsageError("--agent-user: a name without colon expected")
    password = os.environ.get(PASSWORD) if path is None else _password(path)
    if password is None:
        raise click.UsageError(f"--agent-user needs a password: {PASSWORD}, or a file with --agent-password-file")
    text = f"{user}:{password}".encode(errors="surrogateescape")
    return "Basic " + b64encode(text).decode("ascii")


def _password(path: str) -> str:
    """The file's first and only line."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_PASSWORD_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"--agent-password-file {path}: {error.strerror}") from None
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if not line or b"\n" in line or len(content) > MOST_PASSWORD_BYTES:
        raise click.UsageError(f"--agent-password-file {path}: one line expected")
    return line.decode(errors="surrogateescape")


def _context(options: Mapping[str, Any]) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    ca, certificate, key = (options.get(name) for name in ("agent_ca", "agent_cert", "agent_key"))
    if ca is not None:
        # Those of the system are not meant, then: the file says whom to trust.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(ca)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--agent-ca {ca}: {_said(error)}") from None
    if key is not None and certificate is None:
        raise click.UsageError("--agent-key goes with --agent-cert")
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--agent-cert {certificate}: {_said(error)}") from None
    return context


def _no_password() -> str:
    raise ValueError("the key needs a password; give it without")


def _said(error: Exception) -> str:
    import ssl

    if isinstance(error, ssl.SSLError):
        return "no PEM, or the key of another certificate"
    return str(getattr(error, "strerror", None) or error)


def _opener(context: ssl.SSLContext | None) -> OpenerDirector:
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

    class NoRedirection(HTTPRedirectHandler):
        """An agent sends nobody elsewhere, and the password is not for others."""

        def redirect_request(
            self, req: Request, fp: Any, code: int, msg: str, headers: Message, newurl: str
        ) -> Request | None:
            return None

    return build_opener(NoRedirection, *([] if context is None else [HTTPSHandler(context=context)]))


def why(error: Exception, *, tls: bool) -> str:
    """Why a connection failed, and what may help."""
    import ssl

    reason = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not to be trusted: {reason.verify_message}; --agent-ca names the certificate of"
            " who signed it"
        )
    if tls and isinstance(reason, ConnectionResetError | ConnectionAbortedError | BrokenPipeError | ssl.SSLError):
        # A server that wants a certificate and gets none closes, and need not say why.
        return f"{reason}; is it https:// there, and does it want a certificate of who asks (--agent-cert)?"
    return f"{reason}; kshadow run starts one, and --listen says where"
