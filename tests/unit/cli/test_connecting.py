"""`--agent` at an agent behind TLS and a password, and behind things that are none."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from tests.answering import answering_bytes
from tests.unit.cli.hostile import raw
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.cli.test_agent import answering
from tests.unit.serving.routes.replayed import Replayed, of_path
from tests.unit.serving.web.made import SERVER, certificate, guarded, hashed, put

SECRET = "open:sésame"
USERS = f"basic_auth_users:\n  alice: {hashed(SECRET)}\n"
VERIFIED = "  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    it = tmp_path_factory.mktemp("agent")
    ca, other = trustme.CA(), trustme.CA()
    put(it / "ca.crt", ca.cert_pem.bytes())
    put(it / "other.crt", other.cert_pem.bytes())
    certificate(ca, it, "server")
    certificate(ca, it, "client", "sre.example")
    put(it / "both.pem", (it / "client.key").read_bytes() + (it / "client.crt").read_bytes())
    put(it / "password", SECRET + "\n")
    put(it / "lines", "a\nb\n")
    put(it / "empty", "")
    return it


@pytest.fixture(scope="module")
def url(directory: Path) -> Iterator[str]:
    with guarded(directory, SERVER + USERS) as it:
        yield it


def groups(url: str, *options: object, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code, and what was said; where it is 0, all groups were there."""
    result = kshadow("groups", "--agent", url, *options, "-o", "json", env=env)
    assert raw(result.stderr) == []
    for secret in (SECRET, "wrong-secret"):
        assert secret not in result.output
    if result.exit_code == 0:
        assert json.loads(result.stdout) == Replayed(of_path(SEGMENTS)).groups()
    return result.exit_code, result.stderr


def test_the_ways_to_say_who_asks(directory: Path, url: str) -> None:
    ca, password = ("--agent-ca", directory / "ca.crt"), {"KSHADOW_AGENT_PASSWORD": SECRET}
    file = ("--agent-password-file", directory / "password")
    assert groups(url, *ca, "--agent-user", "alice", env=password) == (0, "")
    assert groups(url, *ca, "--agent-user", "alice", *file) == (0, "")
    assert groups(url.replace("//", "//alice@"), *ca, env=password) == (0, "")
    assert groups(url.replace("//", "//a%6cice@") + "/", *ca, *file) == (0, "")
    everything = {**password, "KSHADOW_AGENT_USER": "alice", "KSHADOW_AGENT_CA": str(directory / "ca.crt")}
    assert groups(url, env=everything) == (0, "")
    assert groups(url, *file, env={**everything, "KSHADOW_AGENT_PASSWORD": "wrong-secret"}) == (0, "")


def test_who_is_not_let_in(directory: Path, url: str) -> None:
    ca = ("--agent-ca", directory / "ca.crt")
    for options, env in (((), {}), (("--agent-user", "alice"), {"KSHADOW_AGENT_PASSWORD": "wrong-secret"})):
        code, said = groups(url, *ca, *options, env=env)
        assert code == 3
        assert f"{url}/api/v1/groups answered 401 Unauthorized: a user's name and password are needed; " in said
        assert "--agent-user says who asks, KSHADOW_AGENT_PASSWORD or --agent-password-file has the password" in said


def test_who_is_not_trusted(directory: Path, url: str) -> None:
    for options in ((), ("--agent-ca", directory / "other.crt")):
        code, said = groups(url, *options)
        assert code == 3
        assert "its certificate is not to be trusted: " in said
        assert "--agent-ca names the certificate of who signed it" in said
    code, said = groups(url.replace("127.0.0.1", "127.0.0.2"), "--agent-ca", directory / "ca.crt")
    assert (code, "IP address mismatch" in said or "no agent answers" in said) == (3, True)


def test_one_that_has_expired_is_to_be_renewed(tmp_path: Path) -> None:
    ca = trustme.CA()
    put(tmp_path / "ca.crt", ca.cert_pem.bytes())
    expired = ca.issue_cert("127.0.0.1", not_after=datetime.now(UTC) - timedelta(hours=1))
    put(tmp_path / "server.key", expired.private_key_pem.bytes())
    put(tmp_path / "server.crt", expired.cert_chain_pems[0].bytes())
    with guarded(tmp_path, SERVER) as url:
        code, said = groups(url, "--agent-ca", tmp_path / "ca.crt")
    assert code == 3
    assert "certificate has expired; the certificate of its --web-config is to be renewed" in said
    assert "--agent-ca" not in said


def test_certificates_of_who_asks(directory: Path, tmp_path: Path) -> None:
    for name in ("server.crt", "server.key", "ca.crt"):
        put(tmp_path / name, (directory / name).read_bytes())
    with guarded(tmp_path, SERVER + VERIFIED) as url:
        ca = ("--agent-ca", directory / "ca.crt")
        assert groups(url, *ca, "--agent-cert", directory / "both.pem") == (0, "")
        key = ("--agent-key", directory / "client.key")
        assert groups(url, *ca, "--agent-cert", directory / "client.crt", *key) == (0, "")
        code, said = groups(url, *ca)
        assert code == 3
        assert "does it want a certificate of who asks (--agent-cert)?" in said


def test_schemes_taken_for_each_other(directory: Path, url: str) -> None:
    code, said = groups(url.replace("https", "http"))
    assert (code, "no agent answers at http://" in said) == (3, True)
    with answering(200, b"[]") as plain:
        code, said = groups(plain.replace("http", "https"))
        assert (code, "is it https:// there" in said) == (3, True)


def test_a_redirection_is_not_followed(directory: Path) -> None:
    """It would carry the password elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        location = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"
        head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        with answering_bytes(head.encode()) as port:
            file = ("--agent-password-file", directory / "password")
            code, said = groups(f"http://127.0.0.1:{port}", "--agent-user", "alice", *file)
            assert (code, "answered 302 Found" in said) == (3, True)
        elsewhere.settimeout(0.2)
        with pytest.raises(TimeoutError):
            elsewhere.accept()


WRONG = [
    (
        ("http://u:p@localhost:1",),
        {},
        "no password in a URL, where everyone sees it: use KSHADOW_",
    ),  # 1
    (("http://localhost:1/?x",), {}, "expected a URL without #, and behind ? no more than cluster=NAME"),  # 2
    (("https://localhost:1", "--agent-user", "alice"), {}, "--agent-user needs a password: "),  # 3
    (("https://alice@localhost:1",), {}, "--agent-user needs a password: "),  # 4
    (("https://localhost:1", "--agent-user", "a:b"), {"KSHADOW_AGENT_PASSWORD": "x"}, "without colon"),  # 5
    (("https://localhost:1", "--agent-password-file", "{}/password"), {}, "goes with --agent-user"),  # 6
    (("https://a@localhost:1", "--agent-password-file", "{}/no"), {}, "{}/no: No such file or directory"),  # 7
    (("https://a@localhost:1", "--agent-password-file", "{}/lines"), {}, "{}/lines: expected one line"),  # 8
    (("https://a@localhost:1", "--agent-password-file", "{}/empty"), {}, "{}/empty: expected one line"),  # 9
    (("https://localhost:1", "--agent-ca", "{}/no"), {}, "--agent-ca {}/no: No such file or directory"),  # 10
    (("https://localhost:1", "--agent-ca", "{}/password"), {}, "--agent-ca {}/password: no PEM"),  # 11
    (("https://localhost:1", "--agent-cert", "{}/password"), {}, "--agent-cert {}/password: no PEM"),  # 12
    (("https://localhost:1", "--agent-key", "{}/client.key"), {}, "--agent-key goes with --agent-cert"),  # 13
    (("http://localhost:1", "--agent-ca", "{}/ca.crt"), {}, "--agent-ca goes with https://"),  # 14
    (("http://localhost:1?cluster=",), {}, "behind ? no more than cluster=NAME"),  # 15
    (("http://localhost:1?cluster=eu&cluster=us",), {}, "behind ? no more than cluster=NAME"),  # 16
]


@pytest.mark.parametrize(("arguments", "env", "said"), WRONG)
def test_wrong_usage(directory: Path, arguments: tuple[str, ...], env: dict[str, str], said: str) -> None:
    code, told = groups(*(it.replace("{}", str(directory)) for it in arguments), env=env)
    assert code == 2
    assert said.replace("{}", str(directory)) in " ".join(told.split())


def test_without_an_agent() -> None:
    result = kshadow("groups", "--from", SEGMENTS, "--agent-user", "alice")
    assert (result.exit_code, "--agent-user goes with --agent" in result.stderr) == (2, True)
    assert kshadow("groups", "--from", SEGMENTS, env={"KSHADOW_AGENT_USER": "alice"}).exit_code == 0


def test_a_password_in_the_clear(directory: Path) -> None:
    """Said where it leaves the machine."""
    options = ("--agent-user", "alice", "--agent-password-file", directory / "password")
    assert "shows the password" in groups("http://kshadow.invalid:1", *options)[1]
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert "shows the password" not in groups(f"http://{host}:1", *options)[1]
