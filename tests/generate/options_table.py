"""The table of the options of `kshadow run`, from their declarations, for `docs/reference/options.md`.

To write that anew: `python -m tests.generate.docs.render`.
"""

from __future__ import annotations

from agent.config.resolving import DEFAULTS
from agent.config.settings import OPTIONS, PER_PROCESS
from tests.generate.docs.markdown import prose


def table() -> str:
    """Markdown, one row an option."""
    rows = ["| option | default | what | changes |", "|---|---|---|---|"]
    for name, spec in OPTIONS.items():
        long_flags = [flag for flags in spec.flags for flag in flags.split("/") if flag.startswith("--")]
        flags = "/".join(f"`{flag}`" for flag in long_flags)
        default = spec.show_text(DEFAULTS[name].value)
        if len(long_flags) > 1:
            default = "on" if DEFAULTS[name].value else "off"
        marks = [*(["reloads"] if spec.live else []), *(["process"] if name in PER_PROCESS else [])]
        rows.append(f"| {flags} | {f'`{default}`' if default else ''} | {prose(spec.help)} | {', '.join(marks)} |")
    return "\n".join(rows) + "\n"
