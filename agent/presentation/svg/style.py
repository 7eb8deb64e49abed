"""Colours and style of the pictures: light, dark and print.

The colours of causes are Okabe and Ito's, which people who see few colours tell apart, moved in lightness until each
stands out from its ground. No colour speaks alone: each cause has a shape (`agent.presentation.svg.glyphs`), each
severity a letter, a stop its hatching.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

_LIGHT = {
    "ground": "#ffffff", "text": "#1b1f24", "soft": "#57606a", "line": "#d0d7de", "band": "#f4f6f8",
    "link": "#0b5cad", "lane": "#a9bdd1", "lane-edge": "#6f88a3", "silent": "#f6e3d6", "stop": "#b3360b",
    "pause": "#8a8f98", "mark-ink": "#ffffff", "joined": "#00795a", "left": "#0068a6", "session": "#c24100",
    "poll": "#9a6400", "removed": "#a3457f", "unknown": "#626a73", "other": "#5b4bb0", "replaced": "#1d7fb8",
    "critical": "#b3001b", "warning": "#8f5a00", "info": "#0b5cad", "critical-ground": "#fbdadd",
    "warning-ground": "#fbe9c6", "info-ground": "#dcebf9",
}  # fmt: skip
_DARK = {
    "ground": "#14171b", "text": "#e4e7eb", "soft": "#a0a9b4", "line": "#3a424c", "band": "#1d2228",
    "link": "#74b3f0", "lane": "#4d6379", "lane-edge": "#8ba3bb", "silent": "#46301f", "stop": "#ff8a5c",
    "pause": "#868e99", "mark-ink": "#14171b", "joined": "#2fc79b", "left": "#5fb8f2", "session": "#ff8346",
    "poll": "#f0b32e", "removed": "#e58fc2", "unknown": "#a9b1bb", "other": "#ada0ff", "replaced": "#7fcaf5",
    "critical": "#ff8e98", "warning": "#f0b32e", "info": "#74b3f0", "critical-ground": "#4a1a20",
    "warning-ground": "#3f2f0d", "info-ground": "#16304a",
}  # fmt: skip


def _variables(colors: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colors.items())


COLORS = f"""
:root {{ color-scheme: light; {_variables(_LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{
  :root:not([data-theme="light"]) {{ color-scheme: dark; {_variables(_DARK)} }}
}}
@media screen {{ :root[data-theme="dark"] {{ color-scheme: dark; {_variables(_DARK)} }} }}
"""
"""CSS variables. `data-theme` on the root wins over what the system prefers; paper is always light."""

STYLE = f"{COLORS}\n{files('agent.presentation.svg').joinpath('lanes.css').read_text(encoding='utf-8')}"
"""With what the drawings themselves need; all else is the page's."""
