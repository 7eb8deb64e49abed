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

MOST_KNOWN = 100
"""Right answers, and wrong ones, that are remembered."""
MOST_WAITING = 16
"""Who may wait for a check at a time; there is one at a time, as it takes all of a core."""


class TooMany(Exception):
    """So many passwords are to be checked that another one is not looked at."""


class Users:
    """Checks passwords. For one event loop."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    async def admits(self, header: str | None, users: Mapping[str, bytes]) -> bool:
        """Whether an `Authorization` header names one of the users, and their password. Raises `TooMany`."""
        given = _given(header)
        if given is None:
            return False
        name, password = given
        user = name.decode(errors="replace")
        # A name that is not there takes as long as one that is.
        hashed = users.get(user) or next(iter(users.values()))
        digest = self._digest(name, hashed, password)
        right = self._remembered(digest)
        if right is None:
            right = await self._checked(digest, password, hashed)
        return right and user in users

    def _remembered(self, digest: bytes) -> bool | None:
        if digest in self._right:
            return True
        return False if digest in self._wrong else None

    def _digest(self, *parts: bytes) -> bytes:
        it = hmac.new(self._key, digestmod="sha256")
        for part in parts:
            it.update(len(part).to_bytes(4, "big") + part)
        return it.digest()

    async def _checked(self, digest: bytes, password: bytes, hashed: bytes) -> bool:
        if self._waiting >= MOST_WAITING:
            raise TooMany
        self._waiting += 1
        try:
            async with self._turn:
                right = self._remembered(digest)
                if right is None:
                    right = await asyncio.to_thread(_matches, password, hashed)
                    _remember(self._right if right else self._wrong, digest)
                return right
        finally:
            self._waiting -= 1


def _given(header: str | None) -> tuple[bytes, bytes] | None:
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


def _remember(answers: dict[bytes, None], digest: bytes) -> None:
    while len(answers) >= MOST_KNOWN:
        del answers[next(iter(answers))]
    answers[digest] = None
