"""Writes the schemas and the OpenAPI document as files, from their tables: `python -m tests.generate.schemas`.

It refuses what is no addition: that takes another version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.presentation.schemas import DOCUMENTS, VERSION, document
from agent.serving.openapi import openapi
from tests import ROOT
from tests.generate.schemas_compat import broken

SCHEMAS = ROOT / "agent/presentation/schemas" / f"v{VERSION}"
OPENAPI = ROOT / "docs" / "schemas" / "openapi.json"
PAGE = ROOT / "docs" / "machines.md"


def files() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each file, and what is to be in it."""
    for name in DOCUMENTS:
        yield SCHEMAS / f"{name}.json", document(name)
    yield OPENAPI, openapi()


def text_of(form: dict[str, Any]) -> str:
    """As it stands in a file: plain ASCII, so that every editor and terminal shows the same."""
    return json.dumps(form, indent=2) + "\n"


def page(text: str) -> str:
    """The page with its tables as they should be."""
    for name, rows in (("schemas", schema_rows()), ("routes", route_rows())):
        begin, rest = text.split(f"<!-- {name}: python -m tests.generate.schemas -->\n")
        _, end = rest.split(f"<!-- end of {name} -->")
        text = (
            f"{begin}<!-- {name}: python -m tests.generate.schemas -->\n"
            + "".join(rows)
            + f"<!-- end of {name} -->{end}"
        )
    return text


def schema_rows() -> Iterator[str]:
    """The table of schemas."""
    yield "| schema | is of one | printed or answered by |\n|---|---|---|\n"
    for name, it in DOCUMENTS.items():
        said_by = ", ".join(f"`{by}`" if by[0] != "e" else by for by in it.printed_by)
        link = f"[`{name}`](../agent/presentation/schemas/v{VERSION}/{name}.json)"
        yield f"| {link} | {it.about.removesuffix('.')} | {said_by}{' (a list)' if it.many else ''} |\n"


def route_rows() -> Iterator[str]:
    """The table of addresses."""
    yield "| address | answer | parameters | statuses |\n|---|---|---|---|\n"
    for path, item in openapi()["paths"].items():
        operation = item["get"]
        names = [it["$ref"].rpartition("/")[2] for it in operation.get("parameters", ())]
        query = ", ".join(f"`{name}`" for name in names if not name.endswith("_in_path"))
        statuses = ", ".join(operation["responses"])
        yield f"| `{path}` | {operation['summary'].removesuffix('.')} | {query} | {statuses} |\n"


def main() -> int:
    """Write what changed."""
    for path, form in files():
        if path.exists() and path.parent == SCHEMAS:
            wrong = list(broken(json.loads(path.read_text(encoding="ascii")), form))
            if wrong:
                print(
                    f"{path.name}: no addition; raise agent.presentation.schemas.documents.VERSION, or:",
                    *wrong,
                    sep="\n  ",
                )
                return 1
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(form), encoding="ascii")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
