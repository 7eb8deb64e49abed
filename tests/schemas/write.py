"""Writes the schemas and the OpenAPI document as files, from their tables: `python -m tests.schemas.write`.

It refuses what is no addition: that takes another version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.openapi import openapi
from agent.schemas import DOCUMENTS, VERSION, document
from tests.schemas.compat import broken
from tests.wire.vectors import ROOT

SCHEMAS = ROOT / "agent" / "schemas" / f"v{VERSION}"
OPENAPI = ROOT / "docs" / "schemas" / "openapi.json"


def files() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each file, and what is to be in it."""
    for name in DOCUMENTS:
        yield SCHEMAS / f"{name}.json", document(name)
    yield OPENAPI, openapi()


def text_of(form: dict[str, Any]) -> str:
    """As it stands in a file: plain ASCII, so that every editor and terminal shows the same."""
    return json.dumps(form, indent=2) + "\n"


def main() -> int:
    """Write what changed."""
    for path, form in files():
        if path.exists() and path.parent == SCHEMAS:
            wrong = list(broken(json.loads(path.read_text(encoding="ascii")), form))
            if wrong:
                print(f"{path.name}: no addition; raise agent.schemas.documents.VERSION, or:", *wrong, sep="\n  ")
                return 1
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(form), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
