"""The files that the page loads, each under a name with a hash of what it holds: what is behind it never changes."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from importlib.resources import files

from msgspec import Struct

from agent.presentation.svg.style import STYLE

HASH_LENGTH = 12
"""Characters of the hash in a name."""

SOURCES = {
    "kshadow.css": ("text/css; charset=utf-8", STYLE),
    "kshadow.js": ("text/javascript; charset=utf-8", ""),
    "theme.js": ("text/javascript; charset=utf-8", ""),
}
"""What there is: the type, and what comes before the file of the package. The pictures' style is on top of ours."""

HEADERS = {
    # Behind a password it is nobody else's to keep.
    "Cache-Control": "private, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "Referrer-Policy": "no-referrer",
}


class StaticFile(Struct, frozen=True):
    """One of them, as it is sent."""

    name: str
    kind: str
    body: bytes
    zipped: bytes


@cache
def static_files() -> dict[str, StaticFile]:
    """All of them, by the name in their address."""
    made = (_file(name, kind, before) for name, (kind, before) in SOURCES.items())
    return {it.name: it for it in made}


@cache
def static_address(name: str) -> str:
    """Where one of `SOURCES` is."""
    stem, _, ending = name.rpartition(".")
    found = next(it for it in static_files() if it.startswith(f"{stem}.") and it.endswith(f".{ending}"))
    return f"/static/{found}"


def _file(name: str, kind: str, before: str) -> StaticFile:
    body = before.encode() + (files("agent.serving.page") / "static" / name).read_bytes()
    stem, _, ending = name.rpartition(".")
    hashed = f"{stem}.{sha256(body).hexdigest()[:HASH_LENGTH]}.{ending}"
    return StaticFile(hashed, kind, body, gzip.compress(body, 9, mtime=0))
