"""The page's one style sheet, and the policy that lets nothing else in."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

LEVELS = 6
"""Shades of the heat maps (`.l1` to `.l6`), from the least that is not 0 to the most."""

STYLE = files(__package__).joinpath("style.css").read_text(encoding="ascii")


def policy() -> str:
    """The Content-Security-Policy: pictures that stand in the page itself, and this style."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
