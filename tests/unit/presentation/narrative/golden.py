"""The stories of the captured groups: events and views as they were inferred once, and the texts that they make.

The events are kept, not inferred anew: these tests are of the words, and hold whatever the inference learns.
`python -m tests.unit.presentation.narrative.golden` writes the texts; read the difference before it goes in.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from agent.presentation.narrative.explain import Story, StoryRequest, explain
from agent.presentation.narrative.timeline import timeline_entries
from agent.presentation.narrative.words import clock, duration
from tests import ROOT

DATA = ROOT / "tests" / "data" / "story"
HISTORY = DATA / "history.json.gz"


class Told(NamedTuple):
    """A group as it was when the log ended."""

    now_ms: int
    events: list[dict[str, Any]]
    form: dict[str, Any] | None


@cache
def histories() -> dict[str, Told]:
    """Each captured group."""
    kept = json.loads(gzip.decompress(HISTORY.read_bytes()))
    return {
        group: Told(kept["now_ms"], told["events"], told["form"]) for group, told in sorted(kept["groups"].items())
    }


def story(group: str) -> Story:
    told = histories()[group]
    return explain(StoryRequest(group, told.now_ms), told.events, [], told.form)


def text(group: str) -> str:
    """The timeline, then the explanation, a paragraph a line."""
    lines = [
        f"{clock(line.at_ms)} {line.label}: {line.text}"
        + ("" if line.cost_ms is None else f" [{duration(line.cost_ms)}]")
        for line in timeline_entries(histories()[group].events)
    ]
    for title, texts in story(group).sections():
        lines += ["", *([f"# {title}"] if title else []), *texts]
    return "\n".join(lines) + "\n"


def file_of(group: str) -> Path:
    return DATA / f"{group}.txt"


def main() -> None:
    """Write the texts as they are now."""
    for group in histories():
        file_of(group).write_text(text(group), encoding="utf-8")


if __name__ == "__main__":
    main()
