"""Who may ask: names and passwords of HTTP basic authentication, against bcrypt hashes.

A hash takes a tenth of a second to check, and a scrape comes every few seconds. So answers are remembered, as the
exporter-toolkit does: under a keyed digest and not the password, and wrong ones apart from right ones, so that who
guesses does not drive out who knows. A right one is remembered for the address that it came from: whoever guesses
from elsewhere does not get answers as fast.

Wrong passwords are counted by address and name. Who has too many is told to wait; of the others, those are checked
first whose address has fewest. So who guesses waits behind who does not, and a name that many guess at is not closed
to the one who has it. Under what a name is counted does not depend on whether there is such a user.
"""

from __future__ import annotations

import asyncio
import bisect
import hmac
import itertools
import os
import time
from base64 import b64decode
from binascii import Error as NoBase64
from collections import OrderedDict
from collections.abc import Mapping

import bcrypt

from agent.serving.web.decaying_counts import DecayingCounts

MAX_CACHED = 1_000
"""Right answers, and wrong ones, that are remembered."""
MAX_WAITING = 64
"""Who may wait for a check at a time; one is made at a time, as it takes all of a core. With more, who comes from the
address with most wrong ones is turned away."""
MAX_WRONG = 10
"""Wrong passwords from an address for a name that are checked at once; besides, one each `FORGET_S`."""
FORGET_S = 6.0
MAX_WRONG_OF_NAME = 60
"""Wrong passwords for a name from all addresses, a minute; beyond that only addresses without one are heard."""
NAME_CLASSES = 16
"""Names fall into so many classes, by which they are counted for an address: a new name each time is no way out."""


class TooManyPasswordChecks(Exception):
    """Too many wrong passwords came, or so many are to be checked that this one is not looked at."""


class PasswordChecker:
    """Checks passwords. For one event loop."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Task[bool]] = {}
        self._is_checking = False
        # By how many wrong ones their address has, then the newest first: many addresses that come at once have a
        # check each that is ahead of none, and who comes after them need not wait for all of those.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()
        self._guesses = DecayingCounts(FORGET_S)
        self._guesses_of_name = DecayingCounts(60 / MAX_WRONG_OF_NAME)

    async def authenticate(self, header: str | None, users: Mapping[str, bytes], network: str) -> bool:
        """Whether a header names one of the users, and their password.

        `network` is where it comes from (`network_of`). Raises `TooManyPasswordChecks`.
        """
        given = _credentials(header)
        if given is None:
            return False
        name, password = given
        user = name.decode(errors="replace")
        # A name that is not there takes as long as one that is.
        hashed = users.get(user) or next(iter(users.values()))
        digest = self._digest(network.encode(), name, hashed, password)
        right = self._cached_answer(digest)
        if right is None:
            if digest not in self._under_way:
                check = self._check(digest, password, hashed, network, self._digest(name))
                self._under_way[digest] = asyncio.create_task(check)
            # Shared: whoever goes away does not end it.
            right = await asyncio.shield(self._under_way[digest])
        return right and user in users

    def _cached_answer(self, digest: bytes) -> bool | None:
        if digest in self._right:
            self._right.move_to_end(digest)
            return True
        return False if digest in self._wrong else None

    def _digest(self, *parts: bytes) -> bytes:
        it = hmac.new(self._key, digestmod="sha256")
        for part in parts:
            it.update(len(part).to_bytes(4, "big") + part)
        return it.digest()

    async def _check(self, digest: bytes, password: bytes, hashed: bytes, network: str, name: bytes) -> bool:
        try:
            before = self._begin_guess(network, name)
            is_guess = False
            try:
                await self._wait_for_turn(before)
                try:
                    is_guess = not await asyncio.to_thread(_matches, password, hashed)
                finally:
                    self._end_turn()
            finally:
                if not is_guess:
                    self._count_guess(network, name, -1)
            _cache_answer(self._wrong if is_guess else self._right, digest)
            return not is_guess
        finally:
            del self._under_way[digest]

    def _begin_guess(self, network: str, name: bytes) -> int:
        """Count it before it is known to be wrong, so that many at a time are no way out.

        Returns how many its address has.
        """
        now = time.monotonic()
        before = self._guesses.count(network, now)
        if self._guesses.count(_class_of(network, name), now) >= MAX_WRONG or (
            before and self._guesses_of_name.count(name, now) >= MAX_WRONG_OF_NAME
        ):
            raise TooManyPasswordChecks
        self._count_guess(network, name, 1)
        return before

    def _count_guess(self, network: str, name: bytes, times: int) -> None:
        now = time.monotonic()
        self._guesses.add(network, now, times)
        self._guesses.add(_class_of(network, name), now, times)
        self._guesses_of_name.add(name, now, times)

    async def _wait_for_turn(self, rank: int) -> None:
        if not self._is_checking:
            self._is_checking = True
            return
        turn = asyncio.get_running_loop().create_future()
        bisect.insort(self._waiting, (rank, -next(self._arrivals), turn))
        if len(self._waiting) > MAX_WAITING:
            _, _, worst = self._waiting.pop()
            worst.set_exception(TooManyPasswordChecks())
        await turn

    def _end_turn(self) -> None:
        self._is_checking = False
        while self._waiting and not self._is_checking:
            _, _, turn = self._waiting.pop(0)
            # Where the server stops, those that wait are cancelled.
            if not turn.done():
                turn.set_result(None)
                self._is_checking = True


def _class_of(network: str, name: bytes) -> tuple[str, int]:
    return network, name[0] % NAME_CLASSES


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


def _cache_answer(answers: OrderedDict[bytes, None], digest: bytes) -> None:
    answers[digest] = None
    if len(answers) > MAX_CACHED:
        answers.popitem(last=False)
