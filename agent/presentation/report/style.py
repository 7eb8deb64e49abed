"""The page's one style sheet, and the policy that lets nothing else in."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from agent.presentation.svg.style import STYLE as PICTURES

STYLE = f"{PICTURES}\n{files('agent.presentation.report').joinpath('report.css').read_text(encoding='utf-8')}"
"""The pictures', then the page's own."""


def policy() -> str:
    """The Content-Security-Policy: this style, and nothing that is loaded or run."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
