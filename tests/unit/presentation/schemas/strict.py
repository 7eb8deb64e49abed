"""The same schemas for those who write: no field and no word but those that are described."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from agent.presentation.schemas import document


def closed(schema: Any) -> Any:
    """With every object closed, and every list of words that may grow taken for the words that there are."""
    match schema:
        case dict():
            out = {name: closed(it) if name != "properties" else it for name, it in schema.items()}
            if "properties" in schema:
                out["properties"] = {name: closed(it) for name, it in schema["properties"].items()}
                out.setdefault("additionalProperties", False)
            if "string" in (schema.get("type"), *(schema.get("type") or ())) and "examples" in schema:
                out["enum"] = [*schema["examples"], None]
            return out
        case list():
            return [closed(it) for it in schema]
        case _:
            return schema


@cache
def validators(name: str) -> tuple[Draft202012Validator, Draft202012Validator]:
    """As it is given away, and closed."""
    schema = document(name)
    strict = closed(schema)
    for event in ("event_rebalance",):
        if event in strict["$defs"]:
            strict["$defs"][event]["properties"]["evidence"]["items"].pop("additionalProperties")
    if name == "event":
        # Events of types to come are none that we write.
        strict["$defs"]["event"]["oneOf"].pop()
    return Draft202012Validator(schema), Draft202012Validator(strict)


def wrong(name: str, form: Any) -> list[str]:
    """What does not fit a schema, as it is given away or closed."""
    return [f"{it.json_path}: {it.message[:200]}" for one in validators(name) for it in one.iter_errors(form)]
