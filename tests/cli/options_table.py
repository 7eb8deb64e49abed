"""The README's table of the options of `kshadow run`, from their declarations.

To write it anew: `python -m tests.cli.options_table`.
"""

from __future__ import annotations

from agent.cli.effective import defaults
from agent.cli.run_options import OPTIONS
from agent.config.resolving import PER_PROCESS
from agent.config.settings import ClusterSettings, HttpSettings, LogSettings, ProcessSettings, options_of
from agent.config.words import words

BEGIN, END = "<!-- options of run: python -m tests.cli.options_table -->\n", "<!-- end of options -->\n"


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
        help_text = (option.help or "").replace("|", "\\|")
        rows.append(f"| {flags} | {f'`{default}`' if default else ''} | {help_text} | {', '.join(marks)} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
