"""The table of the options of `kshadow run`, from their declarations, for `docs/reference/options.md`.

To write that anew: `python -m tests.docs.render`.
"""

from __future__ import annotations

from agent.cli.effective import defaults
from agent.cli.run_options import OPTIONS
from agent.config.resolving import PER_PROCESS
from agent.config.settings import ClusterSettings, HttpSettings, LogSettings, ProcessSettings, options_of
from agent.config.words import words
from tests.docs.markdown import prose


def table() -> str:
    """Markdown, one row an option."""
    parts = (ClusterSettings, ProcessSettings, HttpSettings, LogSettings)
    live = {name: changes for part in parts for name, changes in options_of(part).items()}
    values = defaults()
    rows = ["| option | default | what | changes |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        flags = "/".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts) if flag.startswith("--"))
        default = words(name, values[name].value)
        if option.is_flag:
            default = "on" if values[name].value else "off"
        marks = [*(["reloads"] if live[name] else []), *(["process"] if name in PER_PROCESS else [])]
        rows.append(
            f"| {flags} | {f'`{default}`' if default else ''} | {prose(option.help or '')} | {', '.join(marks)} |"
        )
    return "\n".join(rows) + "\n"
