"""`docs/reference/analyzers.md`: every analyzer that comes with kshadow, from what it says of itself."""

from __future__ import annotations

from dataclasses import fields

from analyzers.registry import AnalyzerClass, known_analyzers
from tests.generate.docs.markdown import anchor, code, prose, table

HEAD = """\
# Analyzers

When each analyzer reports a finding, its false alarms, and its settings. `kshadow analyzers` prints the same.
`--analyzers NAME,…` of `run` and of commands that read records selects some, `--tune ANALYZER.SETTING=VALUE` sets a
threshold. Settings that end in `_s` are seconds, in `_ms` milliseconds. How to write
one: [analyzers.md](../analyzers.md).
"""


def page() -> str:
    """The whole page."""
    kinds = sorted(
        (name, kind) for name, kind in known_analyzers().items() if kind.__module__.startswith("analyzers.")
    )
    rows = ([f"[{name}](#{anchor(name)})", prose(kind.rule)] for name, kind in kinds)
    return "\n".join([HEAD, table(("analyzer", "fires when"), rows), *(_section(*it) for it in kinds)])


def _section(name: str, kind: AnalyzerClass) -> str:
    rows = (
        (code(field.name), code(str(field.default)), _least(field.metadata["least"]), prose(field.metadata["help"]))
        for field in fields(kind.settings_class)
    )
    parts = (
        f"## {name}\n",
        f"**Fires when** {_small(prose(kind.rule))}\n",
        f"**False alarms.** {prose(kind.false_alarms)}\n",
        table(("setting", "default", "at least", "what"), rows),
    )
    return "\n".join(parts)


def _small(text: str) -> str:
    return text[0].lower() + text[1:]


def _least(value: float) -> str:
    return code(f"{value:g}")
