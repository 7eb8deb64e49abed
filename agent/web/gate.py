"""What each request passes on its way to the routes: limits, headers, a password."""

from __future__ import annotations

from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.web.answers import error
from agent.web.config import WebConfig
from agent.web.files import WebFiles
from agent.web.guard import CONNECTION, Guarded
from agent.web.users import TooMany, Users

OPEN = ("/healthz", "/readyz")
"""Answered without a password, in one word: what asks there is a probe, and its manifest is no place for one."""
KNOWN = "kshadow.known"
"""Where a request's state says whether the client may know everything."""
ALWAYS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Headers of each answer, unless it has others or the web-config file says otherwise."""


class Gate:
    """The outermost application."""

    def __init__(self, routes: ASGIApp, files: WebFiles | None) -> None:
        self._routes, self._files, self._users = routes, files, Users()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        connection = cast("Guarded | None", scope["state"].get(CONNECTION))
        if connection is not None:
            connection.begins()
        try:
            await self._answer(scope, receive, send)
        finally:
            if connection is not None:
                connection.ends()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        config = WebConfig() if self._files is None else self._files.current()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
                headers.update(config.headers)
            await send(message)

        headers = Headers(scope=scope)
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            refusal = error(413, "requests have no body here", headers={"Connection": "close"})
            return await refusal(scope, receive, send_with_headers)
        try:
            known = not config.users or await self._users.admits(headers.get("authorization"), config.users)
        except TooMany:
            refusal = error(429, "too many passwords to check; try again in a while", headers={"Retry-After": "5"})
            return await refusal(scope, receive, send_with_headers)
        if not known and scope["path"] not in OPEN:
            asks = {"WWW-Authenticate": 'Basic realm="kshadow", charset="UTF-8"'}
            refusal = error(401, "a user's name and password are needed", headers=asks)
            return await refusal(scope, receive, send_with_headers)
        scope["state"][KNOWN] = known
        await self._routes(scope, receive, send_with_headers)
