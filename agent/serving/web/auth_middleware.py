"""What each request passes on its way to the routes: the host that it names, headers, a password."""

from __future__ import annotations

from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.serving.web.addresses import network_of
from agent.serving.web.allowed_hosts import AllowedHosts
from agent.serving.web.answers import error_response
from agent.serving.web.config import WebConfig
from agent.serving.web.config_file import WebConfigFile
from agent.serving.web.connection_limits import CONNECTION, LimitedConnection
from agent.serving.web.users import PasswordChecker, TooManyPasswordChecks

PUBLIC_PATHS = ("/healthz", "/readyz")
"""Answered without a password, in one word: what asks there is a probe, and its manifest is no place for one."""
MAX_PARAMETERS = 100
"""Of a query: no address has ten, and each takes its time to be read."""
IS_AUTHENTICATED = "kshadow.known"
"""Where a request's state says whether the client may know everything."""
DEFAULT_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Headers of each answer, unless it has others or the web-config file says otherwise."""


class AuthMiddleware:
    """The outermost application."""

    def __init__(self, routes: ASGIApp, files: WebConfigFile | None, hosts: AllowedHosts | None) -> None:
        self._routes, self._files, self._hosts, self._users = routes, files, hosts, PasswordChecker()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        connection = cast("LimitedConnection | None", scope["state"].get(CONNECTION))
        if connection is not None:
            connection.answer_begins()
        try:
            await self._answer(scope, receive, send)
        finally:
            if connection is not None:
                connection.answer_ends()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = WebConfig() if self._files is None else self._files.current()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULT_HEADERS.items():
                    headers.setdefault(name, value)
                headers.update(config.headers)
            await send(message)

        answer = await self._refusal(scope, config) or self._routes
        await answer(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope, config: WebConfig) -> Response | None:
        """Why a request does not get to the routes; None where it does."""
        headers = Headers(scope=scope)
        if self._hosts is not None and not self._hosts.admits(headers.get("host")):
            return error_response(421, "expected a host name of this server's; --allowed-host adds one")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return error_response(413, "requests have no body here", headers={"Connection": "close"})
        if scope["query_string"].count(b"&") >= MAX_PARAMETERS:
            return error_response(400, f"expected at most {MAX_PARAMETERS} parameters")
        try:
            known = not config.users or await self._users.authenticate(
                headers.get("authorization"), config.users, network_of(scope["client"])
            )
        except TooManyPasswordChecks:
            known = False
            if scope["path"] not in PUBLIC_PATHS:
                # With the connection goes the way to ask again at once: new ones are not taken as fast.
                wait = {"Retry-After": "5", "Connection": "close"}
                return error_response(429, "too many passwords to check; try again in a while", headers=wait)
        if not known and scope["path"] not in PUBLIC_PATHS:
            asks = {"WWW-Authenticate": 'Basic realm="kshadow", charset="UTF-8"'}
            return error_response(401, "a user's name and password are needed", headers=asks)
        scope["state"][IS_AUTHENTICATED] = known
        return None
