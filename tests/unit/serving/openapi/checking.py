"""Answers against the OpenAPI document: is the status described, are the headers, and is the body of its shape?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from httpx import Response
from jsonschema import Draft202012Validator

from agent.serving.openapi import openapi


def unescaped(schema: dict[str, Any]) -> Draft202012Validator:
    """Of a schema that refers to the document."""
    return Draft202012Validator({**openapi(), **schema})


def described(path: str, response: Response) -> Iterator[str]:
    """What an answer of `path`, as the document names it, has that the document does not say."""
    told = openapi()["paths"][path]["get"]["responses"].get(str(response.status_code))
    if told is None:
        yield f"{path}: {response.status_code} is not described"
        return
    told = resolved(told)
    kind = response.headers["content-type"].partition(";")[0]
    if kind not in told["content"]:
        yield f"{path}: {response.status_code} is {kind}"
        return
    schema = told["content"][kind]["schema"]
    body = response.json() if kind == "application/json" else response.text
    for error in unescaped(schema).iter_errors(body):
        yield f"{path}: {response.status_code}: {error.json_path}: {error.message[:300]}"
    for name, header in told.get("headers", {}).items():
        value = response.headers.get(name)
        header = resolved(header)
        if value is None:
            if header.get("required"):
                yield f"{path}: {response.status_code} lacks {name}"
        elif not Draft202012Validator(header["schema"]).is_valid(value):
            yield f"{path}: {response.status_code}: {name} is {value!r}"


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    """What a reference means."""
    while "$ref" in value:
        found: Any = openapi()
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        value = found
    return value
