"""See the package."""

from __future__ import annotations

import json
import sys

import tests.generate.record_schemas as package
from agent.tools.embedded import DEFAULT_VERSION, fetch_jars
from tests.generate.record_schemas.comparing import compare, our_schemas
from tests.generate.record_schemas.definitions import schemas_of
from tests.generate.record_schemas.recorded import SCHEMAS, VECTORS
from tests.generate.record_schemas.vectors import written_by_kafka


def main(arguments: list[str]) -> int:
    """Compare or record."""
    match arguments:
        case ["compare", *rest] if len(rest) <= 1:
            version = rest[0] if rest else DEFAULT_VERSION
            theirs = schemas_of(fetch_jars(version))
            wrong, newer = compare(theirs, our_schemas())
            for text in (*wrong, *(f"(newer than {version}) {text}" for text in newer)):
                print(text)
            fields = sum(map(len, theirs.values()))
            print(f"Kafka {version}: {len(theirs)} versions of records, {fields} fields; {len(wrong)} differ")
            return 1 if wrong else 0
        case ["record"]:
            jars = fetch_jars(DEFAULT_VERSION)
            SCHEMAS.write_text(json.dumps(schemas_of(jars), indent=1) + "\n", encoding="utf-8")
            rows = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in written_by_kafka(jars))
            VECTORS.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
            return 0
        case _:
            print(package.__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
