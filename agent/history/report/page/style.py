"""The page's one style sheet."""

from __future__ import annotations

from importlib.resources import files

LEVELS = 6
"""Shades of the heat maps (`.l1` to `.l6`), from the least that is not 0 to the most."""

STYLE = files(__package__).joinpath("style.css").read_text(encoding="ascii")
