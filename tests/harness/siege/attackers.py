"""Strangers of one kind: `python -m tests.harness.siege.attackers KIND COUNT PORT [ADDRESSES]`, until it is ended.

Each has one connection, and another one as soon as it is over. With more than one address they are 127.0.0.2 and up,
in turns. A line says when each has had its first one.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import resource
import sys
from collections.abc import Awaitable, Callable

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
USER = "prometheus"
_numbers = itertools.count()


async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Asks once, and holds the connection as a browser does."""
    writer.write(GET % (b"/healthz", b""))
    await reader.read()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Never speaks."""
    await reader.read()


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Sends a header's line a second (Slowloris)."""
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    while not reader.at_eof():
        writer.write(b"X-More: yes\r\n")
        await writer.drain()
        try:
            await asyncio.wait_for(reader.read(1000), 1)
        except TimeoutError:
            continue


async def scraping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Asks for metrics again and again, and takes none of them."""
    while not reader.at_eof():
        writer.write(GET % (b"/metrics", b"Accept-Encoding: identity\r\n"))
        await writer.drain()
        await asyncio.sleep(0.2)


async def asking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Asks for everything there is, as fast as answers come."""
    paths = (b"/api/v1/groups", b"/metrics", b"/", b"/api/v1/findings", b"/nowhere/%d" % number)
    while not reader.at_eof():
        writer.write(GET % (paths[next(_numbers) % len(paths)], b""))
        await reader.read(1 << 16)


async def guessing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
    """Another password each time, as fast as answers come."""
    while not reader.at_eof():
        guess = base64.b64encode(b"%s:guess %d" % (USER.encode(), next(_numbers)))
        writer.write(GET % (b"/api/v1/status", b"Authorization: Basic %s\r\n" % guess))
        await reader.readuntil(b"\r\n\r\n")


KINDS: dict[str, Attack] = {it.__name__: it for it in (idle, silent, slow, scraping, asking, guessing)}


async def stranger(attack: Attack, port: int, address: str, number: int, first: asyncio.Event) -> None:
    """One of them, for ever."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            first.set()
            try:
                await attack(reader, writer, number)
            finally:
                writer.close()
        except (OSError, EOFError):
            pass
        # Where it is refused, others of this program have a turn.
        await asyncio.sleep(0.05)


async def main(kind: str, count: str, port: str, addresses: str = "1") -> None:
    """Have so many of them come from so many addresses."""
    firsts = [asyncio.Event() for _ in range(int(count))]
    places = [f"127.0.0.{2 + number}" for number in range(int(addresses))]
    strangers = [
        asyncio.create_task(stranger(KINDS[kind], int(port), places[number % len(places)], number, first))
        for number, first in enumerate(firsts)
    ]
    await asyncio.gather(*(it.wait() for it in firsts))
    print("all are there", flush=True)
    await asyncio.gather(*strangers)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(*sys.argv[1:]))
