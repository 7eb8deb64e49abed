"""The schemas that are given away: which there are, who prints what they describe, each as a document of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agent.presentation.schemas.answers import ANSWER_DEFS
from agent.presentation.schemas.builders import REF, Schema, ref, refs
from agent.presentation.schemas.events import EVENT_DEFS
from agent.presentation.schemas.rollouts import ROLLOUT_DEFS
from agent.presentation.schemas.views import VIEW_DEFS

VERSION = 1
"""Of all of them together; it is the `schema` of the events, too."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

DEFS: dict[str, Schema] = {**EVENT_DEFS, "finding": ref("event_finding"), **VIEW_DEFS, **ANSWER_DEFS, **ROLLOUT_DEFS}
"""Every shape that has a name."""


class Document(NamedTuple):
    """A schema that is given away. It describes one item; `many`: commands print, and the API answers, a list of
    them (`-o ndjson`: one a line). `printed_by`: who does."""

    about: str
    printed_by: tuple[str, ...]
    many: bool = False


DOCUMENTS: dict[str, Document] = {
    "event": Document(
        "An event of the history.",
        ("kshadow replay", "kshadow timeline", "GET /api/v1/groups/{group}/timeline", "--history-topic"),
        many=True,
    ),
    "finding": Document(
        "A finding: the newest event of it.", ("kshadow findings", "GET /api/v1/findings"), many=True
    ),
    "group": Document("A group's row.", ("kshadow groups", "GET /api/v1/groups"), many=True),
    "describe": Document("One group in full.", ("kshadow describe", "GET /api/v1/groups/{group}")),
    "member": Document("A member of a group.", ("kshadow members",), many=True),
    "lag": Document("How far behind a group is in one partition.", ("kshadow lag",), many=True),
    "explain": Document("The story of one group.", ("kshadow explain",)),
    "rollout": Document(
        "A rollout of a group's workload, and the verdict on it.",
        ("kshadow verdict", "GET /api/v1/groups/{group}/rollouts"),
    ),
    "whatif": Document("One group's history under other settings.", ("kshadow whatif",)),
    "assign": Document("The assignment that each assignor would compute for a group.", ("kshadow assign GROUP",)),
    "assignment": Document("What an assignor gives the members of a problem.", ("kshadow assign FILE",), many=True),
    "record": Document("A record of the topic.", ("kshadow decode",), many=True),
    "coordinator": Document("Who owns a group.", ("kshadow coordinator",)),
    "analyzer": Document("An analyzer.", ("kshadow analyzers",), many=True),
    "check": Document("Something that the agent needs, tried.", ("kshadow doctor",), many=True),
    "setting": Document("A setting in force.", ("kshadow config show",), many=True),
    "context": Document("A source that has a name.", ("kshadow context list", "kshadow context show"), many=True),
    "status": Document("What an agent says of itself.", ("GET /api/v1/status",)),
    "error": Document("Why the API has no other answer.", ("every address under /api/v1",)),
}


def document(name: str) -> Schema:
    """The schema of that name, whole: what it refers to is in it. Raises `KeyError`."""
    about = DOCUMENTS[name].about
    needed = needed_by([name])
    return {
        "$schema": DIALECT,
        "$id": f"urn:kshadow:v{VERSION}:{name}",
        "title": f"kshadow {name}, version {VERSION}",
        "description": about,
        "$ref": REF + name,
        "$defs": {it: DEFS[it] for it in needed},
    }


def needed_by(names: Iterable[str]) -> list[str]:
    """Those shapes and all that they refer to, each once."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = None
            waiting += refs(DEFS[name])
    return list(found)
