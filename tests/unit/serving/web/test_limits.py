"""Clients that send or read slowly, many at a time, or what nobody asks for: over real sockets."""

from __future__ import annotations

import gc
import logging
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import httpx
import pytest

from agent.serving.server import GRACE_S, WebServer, serving
from agent.serving.web import answers, connection_limits, listener
from agent.serving.web.answers import MAX_IN_FLIGHT, MAX_THREADS, MAX_WAITING
from agent.serving.web.connection_limits import MAX_CONNECTIONS, LimitedConnection
from tests.unit.serving.routes.replayed import Replayed
from tests.waiting import until

SHORT_S = 0.5
MANY: list[dict[str, object]] = [{"group": f"group {number}", "filling": "x" * 1000} for number in range(10_000)]
"""Ten megabytes."""


class Large(Replayed):
    """Many groups; each answer waits for its turn where there is a gate."""

    def __init__(self, rows: list[dict[str, object]] | None = None) -> None:
        super().__init__([])
        self.rows = MANY if rows is None else rows
        self.may = threading.Event()
        self.may.set()
        self.asked = 0

    def groups(self) -> list[dict[str, object]]:
        self.asked += 1
        assert self.may.wait(30)
        return self.rows

    def describe(self, group: str) -> dict[str, object] | None:
        raise RuntimeError(f"secret of {group}")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConnection, "request_s", SHORT_S)
    monkeypatch.setattr(LimitedConnection, "answer_s", 2 * SHORT_S)


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port or 0), timeout=60) as it:
        yield it


def ended(it: socket.socket) -> bytes:
    """All that came until the server closed or reset it."""
    came = b""
    with suppress(ConnectionResetError):
        while piece := it.recv(1 << 16):
            came += piece
    return came


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("sent", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: "])
def test_a_request_that_does_not_come_in(sent: bytes) -> None:
    with serving(Replayed([])) as url, connected(url) as it:
        began = time.monotonic()
        it.sendall(sent)
        assert ended(it) == b""
        assert SHORT_S * 0.9 < time.monotonic() - began < 9


@pytest.mark.usefixtures("impatient")
def test_a_request_byte_by_byte() -> None:
    with serving(Replayed([])) as url, connected(url) as it:
        began = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            for number in range(1000):
                it.sendall(b"GET /healthz HTTP/1.1\r\n"[number : number + 1] or b"a")
                time.sleep(0.05)
        assert SHORT_S * 0.9 < time.monotonic() - began < 9


def test_a_connection_that_is_over_leaves_no_cycles() -> None:
    """A thousand a second would stop all threads while Python looks for them."""
    with serving(Replayed([])) as url:
        gc.collect()
        gc.disable()
        try:
            for sent in (b"", GET % b"/healthz", GET % b"/healthz" + b"GET"):
                with connected(url) as it:
                    it.sendall(sent)
                    if sent:
                        assert it.recv(1 << 16)
            with connected(url) as it:
                it.sendall(GET % b"/healthz")
                assert it.recv(1 << 16)
                it.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            until(lambda: not any(isinstance(it, LimitedConnection) for it in gc.get_objects()), 30)
        finally:
            gc.enable()


@pytest.mark.usefixtures("impatient")
def test_idle_between_requests_is_no_crime_but_half_a_second_one_is() -> None:
    with serving(Replayed([])) as url, connected(url) as it:
        for _ in range(2):
            it.sendall(GET % b"/healthz")
            came = b""
            while b"reading\n" not in came:
                came += it.recv(1 << 16)
            time.sleep(2.5 * SHORT_S)
        it.sendall(b"GET /hea")
        assert ended(it) == b""


def test_an_answer_that_nobody_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedConnection, "answer_s", 15.0)
    monkeypatch.setattr(answers, "MAX_WAIT_S", 0.3)
    with serving(Large()) as url, ExitStack() as stack, httpx.Client(base_url=url, timeout=30) as client:
        slow = [stack.enter_context(connected(url)) for _ in range(MAX_IN_FLIGHT)]
        for it in slow:
            it.sendall(GET % b"/api/v1/groups")
            assert it.recv(1), "the answer is there, and is not taken"
        all_over = time.monotonic() + 15.5
        assert client.get("/healthz").status_code == 200
        full = client.get("/api/v1/groups")
        assert (full.status_code, full.json()["error"][:26]) == (503, "too many requests at a tim")
        until(lambda: client.get("/api/v1/status").status_code == 200, 30)
        time.sleep(max(all_over - time.monotonic(), 0))
        assert all(len(ended(it)) < 10_000_000 for it in slow)


def test_a_slow_reader_that_is_not_too_slow() -> None:
    with serving(Large()) as url, connected(url) as it:
        it.sendall(b"GET /api/v1/groups HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        came = 0
        while piece := it.recv(1 << 17):
            came += len(piece)
            time.sleep(0.002)
        assert came > 10_000_000


def test_too_many_large_answers_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_WAIT_S", 60)
    agent = Large([])
    agent.may.clear()
    most = MAX_IN_FLIGHT + MAX_WAITING
    limits = httpx.Limits(max_connections=200)
    with serving(agent) as url, ThreadPoolExecutor(most + 10) as pool, httpx.Client(limits=limits) as client:
        asked = [pool.submit(client.get, url + "/api/v1/groups", timeout=60) for _ in range(most + 10)]
        refused = first_done(asked, 10)
        assert {it.status_code for it in refused} == {503}
        assert refused[0].json()["error"].startswith("too many requests at a time")
        assert "retry-after" in refused[0].headers
        assert client.get(url + "/healthz").status_code == 200
        assert agent.asked == MAX_THREADS
        agent.may.set()
        assert sum(it.result().status_code == 200 for it in asked) == most


def first_done(asked: list[Future[httpx.Response]], count: int) -> list[httpx.Response]:
    """The first `count` answers."""
    until(lambda: sum(it.done() for it in asked) >= count, 30)
    return [it.result() for it in asked if it.done()]


def test_who_went_away_is_not_worked_for() -> None:
    agent = Large([])
    agent.may.clear()
    with serving(agent) as url:
        with ExitStack() as stack:
            for _ in range(MAX_IN_FLIGHT + 20):
                stack.enter_context(connected(url)).sendall(GET % b"/api/v1/groups")
            until(lambda: agent.asked >= MAX_THREADS, 30)
        # Who is answered now came after those that went, which the server has seen by then.
        for _ in range(3):
            assert httpx.get(url + "/healthz").status_code == 200
        agent.may.set()
        assert httpx.get(url + "/api/v1/groups").status_code == 200
        assert agent.asked < MAX_IN_FLIGHT + 5


def allow_sockets() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 6 * MAX_CONNECTIONS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * MAX_CONNECTIONS), hard))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        GET % b"/healthz",  # and then idle, as a browser or a scraper keeps it
        b"GET /healthz HTTP/1.1\r\nHost: ",  # and never the rest
    ],
)
def test_who_holds_connections_keeps_nobody_out(sent: bytes) -> None:
    allow_sockets()
    with serving(Replayed([])) as url, ExitStack() as stack:
        held = []
        for _ in range(MAX_CONNECTIONS + 50):
            held.append(stack.enter_context(connected(url)))
            held[-1].sendall(sent)
        for _ in range(20):
            assert httpx.get(url + "/healthz").status_code == 200
        assert b"HTTP/1.1 503 " not in ended(held[0]), "it has waited longest"


def test_questions_that_wait_for_their_answer_keep_no_probe_out() -> None:
    allow_sockets()
    agent = Large([])
    agent.may.clear()
    with serving(agent) as url, ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS + 50):
            stack.enter_context(connected(url)).sendall(GET % b"/api/v1/groups")
        for _ in range(20):
            assert httpx.get(url + "/healthz").status_code == 200
        agent.may.set()


def test_answers_that_are_not_done_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all connections are being answered, the one whose answer began first gives way."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 12)
    monkeypatch.setattr(connection_limits, "RESERVED_CONNECTIONS", 4)
    agent = Large([])
    agent.may.clear()
    with serving(agent) as url, ExitStack() as stack:
        held = [stack.enter_context(connected(url)) for _ in range(12)]
        for it in held:
            it.sendall(GET % b"/api/v1/groups")
            time.sleep(0.02)
        assert [httpx.get(url + "/healthz").status_code for _ in range(20)] == [200] * 20
        assert ended(held[0]) == b""
        agent.may.set()
        assert held[-1].recv(100).startswith(b"HTTP/1.1 200 ")


def test_those_give_way_whose_address_has_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 12)
    with serving(Replayed([])) as url, ExitStack() as stack:
        address = urlsplit(url)
        place = (address.hostname or "", address.port or 0)
        early = stack.enter_context(connected(url))
        many = [
            stack.enter_context(socket.create_connection(place, 60, source_address=("127.0.0.2", 0)))
            for _ in range(30)
        ]
        assert ended(many[0]) == b""
        early.sendall(GET % b"/healthz")
        assert early.recv(100).startswith(b"HTTP/1.1 200 "), (
            "it has waited longest, and is the only one of its address"
        )


@pytest.mark.parametrize("addresses", [1, 20])
def test_who_connects_again_and_again_is_not_let_in_for_long(monkeypatch: pytest.MonkeyPatch, addresses: int) -> None:
    monkeypatch.setattr(listener, "MAX_BURST", 40)
    monkeypatch.setattr(listener, "MAX_BURST_IN_CROWD", 5)
    monkeypatch.setattr(listener, "MAX_REFUSED", 3)
    # However long it takes to connect: none is forgotten meanwhile.
    for name in ("REST_S", "REST_IN_CROWD_S"):
        monkeypatch.setattr(listener, name, 60)
    with serving(Replayed([])) as url, ExitStack() as stack:
        address = urlsplit(url)
        place = (address.hostname or "", address.port or 0)
        many = []
        for number in range(200):
            source = (f"127.0.0.{2 + number % addresses}", 0)
            many.append(stack.enter_context(socket.create_connection(place, 60, source_address=source)))
        assert ended(many[-1]) == b"", "closed before it is read"
        assert [httpx.get(url + "/healthz").status_code for _ in range(4)] == [200] * 4


LONGEST = b"%1b" * 32_767
"""The longest group name there may be, as an address has it."""
TOO_LONG = b"x" * 1_000_000
"""More than the server ever reads at once (asyncio: 256 KiB): what comes whole is not measured."""


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        (b"/api/v1/groups/" + LONGEST, b"x", 404),  # 1
        (b"/api/v1/findings?group=" + LONGEST, b"x", 200),  # 2
        (b"/api/v1/findings?group=" + TOO_LONG, b"x", 400),  # 3
        (b"/", TOO_LONG, 400),  # 4
    ],
)
def test_long_requests(path: bytes, header: bytes, status: int) -> None:
    with serving(Replayed([])) as url:
        # Who still sends when the answer comes may see the connection reset before it has read that.
        for _ in range(20):
            with connected(url) as it:
                with suppress(ConnectionResetError, BrokenPipeError):
                    it.sendall(
                        b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Some: %s\r\n\r\n"
                        % (path, header)
                    )
                if came := ended(it):
                    break
        assert came.startswith(b"HTTP/1.1 %d " % status)
        assert httpx.get(url + "/healthz").status_code == 200


def test_many_parameters_are_not_read() -> None:
    with serving(Replayed([])) as url:
        assert httpx.get(url + "/api/v1/findings?" + "a&" * 99).status_code == 200
        refused = httpx.get(url + "/api/v1/findings?" + "a&" * 20_000)
        assert (refused.status_code, refused.json()) == (400, {"error": "expected at most 100 parameters"})


def test_many_lines_are_not_read() -> None:
    with serving(Replayed([])) as url, connected(url) as it:
        for _ in range(3):
            it.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 400 + b"\r\n")
            came = b""
            while b"reading\n" not in came:
                came += it.recv(1 << 16)
        with suppress(ConnectionResetError, BrokenPipeError):
            it.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"x: y\r\n" * 20_000 + b"\r\n")
        assert ended(it) == b""


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_bodies(method: str) -> None:
    with serving(Replayed([])) as url, httpx.Client(base_url=url) as client:
        for body in (b"x" * 10, iter([b"x"] * 10)):
            answer = client.request(method, "/healthz", content=body)
            assert answer.status_code == 413
            assert answer.headers["connection"] == "close"
        assert client.get("/healthz").status_code == 200


def test_a_body_without_end_is_not_read() -> None:
    with serving(Replayed([])) as url, connected(url) as it:
        it.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        with suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(1000):
                it.sendall(b"x" * 10_000)
            pytest.fail("ten megabytes were taken")


def test_what_is_no_http(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Replayed([])) as url:
        for sent in (
            b"\x16\x03\x01\x02\x00",
            b"\x00" * 100,
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\n\r\n",
        ):
            with connected(url) as it:
                it.sendall(sent + b"\r\n\r\n")
                assert ended(it).startswith((b"HTTP/1.1 400 ", b"")), sent
        assert httpx.get(url + "/healthz").status_code == 200
    assert not [it for it in caplog.records if it.exc_info]


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_who_asks_for_another_protocol_is_answered_all_the_same(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Replayed([])) as url:
        answer = httpx.get(url + "/healthz", headers={"Connection": "Upgrade", "Upgrade": protocol})
    assert answer.status_code == 200
    assert [it.getMessage() for it in caplog.records if it.levelno > logging.INFO] == []


def test_a_mistake_of_ours_stays_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Large([])) as url:
        answer = httpx.get(url + "/api/v1/groups/x")
        assert (answer.status_code, answer.json()) == (
            500,
            {"error": "internal error; the agent's log has the details"},
        )
    (record,) = (it for it in caplog.records if it.levelno >= logging.ERROR)
    assert record.exc_info is not None
    assert "secret of x" in str(record.exc_info[1])


def test_pieces_and_gzip() -> None:
    with serving(Large()) as url, httpx.Client(base_url=url) as client:
        plain = client.get("/api/v1/groups", headers={"Accept-Encoding": "identity"})
        small = client.get("/api/v1/groups", headers={"Accept-Encoding": "gzip"})
        assert plain.json() == small.json() == MANY
        assert "content-encoding" not in plain.headers
        assert small.headers["content-encoding"] == "gzip"
        assert int(small.headers["content-length"]) < int(plain.headers["content-length"]) / 5
        assert small.headers["vary"] == plain.headers["vary"] == "Accept, Accept-Encoding"
        head = client.head("/api/v1/groups", headers={"Accept-Encoding": "gzip"})
        assert (head.content, head.headers["content-length"]) == (b"", small.headers["content-length"])
        few = client.get("/api/v1/findings", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in few.headers, f"less than {answers.MIN_GZIP_BYTES} bytes"


def test_a_stop_lets_requests_end() -> None:
    agent = Large([])
    agent.may.clear()
    server = WebServer(agent).start()
    with httpx.Client(base_url=server.url, timeout=30) as client, ThreadPoolExecutor() as pool:
        assert client.get("/readyz").text == "caught up\n"
        under_way = pool.submit(client.get, "/api/v1/groups")
        while not agent.asked:
            time.sleep(0.01)
        server.drain()
        ready = client.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "stopping\n")
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 200
        assert client.get("/api/v1/status").json()["ready"] is False
        stop = pool.submit(server.stop)
        time.sleep(0.5)
        assert not under_way.done()
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/healthz")
        agent.may.set()
        assert under_way.result().json() == []
        began = time.monotonic()
        stop.result()
        assert time.monotonic() - began < 4


@pytest.mark.parametrize("how", ["an answer that is not taken", "an answer that is never made", "nothing sent"])
def test_a_stop_waits_for_nobody_for_long(how: str) -> None:
    agent = Large([] if "never" in how else None)
    if "never" in how:
        agent.may.clear()
    server = WebServer(agent).start()
    with connected(server.url) as it:
        if how != "nothing sent":
            it.sendall(GET % b"/api/v1/groups")
            time.sleep(0.5)
        began = time.monotonic()
        server.stop(1)
        assert time.monotonic() - began < 4.5
        agent.may.set()
    assert GRACE_S <= 5
