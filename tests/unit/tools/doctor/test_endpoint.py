"""Addresses where no broker is, or one that is in the way of its clients."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agent.tools.doctor.checks import Check, CheckOutcome
from agent.tools.doctor.endpoint import probe
from agent.tools.embedded.ports import free_ports
from tests.live.scenarios.certificates import DAY, Authority, Signed

Talk = Callable[[socket.socket], None]


@contextlib.contextmanager
def listening(talk: Talk) -> Iterator[int]:
    """A server that talks to whoever comes; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()

        def serve() -> None:
            while not stopped.is_set():
                with contextlib.suppress(OSError):
                    client, _ = server.accept()
                    with client:
                        client.settimeout(5)
                        talk(client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port: int = server.getsockname()[1]
        yield port
        stopped.set()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
        thread.join(5)


def web_server(client: socket.socket) -> None:
    client.recv(1000)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def silent(client: socket.socket) -> None:
    with contextlib.suppress(TimeoutError):
        while client.recv(1000):
            pass


def dripping(client: socket.socket) -> None:
    """Soon has more to say, each time, for three seconds."""
    client.sendall(b"\0\0\x10\0")
    with contextlib.suppress(OSError):
        for _ in range(60):
            client.sendall(b"\0")
            time.sleep(0.05)


def by_tls(signed: Signed, talk: Talk) -> Talk:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(client, server_side=True) as stream:
            talk(stream)

    return serve


def last(port: int, host: str = "127.0.0.1", timeout_s: float = 5, **properties: str) -> Check:
    conf = {name.replace("_", "."): value for name, value in properties.items()}
    return probe(host, port, conf, timeout_s).checks[-1]


def test_a_name_that_nobody_knows() -> None:
    check = last(9092, host="no-such-host.invalid")
    assert (check.check, check.outcome) == ("name", CheckOutcome.FAILED)
    assert "getent hosts no-such-host.invalid" in check.fix[0]


def test_a_port_where_nobody_listens() -> None:
    check = last(free_ports(1)[0])
    assert (check.check, check.outcome) == ("connection", CheckOutcome.FAILED)
    assert "nothing listens" in check.found


@pytest.mark.parametrize(
    ("talk", "found"), [(web_server, "no Kafka broker"), (silent, "no answer: "), (dripping, "no answer: ")]
)
def test_what_is_no_broker(talk: Talk, found: str, tmp_path: Path) -> None:
    with listening(talk) as port:
        check = last(port, timeout_s=0.5)
        assert (check.check, check.outcome) == ("protocol", CheckOutcome.FAILED)
        assert found in check.found
        check = last(port, timeout_s=0.5, security_protocol="ssl")
        assert (check.check, check.outcome) == ("tls", CheckOutcome.FAILED)
    authority = Authority(tmp_path)
    with listening(by_tls(authority.sign("web"), talk)) as port:
        check = last(port, timeout_s=0.5, security_protocol="ssl", ssl_ca_location=str(authority.file))
        assert (check.check, check.outcome) == ("protocol", CheckOutcome.FAILED)
        assert found in check.found


@pytest.mark.parametrize(
    ("hosts", "begins_in", "ends_in", "found"),
    [
        (["127.0.0.1"], -30 * DAY, -3 * DAY, r"has expired; its own time ended 3 days ago"),
        (["127.0.0.1"], DAY, 9 * DAY, r"not good before 20\d\d-"),
        (
            ["kafka.example.com", "10.1.2.3"],
            -DAY,
            DAY,
            r"not for 127\.0\.0\.1, but for kafka\.example\.com, 10\.1\.2\.3",
        ),
        (["127.0.0.1"], -DAY, 300 * DAY, r"signed by the other authority, which is not among those in "),
    ],
    ids=["expired", "not yet", "wrong host", "unknown authority"],
)
def test_a_certificate_that_is_not_good(
    hosts: list[str], begins_in: timedelta, ends_in: timedelta, found: str, tmp_path: Path
) -> None:
    ours, other = Authority(tmp_path / "ours", "our authority"), Authority(tmp_path / "other", "the other authority")
    signer = other if "other" in found else ours
    signed = signer.sign("broker", hosts=hosts, begins_in=begins_in, ends_in=ends_in)
    with listening(by_tls(signed, silent)) as port:
        check = last(port, security_protocol="ssl", ssl_ca_location=str(ours.file))
        assert (check.check, check.outcome) == ("certificate", CheckOutcome.FAILED)
        assert re.search(found, check.found), check


def test_a_certificate_that_ends_soon_is_a_warning(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with listening(by_tls(authority.sign("broker", ends_in=3 * DAY + timedelta(hours=1)), silent)) as port:
        conf = {"security.protocol": "ssl", "ssl.ca.location": str(authority.file)}
        checks = {it.check: it for it in probe("127.0.0.1", port, conf, 0.5).checks}
        assert checks["certificate"].outcome is CheckOutcome.WARNING
        assert "that is in 3 days" in checks["certificate"].found


def test_a_broker_that_goes_while_it_is_looked_at(tmp_path: Path) -> None:
    """The doctor ended with a traceback."""
    authority = Authority(tmp_path)
    talk = by_tls(authority.sign("broker"), silent)

    def serve() -> None:
        server.accept()[0].close()
        client, _ = server.accept()
        server.close()
        with client:
            talk(client)

    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        check = last(port, security_protocol="ssl", ssl_ca_location=str(authority.file))
        thread.join(5)
    assert (check.check, check.outcome) == ("tls", CheckOutcome.FAILED)
    assert "Connection refused" in check.found


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    with listening(silent) as port:
        check = last(port, security_protocol="ssl", ssl_ca_location=str(tmp_path / "none.pem"))
        assert (check.check, check.outcome) == ("tls", CheckOutcome.FAILED)
        assert "none.pem: No such file" in check.found
