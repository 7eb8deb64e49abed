"""Scrapes at one time: nobody is refused, nobody's slowness is another's, and few texts are held."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.serving import scrapes
from agent.serving.metrics.exporter import Exporter
from agent.serving.server import serving
from agent.serving.web.answers import gzip_pieces
from tests.unit.serving.routes.replayed import Replayed


class Made(Exporter):
    """Texts that say the how manieth they are; each waits until it may be made."""

    def __init__(self, size: int = 0) -> None:
        super().__init__([], process=False)
        self.size, self.count = size, 0
        self.asked, self.may = threading.Event(), threading.Event()

    def render(self, openmetrics: bool = False) -> Sequence[bytes]:
        self.count += 1
        self.asked.set()
        assert self.may.wait(30)
        if self.count == 1 and not self.size:
            raise RuntimeError("no reading")
        return [b"# %d %d\n" % (self.count, openmetrics), b"x" * self.size]


@pytest.fixture
def made() -> Iterator[Made]:
    it = Made()
    yield it
    it.may.set()


def first_line(answer: httpx.Response) -> str:
    return answer.text.partition("\n")[0]


def test_who_asks_meanwhile_has_the_next_one_together(made: Made) -> None:
    with serving(Replayed([]), exporter=made) as url, ThreadPoolExecutor(200) as pool:

        def scrape(accept: str = "*/*", encoding: str = "identity") -> httpx.Response:
            return httpx.get(url + "/metrics", headers={"Accept": accept, "Accept-Encoding": encoding}, timeout=60)

        first = pool.submit(scrape)
        assert made.asked.wait(30)
        others = [pool.submit(scrape) for _ in range(100)]
        squeezed = [pool.submit(scrape, encoding="gzip") for _ in range(10)]
        different = [pool.submit(scrape, "application/openmetrics-text") for _ in range(10)]
        while pool._work_queue.qsize():
            time.sleep(0.01)
        time.sleep(0.5)
        assert made.count == 1
        made.may.set()
        assert first.result().status_code == 500, "a failed reading fails who waits for it, and no other"
        every = [it.result() for it in (*others, *squeezed, *different)]
        assert {it.status_code for it in every} == {200}
        # Who was slow to connect may have come after, on a busy machine several.
        assert made.count < len(every) / 4
        assert {first_line(it)[-1] for it in every[:110]} == {"0"}
        assert {first_line(it)[-1] for it in every[110:]} == {"1"}
        assert {it.headers.get("content-encoding") for it in every[100:110]} == {"gzip"}
        assert every[-1].headers["content-type"].startswith("application/openmetrics-text")
        assert every[0].headers["vary"] == "Accept, Accept-Encoding"
        head = httpx.head(url + "/metrics")
        assert (head.status_code, head.content) == (200, b"")


def test_slow_readers_hold_few_texts_and_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrapes, "MAX_KEPT", 3)
    made = Made(size=20_000_000)
    made.may.set()
    with serving(Replayed([]), exporter=made) as url, ExitStack() as stack:
        address = urlsplit(url)
        slow = []
        for _ in range(5):
            slow.append(stack.enter_context(socket.create_connection((address.hostname, address.port or 0), 30)))
            slow[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert slow[-1].recv(1), "the answer is there, and is not taken"
        assert len(httpx.get(url + "/metrics", headers={"Accept-Encoding": "identity"}).content) > made.size
        came = []
        for it in slow:
            came.append(0)
            with suppress(ConnectionResetError):
                while came[-1] <= made.size and (piece := it.recv(1 << 20)):
                    came[-1] += len(piece)
        assert [it > made.size for it in came] == [False, False, False, True, True]


@given(st.lists(st.binary(max_size=100) | st.just(b"x" * 100_000), max_size=5))
def test_pieces_are_compressed_to_one_body(pieces: list[bytes]) -> None:
    body = b"".join(gzip_pieces(pieces))
    assert gzip.decompress(body) == b"".join(pieces)
    assert body == b"".join(gzip_pieces([*pieces, b""])), "nothing of when it was made"


def test_a_scrape_says_how_long_it_is(made: Made) -> None:
    made.size = 300_000
    made.may.set()
    with serving(Replayed([]), exporter=made) as url:
        for encoding in ("identity", "gzip"):
            answer = httpx.get(url + "/metrics", headers={"Accept-Encoding": encoding})
            assert int(answer.headers["content-length"]) == answer.num_bytes_downloaded
            assert len(answer.content) == made.size + len(b"# 1 0\n")
