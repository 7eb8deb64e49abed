"""Where what Kafka said is kept."""

from __future__ import annotations

from tests import ROOT

WIRE = ROOT / "tests" / "data" / "wire"
SCHEMAS = WIRE / "schemas-4.4.0.json"
VECTORS = WIRE / "records-4.4.0.ndjson"
