"""Who may ask: names and passwords of HTTP basic authentication, against bcrypt hashes.

A hash takes a tenth of a second to check, and a scrape comes every few seconds. So answers are remembered, as the
exporter-toolkit does: under a keyed digest and not the password, and wrong ones apart from right ones, so that who
guesses does not drive out who knows.
"""

from __future__ import annotations

import asyncio
import hmac
import os
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Mapping

import bcrypt

MAX_CACHED = 100
"""Right answers, and wrong ones, that are remembered."""
MAX_WAITING = 16
"""Who may wait for a check at a time; there is one at a time, as it takes all of a core."""


class TooManyPasswordChecks(Exception):
    """So many passwords are to be checked that another one is not looked at."""


class PasswordChecker:
    """Checks passwords. For one event loop."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def authenticate(self, header: str | None, users: Mapping[str, bytes]) -> bool:
        """Whether a header names one of the users, and their password. Raises `TooManyPasswordChecks`."""
        given = _credentials(header)
        if given is None:
            return False
        name, password = given
        user = name.decode(errors="replace")
        # A name that is not there takes as long as one that is.
        hashed = users.get(user) or next(iter(users.values()))
        digest = self._digest(name, hashed, password)
        right = self._cached_answer(digest)
        if right is None:
            right = await self._check(digest, password, hashed)
        return right and user in users

    def _cached_answer(self, digest: bytes) -> bool | None:
        if digest in self._right:
            return True
        return False if digest in self._wrong else None

    def _digest(self, *parts: bytes) -> bytes:
        it = hmac.new(self._key, digestmod="sha256")
        for part in parts:
            it.update(len(part).to_bytes(4, "big") + part)
        return it.digest()

    async def _check(self, digest: bytes, password: bytes, hashed: bytes) -> bool:
        if self._waiting >= MAX_WAITING:
            raise TooManyPasswordChecks
        self._waiting += 1
        try:
            async with self._turn:
                right = self._cached_answer(digest)
                if right is None:
                    right = await asyncio.to_thread(_matches, password, hashed)
                    _cache_answer(self._right if right else self._wrong, digest)
                return right
        finally:
            self._waiting -= 1


def _credentials(header: str | None) -> tuple[bytes, bytes] | None:
    """Name and password of `Basic …`."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
    except (NoBase64, ValueError):
        return None
    return (name, password) if colon else None


def _matches(password: bytes, hashed: bytes) -> bool:
    # bcrypt looks at 72 bytes, which is what made the hash of a longer one.
    return bcrypt.checkpw(password[:72], hashed)


def _cache_answer(answers: dict[bytes, None], digest: bytes) -> None:
    while len(answers) >= MAX_CACHED:
        del answers[next(iter(answers))]
    answers[digest] = None
