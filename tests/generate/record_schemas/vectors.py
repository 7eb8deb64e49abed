"""Random records of every type and version, as Kafka's own classes write and read them."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.tools.embedded import Jars
from agent.tools.embedded.java import java_command
from tests.generate.record_schemas.definitions import PAYLOADS, definitions_of, versions

PROGRAM = Path(__file__).with_name("KafkaRecords.java")
SEED = 44
TEXTS = ("", "orders", "payments-eu", "größe-группа-組", "a" * 130)
BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}


def written_by_kafka(jars: Jars) -> list[dict[str, Any]]:
    """A row for each record: its bytes as hex, and its fields in Kafka's JSON form. Tombstones have no value."""
    asked = "".join(json.dumps(it) + "\n" for it in _records(jars))
    command = java_command(jars.classpath, str(PROGRAM))
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _records(jars: Jars) -> Iterator[dict[str, Any]]:
    dice = random.Random(SEED)
    definitions = definitions_of(jars)
    of_keys = {it["apiKey"]: it for name, it in definitions.items() if name.endswith("Key")}
    of_values = {it["apiKey"]: it for name, it in definitions.items() if name.endswith("Value")}
    assert len(of_keys) + len(of_values) == len(definitions) - len(PAYLOADS)
    for number in sorted(of_keys):
        yield {"key": _key(of_keys[number], dice), "value": None}
        for version in versions(of_values[number]["validVersions"]):
            for tagged in (1.0, 0.0):
                data = _Value(of_values[number], version, tagged, dice).fields()
                yield {"key": _key(of_keys[number], dice), "value": {"version": version, "data": data}}


def _key(definition: Mapping[str, Any], dice: random.Random) -> dict[str, Any]:
    return {"type": definition["apiKey"], "data": _Value(definition, 0, 0, dice).fields()}


class _Value:
    """Random fields of one version of one message; `tagged` is how probable a tagged field is."""

    def __init__(self, definition: Mapping[str, Any], version: int, tagged: float, dice: random.Random) -> None:
        self._definition, self._version, self._tagged, self._dice = definition, version, tagged, dice
        self._structs = {it["name"]: it["fields"] for it in definition.get("commonStructs", ())}

    def fields(self) -> dict[str, Any]:
        return self._of(self._definition["fields"])

    def _of(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        out = {}
        for field in rows:
            tagged = "taggedVersions" in field
            if self._version not in versions(field.get("versions") or field["taggedVersions"]):
                continue
            if tagged and self._dice.random() >= self._tagged:
                continue
            name = field["name"][0].lower() + field["name"][1:]
            # A null in a tag is the generator's own affair: sometimes.
            nullable = self._version in versions(field.get("nullableVersions", "none"))
            if nullable and self._dice.random() < (0.2 if tagged else 0.4):
                out[name] = None
            else:
                out[name] = self._value(field, field["type"])
        return out

    def _value(self, field: Mapping[str, Any], kind: str) -> Any:
        if kind.startswith("[]"):
            return [self._value(field, kind[2:]) for _ in range(self._dice.choice((0, 1, 2, 3)))]
        if kind in BITS:
            return self._number(kind)
        match kind:
            case "string":
                return self._dice.choice(TEXTS)
            case "uuid":
                return _base64(self._dice.randbytes(16), url=True)
            case "bytes":
                return _base64(self._dice.randbytes(self._dice.choice((0, 1, 40))))
            case "bool":
                return self._dice.random() < 0.5
        return self._of(field.get("fields") or self._structs[kind])

    def _number(self, kind: str) -> int:
        bits, unsigned = BITS[kind], kind.startswith("u")
        low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return self._dice.choice((low, high, 0, 1, self._dice.randint(low, high)))


def _base64(data: bytes, *, url: bool = False) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=") if url else base64.b64encode(data).decode()
