"""Kafka's own bytes with what Kafka says they hold.

`ALL_OWN` are small copies that travel with the repository: every record type and version, the payloads, nulls,
tags present and absent (4.4.0's by `tests.generate.record_schemas`). `SHARED` is the full set next to a
developer's checkout; where it is missing, the tests that need it say so and are skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.core.wire.payloads import PAYLOADS
from agent.core.wire.schema import Message
from tests import ROOT, SHARED
from tests.generate.record_schemas.recorded import VECTORS as NEWEST

OWN = ROOT / "tests" / "data" / "wire" / "records-4.3.1.ndjson"
ALL_OWN = (OWN, NEWEST)

VECTORS = SHARED / "vectors" / "records-4.3.1.ndjson"
CAPTURE = SHARED / "captures" / "kafka-4.3.1"

PAYLOAD_TYPES: dict[str, type[Message]] = {message.__name__: message for message in PAYLOADS["consumer"]}


@dataclass(frozen=True, slots=True)
class RecordVector:
    """One record: its bytes, and the JSON form that Kafka's formatter prints for them."""

    key: bytes
    value: bytes | None
    expect: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PayloadVector:
    """One payload with its version in front, and its fields in Kafka's JSON form."""

    message: type[Message]
    data: bytes
    expect: dict[str, Any]


def load(*paths: Path) -> list[tuple[str, RecordVector | PayloadVector]]:
    """Every line of vector files with a name for test reports."""
    rows: list[tuple[str, RecordVector | PayloadVector]] = []
    lines = [text for path in paths for text in path.read_text(encoding="utf-8").splitlines()]
    for number, text in enumerate(lines, 1):
        line = json.loads(text)
        expect = line["expect"]
        if line["name"] in PAYLOAD_TYPES:
            data = bytes.fromhex(line["bytes"])
            rows.append((f"{number}-{line['name']}", PayloadVector(PAYLOAD_TYPES[line["name"]], data, expect)))
            continue
        value = None if line["value"] is None else bytes.fromhex(line["value"])
        rows.append((f"{number}-{line['name']}", RecordVector(bytes.fromhex(line["key"]), value, expect)))
    return rows


def needs(path: Path) -> pytest.MarkDecorator:
    """Skip where a shared file is not there: a clone of the repository alone has none."""
    return pytest.mark.skipif(not path.exists(), reason=f"{path} is missing: only beside a developer's checkout")


def params(kind: type[RecordVector] | type[PayloadVector]) -> list[Any]:
    """All vectors of a kind as pytest parameters: the own copy always, the shared set where it is."""
    own = [pytest.param(row, id=f"own-{name}") for name, row in load(*ALL_OWN) if isinstance(row, kind)]
    if not VECTORS.exists():
        return [*own, pytest.param(None, id="shared", marks=needs(VECTORS))]
    return own + [pytest.param(row, id=f"shared-{name}") for name, row in load(VECTORS) if isinstance(row, kind)]
