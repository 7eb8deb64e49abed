"""Agents that the API is tried on: one that has caught up, one that has not, several clusters, one with users."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from agent.core.queries import AmbiguousGroup, Capabilities
from agent.serving.queries import ServedQueries
from agent.serving.server import serving
from tests.unit.cli.hostile import LETTERS, TEXTS, pairs
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path

Scene = Callable[[], ServedQueries]


class Several(Replayed):
    """One that answers for two clusters, of which `west` has not caught up; both have the group `b`."""

    capabilities = Capabilities(clusters=("east", "west"))

    def of_cluster(self, cluster: str) -> Replayed | None:
        if cluster not in ("east", "west"):
            return None
        return Replayed(_named("a", "b"), has_caught_up=cluster == "east")

    def groups(self) -> list[dict[str, object]]:
        return [{**row, "cluster": "east"} for row in super().groups()]

    def describe(self, group: str) -> dict[str, object] | None:
        if group == "b":
            raise AmbiguousGroup("several clusters have this group: east, west; ?cluster=NAME chooses one")
        return super().describe(group)

    def status(self) -> dict[str, object]:
        return {"clusters": {name: {"ready": name == "east", "reason": "caught up"} for name in ("east", "west")}}


def _named(*groups: str) -> list[object]:
    log = Log()
    for group in groups:
        log.add(b.new_group(group), b.classic_group(1, b.member("m-1", {"t": [0]}), group=group))
    return list(of_log(log))


def hostile() -> Replayed:
    """Groups with names, clients and metadata that nobody would choose who means well."""
    log = Log()
    for text in ({**TEXTS, **LETTERS}).values():
        log.add(*pairs(text if len(text) < 1_000 else text[:1_000]))
    # Not the empty name: OpenAPI has no empty parts of a path, and clients make one slash of two.
    for name in ("a/b", "a/timeline", "timeline", " ", "%2F", "?", "#", "..", "."):
        log.add(b.new_group(name), b.classic_group(1, b.member("m-1", {"t": [0]}), group=name))
    return Replayed(of_log(log))


SCENES: dict[str, Scene] = {
    "whole": lambda: Replayed(of_path(SEGMENTS)),
    "hostile": hostile,
    "behind": lambda: Replayed(of_path(SEGMENTS), has_caught_up=False),
    "stopped": lambda: Replayed(of_path(SEGMENTS), stopped="reading has stopped: the brokers are gone"),
    "several": lambda: Several(_named("a", "b")),  # type: ignore[arg-type]
}


def served(scene: str, web_config: Path | None = None) -> AbstractContextManager[str]:
    """The address of a server over it."""
    return serving(SCENES[scene](), web_config=web_config)
