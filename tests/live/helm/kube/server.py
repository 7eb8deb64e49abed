"""A Kubernetes API server with its etcd, on loopback, for as long as a test session lasts."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agent.tools.embedded import ProcessReaper
from agent.tools.embedded.ports import free_ports
from tests.live.helm.kube.api import Api

_START_S = 60.0
_STOP_S = 10.0


class Programs(NamedTuple):
    """The two programs it takes."""

    etcd: Path
    apiserver: Path


LOOPBACK = "127.0.0.1"


class Server(NamedTuple):
    """One that answers. `api` is asked as one who may do everything, as is who brings `kubeconfig`."""

    api: Api
    kubeconfig: Path


class RestartableServer:
    """One that can be killed and started again over the same etcd, under the same address."""

    def __init__(self, server: Server, etcd: str, start: Callable[[], AbstractContextManager[object]]) -> None:
        """`etcd` is its URL; `start` gives the server's process, once it is ready."""
        self.server, self.etcd = server, etcd
        self._start, self._running = start, ExitStack()

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._running.enter_context(self._start())

    def kill(self) -> None:
        """End it."""
        self._running.close()


@contextmanager
def restartable(
    programs: Programs, directory: Path, more: Sequence[str] = (), *, host: str = LOOPBACK, port: int | None = None
) -> Iterator[RestartableServer]:
    """As `running`, of one that can be started again; `more` are flags of the API server."""
    etcd_port, peer_port, free_port = free_ports(3)
    port = free_port if port is None else port
    token = secrets.token_hex(16)
    keys = _make_keys(directory)
    tokens = directory / "tokens.csv"
    tokens.write_text(f"{token},admin,1,system:masters\n")
    command = [*_apiserver(programs, directory, etcd_port, (host, port), keys, tokens), *more]
    url, authority = f"https://{host}:{port}", directory / "certs" / "apiserver.crt"
    log = directory / "apiserver.log"

    @contextmanager
    def started(leash: ProcessReaper) -> Iterator[None]:
        with child(leash, command, log) as process:
            _await_ready(url, authority, token, process, log)
            yield

    with (
        closing(ProcessReaper()) as leash,
        child(leash, _etcd(programs, directory, etcd_port, peer_port), directory / "etcd.log"),
        ExitStack() as first,
    ):
        first.enter_context(started(leash))
        with Api(url, authority, token) as api:
            server = Server(api, _kubeconfig(directory / "kubeconfig", url, authority, token))
            it = RestartableServer(server, f"http://127.0.0.1:{etcd_port}", lambda: started(leash))
            it._running = first.pop_all()
            try:
                yield it
            finally:
                it.kill()


@contextmanager
def running(programs: Programs, directory: Path, host: str = LOOPBACK, port: int | None = None) -> Iterator[Server]:
    """Start both below `directory`, and end both, whatever happens: if this process is killed, a leash does it. The
    server listens at an address of this machine, on a free port unless told.

    Raises `AssertionError` with the last lines of its log where the server does not get ready.
    """
    with restartable(programs, directory, host=host, port=port) as it:
        yield it.server


def _etcd(programs: Programs, directory: Path, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(programs.etcd),
        f"--data-dir={directory / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def _apiserver(
    programs: Programs,
    directory: Path,
    etcd_port: int,
    address: tuple[str, int],
    keys: tuple[Path, Path],
    tokens: Path,
) -> list[str]:
    (host, port), (private, public) = address, keys
    return [
        str(programs.apiserver),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--bind-address={host}",
        f"--advertise-address={host}",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={directory / 'certs'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={private}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/24",
        # As every installation has it: so that Pod Security alone refuses it.
        "--allow-privileged=true",
    ]


@contextmanager
def child(leash: ProcessReaper, command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs meanwhile; what it prints goes to a file."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    leash.watch(process.pid)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        leash.release(process.pid)


def _await_ready(url: str, authority: Path, token: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not (authority.exists() and Api.is_ready(url, authority, token)):
        ended = process.poll()
        assert ended is None, f"the API server ended with {ended}: {_last(log)}"
        assert time.monotonic() < deadline, f"the API server is not ready after {_START_S:.0f} s: {_last(log)}"
        time.sleep(0.1)


def _last(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-10:])


def _make_keys(directory: Path) -> tuple[Path, Path]:
    """For the tokens of service accounts: the private and the public one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = directory / "sa.key", directory / "sa.pub"
    pem = serialization.Encoding.PEM
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def _kubeconfig(path: Path, url: str, authority: Path, token: str) -> Path:
    cluster = {"name": "it", "cluster": {"server": url, "certificate-authority": str(authority)}}
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "users": [{"name": "admin", "user": {"token": token}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
                "current-context": "it",
            }
        )
    )
    return path
