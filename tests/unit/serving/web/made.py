"""Certificates, hashes, and a server that they guard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import trustme

from agent.serving.server import serving
from tests.unit.cli.running import SEGMENTS
from tests.unit.serving.routes.replayed import Replayed, of_path


def hashed(password: str, cost: int = 4) -> str:
    """Cheap: tests check many."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode().replace("$2b$", "$2y$")


def put(path: Path, content: str | bytes) -> Path:
    """Replace a file whole, as whoever rotates certificates should."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(beside, path)
    return path


def certificate(ca: trustme.CA, directory: Path, name: str, *hosts: str) -> trustme.LeafCert:
    """`NAME.crt` with its chain, and `NAME.key`."""
    made = ca.issue_cert(*(hosts or ("127.0.0.1", "localhost")))
    put(directory / f"{name}.key", made.private_key_pem.bytes())
    put(directory / f"{name}.crt", b"".join(blob.bytes() for blob in made.cert_chain_pems))
    return made


SERVER = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"


@contextmanager
def guarded(directory: Path, config: str, replayed: Replayed | None = None) -> Iterator[str]:
    """The address of a server with this web-config file, `directory/web.yml`."""
    path = put(directory / "web.yml", config)
    with serving(replayed or Replayed(of_path(SEGMENTS)), web_config=path) as url:
        yield url
