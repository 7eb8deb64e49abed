"""What is made for pages that people write: diagrams, and what commands print.

A page has it between `<!-- made: NAME -->` and `<!-- end -->`; `python -m tests.generate.docs.render` writes it
there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import jq

from agent.core.wire.records import RECORD_TYPES
from tests.generate.docs import sequences, states
from tests.generate.docs.example import SOURCE, install
from tests.generate.docs.markdown import code, fenced, table
from tests.unit.cli.running import kshadow, on_terminal

COLUMNS = 92
"""How wide the terminal is on which commands print."""

FIRST = ""

_BLOCK = re.compile(r"(<!-- made: (.+?) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def session(line: str, *, only: tuple[str, ...] = (), with_example: bool = False) -> str:
    """A command line and what it prints, on a terminal or through `jq`; of what has headings `only` some.

    Among these `FIRST` is what stands before all headings.
    """
    if not with_example:
        return fenced(f"$ {line}\n{_excerpt(printed(line), only)}")
    with TemporaryDirectory() as directory:
        return fenced(f"$ {line}\n{printed(line, PYTHONPATH=str(install(Path(directory))))}")


def source(name: str, language: str) -> str:
    """A file of the example."""
    return fenced((SOURCE / name).read_text(encoding="utf-8"), language)


def printed(line: str, **env: str) -> str:
    """What a line prints: `kshadow …`, perhaps piped into `jq -c '…'`. It is run in the repository's root."""
    call, _, program = line.partition(" | jq -c ")
    words = shlex.split(call)[1:]
    if program:
        piped = kshadow(*words)
        assert (piped.exit_code, piped.stderr) == (0, ""), piped.stderr
        (filtered,) = shlex.split(program)
        found = jq.compile(filtered).input_text(piped.stdout)
        return "\n".join(json.dumps(it, separators=(",", ":"), ensure_ascii=False) for it in found)
    text, status = on_terminal(*words, columns=COLUMNS, env={"NO_COLOR": "1", **env})
    assert status == 0, text
    return "\n".join(row.rstrip() for row in text.splitlines())


def record_types() -> str:
    """What is decoded, from the table by which it is."""
    rows = (
        (str(it.key_type), code(it.name), f"0 to {it.value.versions[1]}" if it.value.versions[1] else "0")
        for it in RECORD_TYPES.values()
    )
    return table(("key type", "record", "versions of its value"), rows)


def _excerpt(text: str, only: tuple[str, ...]) -> str:
    if not only:
        return text
    first, *others = re.split(r"\n\n(?=\S)", text)
    sections = {FIRST: first, **{section.partition("\n")[0]: section for section in others}}
    return "\n\n".join(sections[heading] for heading in only)


BLOCKS: Mapping[str, Callable[[], str]] = {
    "record types": record_types,
    "states of a classic group": states.classic,
    "states of a KIP-848 group": states.consumer,
    "states of a KIP-848 member": states.member,
    "a member joins": sequences.eager,
    "a member joins, cooperatively": sequences.cooperative,
    "a member dies": sequences.crash,
    "a static member restarts": sequences.static,
    "a member joins a KIP-848 group": sequences.modern,
    "timeline of emails-crash": partial(session, "kshadow timeline emails-crash --from docs/examples"),
    "why, of emails-crash": partial(
        session, "kshadow explain emails-crash --from docs/examples --full", only=("Why",)
    ),
    "evidence of emails-crash": partial(
        session,
        "kshadow replay docs/examples -o ndjson | jq -c '"
        'select(.group == "emails-crash" and .generation == 3) | .evidence[]?\'',
    ),
    "broker's word on emails-crash": partial(
        session,
        "kshadow replay docs/examples --broker-log docs/examples/logs/server.log -o ndjson | jq -c '"
        'select(.group == "emails-crash" and .type == "rebalance") | [.generation, .cause, .confidence]\'',
    ),
    "groups sorted": partial(session, "kshadow groups --from docs/examples --sort-by rebalances:desc"),
    "timeline of one cause": partial(
        session, "kshadow timeline pricing-poll --from docs/examples --cause poll_timeout"
    ),
    "source of understaffed": partial(source, "understaffed.py", "python"),
    "project of understaffed": partial(source, "pyproject.toml", "toml"),
    "understaffed says": partial(session, "kshadow analyzers understaffed", with_example=True),
    "understaffed finds": partial(
        session,
        "kshadow findings --from docs/examples --analyzers understaffed --tune understaffed.open_after_s=5",
        with_example=True,
    ),
    "explain of audit-loop": partial(
        session,
        "kshadow explain audit-loop --from docs/examples",
    ),
}
"""By name what makes it."""


def filled(text: str) -> str:
    """A page with every block as it shall be. Raises KeyError for one that nobody makes."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]]()}\n{match[3]}", text)


def names(text: str) -> list[str]:
    """The blocks of a page."""
    return [match[2] for match in _BLOCK.finditer(text)]
