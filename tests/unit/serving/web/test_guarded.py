"""A server behind a web-config file: passwords, certificates, and files that change while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import trustme

from agent.serving import server
from agent.serving.web import listener
from agent.serving.web import users as users_module
from agent.serving.web.config import WebConfigError
from agent.serving.web.config_file import WebConfigFile
from agent.serving.web.users import MAX_WAITING, MAX_WRONG, NAME_CLASSES
from tests.unit.serving.routes.replayed import Replayed
from tests.unit.serving.web.made import SERVER, certificate, guarded, hashed, put

PROTECTED = ("/", "/metrics", "/api/v1/groups", "/api/v1/status", "/api/v1/findings", "/no/such/thing")


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(ca: trustme.CA, tmp_path: Path) -> Path:
    certificate(ca, tmp_path, "server")
    put(tmp_path / "ca.crt", ca.cert_pem.bytes())
    return tmp_path


def trusting(ca: trustme.CA, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


def connected(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSocket:
    with socket.create_connection((host, port)) as plain:
        return context.wrap_socket(plain, server_hostname=host)


def users(**passwords: str) -> str:
    return "basic_auth_users:\n" + "".join(f"  {name}: {hashed(it)}\n" for name, it in passwords.items())


def test_passwords(tmp_path: Path) -> None:
    with guarded(tmp_path, users(alice="wonder:land", bob="größe")) as url:
        for path in PROTECTED:
            answer = httpx.get(url + path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert answer.json() == {"error": "a user's name and password are needed"}
        for good in (("alice", "wonder:land"), ("bob", "größe".encode())):
            for _ in range(2):  # checked, and remembered
                assert httpx.get(url + "/metrics", auth=httpx.BasicAuth(*good)).status_code == 200
        for bad in (("alice", "größe"), ("alice", ""), ("mallory", "wonder:land"), ("", "")):
            for _ in range(2):
                assert httpx.get(url + "/metrics", auth=bad).status_code == 401
        for header in ("Basic", "Basic !!!", "Basic YWxpY2U=", "Bearer x", "basic", "Basic ="):
            assert httpx.get(url + "/metrics", headers={"Authorization": header}).status_code == 401


def test_probes_need_no_password_and_get_one_word(tmp_path: Path) -> None:
    replayed = Replayed([], stopped="reading has stopped: b-1.secret.example is gone")
    with guarded(tmp_path, users(alice="x"), replayed) as url:
        answers = [httpx.get(url + path) for path in ("/healthz", "/readyz")]
        assert [(it.status_code, it.text) for it in answers] == [(200, "yes\n"), (503, "no\n")]
        assert httpx.get(url + "/readyz", auth=("alice", "x")).text == replayed.ready().reason + "\n"
        assert httpx.get(url + "/readyz/", auth=("alice", "y")).status_code == 401


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that were hashed."""
    seen: list[bytes] = []
    really = users_module._matches

    def counted(password: bytes, hashed: bytes) -> bool:
        seen.append(password)
        return really(password, hashed)

    monkeypatch.setattr(users_module, "_matches", counted)
    return seen


def test_a_password_is_checked_once(tmp_path: Path, checks: list[bytes]) -> None:
    with guarded(tmp_path, users(alice="x")) as url, httpx.Client(base_url=url) as client:
        for password in ("x", "wrong", "x", "wrong"):
            client.get("/metrics", auth=("alice", password))
        client.get("/metrics", auth=("mallory", "x"))
        assert checks == [b"x", b"wrong", b"x"], "a name that is not there costs as much"
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: client.get("/api/v1/status", auth=("alice", "y")), range(8)))
        assert checks.count(b"y") == 1, "several at a time wait for the one check"


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_module, "MAX_WRONG", 10_000)
    monkeypatch.setattr(users_module, "MAX_WRONG_OF_NAME", 10_000)


@pytest.mark.usefixtures("unlimited")
def test_guesses_do_not_drive_out_who_knows(
    tmp_path: Path, checks: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users_module, "MAX_CACHED", 20)
    with guarded(tmp_path, users(alice="x")) as url, httpx.Client(base_url=url) as client:
        assert client.get("/api/v1/status", auth=("alice", "x")).status_code == 200
        codes = {client.get("/metrics", auth=("alice", str(it))).status_code for it in range(25)}
        assert codes == {401}
        assert client.get("/api/v1/status", auth=("alice", "x")).status_code == 200
        assert checks.count(b"x") == 1
        assert client.get("/metrics", auth=("alice", "0")).status_code == 401
        assert checks.count(b"0") == 2, "the oldest is forgotten"


def from_address(url: str, address: str) -> httpx.Client:
    return httpx.Client(base_url=url, transport=httpx.HTTPTransport(local_address=address), timeout=60)


def test_guesses_are_limited_by_address_and_name(tmp_path: Path, checks: list[bytes]) -> None:
    with guarded(tmp_path, users(alice="x", bob="y")) as url, from_address(url, "127.0.0.2") as guesser:

        def code(client: httpx.Client, name: str, password: str) -> int:
            return client.get("/api/v1/status", auth=(name, password)).status_code

        assert code(guesser, "bob", "y") == 200
        codes = [code(guesser, "alice", f"guess {it}") for it in range(MAX_WRONG + 5)]
        assert codes == [401] * MAX_WRONG + [429] * 5
        assert len(checks) == MAX_WRONG + 1, "what is refused is not looked at"
        refused = guesser.get("/api/v1/status", auth=("alice", "x"))
        assert (refused.status_code, refused.headers["connection"]) == (429, "close"), "not even the right one"
        assert code(guesser, "bob", "y") == 200, "who is remembered gets in"
        probe = guesser.get("/healthz", auth=("alice", "guess"))
        assert (probe.status_code, probe.text) == (200, "yes\n"), "a probe is answered"
        with from_address(url, "127.0.0.3") as client:
            assert code(client, "alice", "x") == 200
            assert code(client, "bob", "y") == 200
            assert checks.count(b"y") == 2, "an answer is remembered for its address"
        # A new name each time is no way out, and tells nothing of which there are.
        codes = [code(guesser, f"name {it}", "x") for it in range(NAME_CLASSES * MAX_WRONG)]
        assert 429 in codes
        assert code(guesser, "bob", "y") == 200


def test_many_addresses_that_guess_at_a_name_do_not_close_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_module, "MAX_WRONG_OF_NAME", 6)
    with guarded(tmp_path, users(alice="x")) as url:

        def code(address: str, password: str) -> int:
            with from_address(url, address) as client:
                return client.get("/api/v1/status", auth=("alice", password)).status_code

        assert [code(f"127.0.1.{it}", "guess") for it in range(1, 8)] == [401] * 7
        assert code("127.0.1.1", "another guess") == 429
        assert code("127.0.0.2", "x") == 200
        assert code("127.0.0.3", "guess") == 401


def test_who_did_not_guess_is_looked_at_first(tmp_path: Path) -> None:
    text = f"basic_auth_users:\n  alice: {hashed('x', cost=10)}\n"
    with guarded(tmp_path, text) as url, ExitStack() as stack, ThreadPoolExecutor(MAX_WAITING + 20) as pool:
        guessers = [stack.enter_context(from_address(url, f"127.0.2.{it}")) for it in range(1, 21)]

        def code(client: httpx.Client, password: str) -> int:
            return client.get("/api/v1/status", auth=("alice", password)).status_code

        first = [pool.submit(code, it, "guess") for it in guessers]
        assert {it.result() for it in first} == {401}
        guesses = [pool.submit(code, it, f"guess {n}") for n in range(4) for it in guessers]
        while not any(it.done() for it in guesses):
            time.sleep(0.01)
        with from_address(url, "127.0.0.2") as client:
            assert code(client, "x") == 200
            assert client.get("/healthz").status_code == 200
        assert not all(it.done() for it in guesses), "they wait behind"
        codes = {it.result() for it in guesses}
        assert codes == {401, 429}


def test_headers(tmp_path: Path) -> None:
    config = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Content-Security-Policy: sandbox\n"
    with guarded(tmp_path, config) as url:
        for path in ("/", "/metrics", "/no", "/healthz"):
            answer = httpx.get(url + path)
            assert answer.headers.get_list("content-security-policy") == ["sandbox"]
            assert answer.headers["x-frame-options"] == "deny"
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_tls(ca: trustme.CA, secure: Path) -> None:
    with guarded(secure, SERVER) as url:
        assert url.startswith("https://127.0.0.1:")
        with httpx.Client(verify=trusting(ca)) as client:
            assert client.get(url + "/metrics").status_code == 200
            assert client.get(url + "/readyz").text == "caught up\n"
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            httpx.get(url + "/metrics")
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(url.replace("https", "http") + "/metrics")


def test_tls_versions_and_ciphers(ca: trustme.CA, secure: Path) -> None:
    chosen = "  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n"
    with guarded(secure, SERVER + chosen) as url:
        context = trusting(ca)
        host, port = url.removeprefix("https://").split(":")
        with connected(context, host, int(port)) as connection:
            assert (connection.version(), connection.cipher()) == (
                "TLSv1.2",
                ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256),
            )
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with pytest.raises(ssl.SSLError):
            connected(context, host, int(port))


def test_a_handshake_that_does_not_come(secure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.5)
    with guarded(secure, SERVER) as url:
        host, port = url.removeprefix("https://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as plain:
            began = time.monotonic()
            assert plain.recv(1) == b""
            assert 0.4 < time.monotonic() - began < 9


def test_handshakes_that_do_not_come_keep_nobody_out(
    ca: trustme.CA, secure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MAX_HANDSHAKES", 10)
    with guarded(secure, SERVER) as url, ExitStack() as stack:
        host, port = url.removeprefix("https://").split(":")
        held = [stack.enter_context(socket.create_connection((host, int(port)), 10)) for _ in range(30)]
        began = time.monotonic()
        assert held[0].recv(1) == b"", "the oldest ends"
        assert time.monotonic() - began < 5
        assert httpx.get(url + "/healthz", verify=trusting(ca)).status_code == 200
        held[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            held[-1].recv(1)


VERIFIED = SERVER + "  client_ca_file: ca.crt\n  client_auth_type: "
REFUSED = (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError)
"""With TLS 1.3 a client finds out when it reads that its certificate was not taken."""


def test_client_certificates(ca: trustme.CA, secure: Path) -> None:
    ours, others = ca.issue_cert("prometheus.example"), trustme.CA().issue_cert("prometheus.example")
    with guarded(secure, VERIFIED + "RequireAndVerifyClientCert") as url:
        assert httpx.get(url + "/healthz", verify=trusting(ca, ours)).status_code == 200
        for bad in (None, others):
            with pytest.raises(REFUSED):
                httpx.get(url + "/healthz", verify=trusting(ca, bad))
    with guarded(secure, VERIFIED + "VerifyClientCertIfGiven") as url:
        for good in (None, ours):
            assert httpx.get(url + "/healthz", verify=trusting(ca, good)).status_code == 200
        with pytest.raises(REFUSED):
            httpx.get(url + "/healthz", verify=trusting(ca, others))


@pytest.mark.parametrize(
    ("allowed", "name"),
    [
        ("prometheus.example", "prometheus.example"),  # 1
        ("*.example", "*.example"),  # 2: exactly so, no pattern
        ("10.1.2.3", "10.1.2.3"),  # 3
        ("2001:db8::1", "2001:db8::1"),  # 4
        ("sre@example.org", "sre@example.org"),  # 5
    ],
)
def test_client_names(ca: trustme.CA, secure: Path, allowed: str, name: str) -> None:
    sans = f"\n  client_allowed_sans: ['{allowed}', other.example]\n"
    with guarded(secure, VERIFIED + "RequireAndVerifyClientCert" + sans) as url:
        good, bad = trusting(ca, ca.issue_cert(name)), trusting(ca, ca.issue_cert("prometheus.example.org"))
        assert httpx.get(url + "/healthz", verify=good).status_code == 200
        with pytest.raises(REFUSED):
            httpx.get(url + "/healthz", verify=bad)


def test_an_intermediate_as_client_ca(ca: trustme.CA, secure: Path) -> None:
    """As with the toolkit, what stands in the file is trusted, whoever signed it."""
    inner = ca.create_child_ca()
    put(secure / "ca.crt", inner.cert_pem.bytes())
    with guarded(secure, VERIFIED + "RequireAndVerifyClientCert") as url:
        assert httpx.get(url + "/healthz", verify=trusting(ca, inner.issue_cert("p.example"))).status_code == 200
        with pytest.raises(REFUSED):
            httpx.get(url + "/healthz", verify=trusting(ca, ca.issue_cert("p.example")))


def serial(ca: trustme.CA, url: str) -> str:
    host, port = url.removeprefix("https://").split(":")
    with connected(trusting(ca), host, int(port)) as connection:
        certificate = connection.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_a_certificate_that_rotates(ca: trustme.CA, secure: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Kubernetes does it: a symbolic link to a folder is replaced. A request under way notices nothing."""

    def folder(name: str) -> None:
        (secure / name).mkdir()
        certificate(ca, secure / name, "tls")
        beside = secure / "data.new"
        beside.symlink_to(name)
        beside.replace(secure / "data")

    folder("one")
    config = "tls_server_config:\n  cert_file: data/tls.crt\n  key_file: data/tls.key\n"
    with guarded(secure, config) as url, httpx.Client(verify=trusting(ca)) as kept:
        assert kept.get(url + "/healthz").status_code == 200
        first = serial(ca, url)
        assert serial(ca, url) == first
        folder("two")
        second = serial(ca, url)
        assert second != first
        assert kept.get(url + "/healthz").status_code == 200
        with caplog.at_level(logging.INFO, logger="kshadow"):
            # Torn: the key is no longer the certificate's. What was there stays, and it is said once.
            certificate(ca, secure / "two", "other")
            put(secure / "two" / "tls.key", (secure / "two" / "other.key").read_bytes())
            assert [serial(ca, url) for _ in range(3)] == [second] * 3
            assert [it.levelname for it in caplog.records if it.levelno > logging.INFO] == ["ERROR"]
            assert "what was read before stays in force" in caplog.text
            # And whole again.
            put(secure / "two" / "tls.crt", (secure / "two" / "other.crt").read_bytes())
            assert serial(ca, url) not in (first, second)


def test_users_that_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with guarded(tmp_path, users(alice="one")) as url, httpx.Client(base_url=url) as client:

        def code(name: str, password: str) -> int:
            return client.get("/api/v1/status", auth=(name, password)).status_code

        assert [code("alice", "one"), code("bob", "two")] == [200, 401]
        put(tmp_path / "web.yml", users(alice="new", bob="two"))
        assert [code("alice", "one"), code("alice", "new"), code("bob", "two")] == [401, 200, 200]
        put(tmp_path / "web.yml", users(bob="two"))
        assert [code("alice", "new"), code("bob", "two")] == [401, 200]
        with caplog.at_level(logging.ERROR, logger="kshadow"):
            for bad in ("basic_auth_users: {bob: two}", "rate_limit: {}", "\xff", SERVER):
                caplog.clear()
                put(tmp_path / "web.yml", bad)
                assert [code("bob", "two") for _ in range(3)] == [200] * 3
                assert len(caplog.records) == 1, bad
            os.remove(tmp_path / "web.yml")
            assert code("bob", "two") == 200
            assert "No such file" in caplog.text
            for cut in ("", "basic_auth_users:\n"):
                put(tmp_path / "web.yml", cut)
                assert client.get("/api/v1/status").status_code == 401, "a file that is half written opens nothing"
                assert code("bob", "two") == 200
                assert "passwords are switched off by a restart only" in caplog.text
                caplog.clear()
        put(tmp_path / "web.yml", users(alice="new"))
        assert [code("alice", "new"), code("bob", "two")] == [200, 401]


def test_users_that_come_later(tmp_path: Path) -> None:
    with guarded(tmp_path, "") as url:
        assert httpx.get(url + "/api/v1/status").status_code == 200
        put(tmp_path / "web.yml", users(alice="one"))
        assert httpx.get(url + "/api/v1/status").status_code == 401
        assert httpx.get(url + "/api/v1/status", auth=("alice", "one")).status_code == 200


def test_a_cert_that_comes_later_than_the_file_that_names_it(ca: trustme.CA, secure: Path) -> None:
    with guarded(secure, SERVER) as url:
        first = serial(ca, url)
        put(secure / "web.yml", SERVER.replace("server.", "next."))
        assert serial(ca, url) == first
        certificate(ca, secure, "next")
        assert serial(ca, url) != first


def lacking(name: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).unlink()


def holding(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_bytes(content)


BROKEN: list[tuple[Callable[[Path], object], str]] = [
    (lacking("web.yml"), "web.yml: No such file or directory"),  # 1
    (lacking("server.crt"), "No such file or directory"),  # 2
    (lacking("server.key"), "No such file or directory"),  # 3
    (lacking("ca.crt"), "client_ca_file"),  # 4
    (holding("server.crt", b"x"), "no PEM, or the key of another certificate?"),  # 5
    (holding("ca.crt", b"x"), "client_ca_file"),  # 6
    (holding("web.yml", b"x: 1"), "web.yml: x: unknown"),  # 7
    (holding("web.yml", b"\xff"), "expected UTF-8"),  # 8
    (holding("web.yml", b"#" * (1 << 20) + b"\n"), "expected 1048576 bytes at most"),  # 9
]


@pytest.mark.parametrize(("spoil", "said"), BROKEN)
def test_broken_from_the_start(secure: Path, spoil: Callable[[Path], object], said: str) -> None:
    put(secure / "web.yml", VERIFIED + "RequireAndVerifyClientCert")
    spoil(secure)
    with pytest.raises(WebConfigError) as raised:
        WebConfigFile(secure / "web.yml")
    assert str(raised.value).startswith(f"web config {secure}/web.yml: ")
    assert said in str(raised.value)


def test_a_key_with_a_password(secure: Path) -> None:
    """OpenSSL would ask for it at the terminal, and a pod would hang there."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key((secure / "server.key").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    put(secure / "server.key", locked)
    put(secure / "web.yml", SERVER)
    with pytest.raises(WebConfigError, match="the key needs a password, and there is nobody to ask"):
        WebConfigFile(secure / "web.yml")


def test_a_turn_is_not_given_to_who_went() -> None:
    async def play() -> None:
        checker = users_module.PasswordChecker()
        await checker._wait_for_turn(0)
        gone, there = (asyncio.create_task(checker._wait_for_turn(rank)) for rank in (0, 1))
        await asyncio.sleep(0)
        gone.cancel()
        checker._end_turn()
        await asyncio.wait_for(there, 10)
        checker._end_turn()
        await asyncio.wait_for(checker._wait_for_turn(5), 10)

    # Tests with a browser leave a loop running in this thread.
    with ThreadPoolExecutor(1) as own:
        own.submit(asyncio.run, play()).result()
