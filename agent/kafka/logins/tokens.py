"""Tokens by login: made when a client is, shared by the clients of the process, and made anew in time.

librdkafka asks for the next one at four fifths of a token's life, on a thread of its own (confluent-kafka 2.13 and
newer), so it does not matter whether a client is polled. A client is made only once there is a token: what is wrong
is then told at once, where librdkafka would wait for ten seconds and say no reason.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from agent.config.logins import LoginMethod, TokenLogin

log = logging.getLogger("kshadow")

MAKERS = {LoginMethod.AWS_MSK_IAM: "agent.kafka.logins.aws", LoginMethod.GOOGLE: "agent.kafka.logins.google"}
"""The module of each method; it has `make_token`."""


class LoginError(Exception):
    """There is no token, in one line, with what to do."""


class LoginMisconfigured(LoginError):
    """There can be none: a package or a setting is missing."""


def one_line(error: Exception) -> str:
    """What an error of a cloud's library says."""
    return " ".join(str(error).split())[:500]


@dataclass(frozen=True, slots=True)
class Token:
    """A token, until when it holds (epoch seconds), and who shows it to the broker, where that is known."""

    text: str = field(repr=False)
    expires_at_s: float
    principal: str = ""


class MakeToken(Protocol):
    """A method's maker."""

    def __call__(self, login: TokenLogin) -> Token:
        """A new token. Raises `LoginError`."""


class TokenSource:
    """The tokens of one login. Any thread may ask."""

    def __init__(self, login: TokenLogin, make_token: MakeToken | None = None) -> None:
        self._login, self._make = login, make_token
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._made_at_s = 0.0
        self.failure: LoginError | None = None
        """Why the last one was not made; None if it was."""
        self._is_failing = False
        """Whether it was told that there is none."""

    def token(self) -> Token:
        """One that has at least half of its life before it, and was not made by a clock that was set back since: that
        is good for less long than it says. Raises `LoginError`."""
        with self._lock:
            now_s, token = time.time(), self._token
            if token is None or not self._made_at_s <= now_s <= (self._made_at_s + token.expires_at_s) / 2:
                try:
                    self._token = token = self._maker()(self._login)
                except LoginError as error:
                    self.failure = error
                    raise
                self._made_at_s, self.failure = now_s, None
            return token

    def _maker(self) -> MakeToken:
        if self._make is None:
            make: MakeToken = importlib.import_module(MAKERS[self._login.method]).make_token
            self._make = make
        return self._make

    def on_refresh(self, _config: str) -> tuple[str, float, str]:
        """librdkafka's `oauth_cb`: where this raises, it keeps the last token and asks again after ten seconds."""
        try:
            token = self.token()
        except LoginError as error:
            self._tell(error)
            raise
        self._tell(None)
        return token.text, token.expires_at_s, token.principal

    def _tell(self, failure: LoginError | None) -> None:
        """Say once that there is no token, and once that there is one again: each client asks every ten seconds."""
        with self._lock:
            was_failing, self._is_failing = self._is_failing, failure is not None
        if failure is not None and not was_failing:
            log.warning("no new token for the login: %s; it goes on trying", failure)
        elif failure is None and was_failing:
            log.info("there is a new token for the login again")


@lru_cache(maxsize=64)
def token_source(login: TokenLogin) -> TokenSource:
    """The one source of a login in this process."""
    return TokenSource(login)
