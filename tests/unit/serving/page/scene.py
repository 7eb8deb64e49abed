"""What the pages are looked at with: a capture of a real cluster, a fleet made up, and who serves them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any

from httpx import Client

from tests import SHARED
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.serving.routes.replayed import Replayed, of_path, served

CAPTURE = next((it for it in [SHARED / "captures" / "kafka-4.3.1" / "segments"] if it.is_dir()), SEGMENTS)
"""More groups where the whole capture is at hand, some of them else."""


def captured(**named: Any) -> Replayed:
    """The capture's groups, with what the analyzers find."""
    return Replayed(of_path(CAPTURE), **named)


def newest_ms(replayed: Replayed) -> int:
    """When the newest thing happened: what an agent's clock would have said."""
    return max(
        max(row["state_since_ms"], row["last_commit_ms"] or 0)  # type: ignore[call-overload]
        for row in replayed.groups()
    )


@contextmanager
def client(agent: Any, wall_ms: Callable[[], int] | None = None) -> Iterator[Client]:
    """A client of a real server: the one that the agent runs."""
    named = {} if wall_ms is None else {"wall_ms": wall_ms}
    with served(agent, **named) as url, Client(base_url=url) as made:
        yield made


class Reader(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "each element has its end"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements end in order"

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self) -> list[str]:
        """Where the links go."""
        return [str(attributes["href"]) for tag, attributes in self.tags if tag == "a"]

    def rows(self) -> list[str]:
        """The keys of rows, in their order."""
        return [
            str(attributes["data-key"]) for tag, attributes in self.tags if tag == "tr" and "data-key" in attributes
        ]


def row(group: str, **changed: Any) -> dict[str, Any]:
    """A row of the API."""
    return {
        "group": group,
        "group_type": "classic",
        "state": "Stable",
        "generation": 1,
        "members": 2,
        "partitions": 6,
        "committed_partitions": 6,
        "lag": None,
        "rebalances": 0,
        "state_since_ms": b.T0,
        "last_commit_ms": b.T0,
        **changed,
    }
