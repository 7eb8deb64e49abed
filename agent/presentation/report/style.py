"""The page's one style sheet."""

from __future__ import annotations

from importlib.resources import files

from agent.presentation.svg.style import STYLE as PICTURES

STYLE = f"{PICTURES}\n{files('agent.presentation.report').joinpath('report.css').read_text(encoding='utf-8')}"
"""The pictures', then the page's own."""
