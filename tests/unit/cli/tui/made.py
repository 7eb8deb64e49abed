"""A source with what it is told to have, and forms made field by field."""

from __future__ import annotations

from typing import Any

from agent.cli.answers import SourceAway
from agent.core.queries import Capabilities, Health, Timeline
from tests.unit.presentation.narrative import made as m

Form = dict[str, Any]


def row(group: str = "g", **own: Any) -> Form:
    return {
        "group": group,
        "group_type": "classic",
        "state": "Stable",
        "generation": 1,
        "protocol": "range",
        "members": 2,
        "partitions": 4,
        "rebalances": 1,
        "state_since_ms": m.T0,
        "last_commit_ms": None,
        "lag": None,
        **own,
    }


def member(member_id: str, **assignment: list[int]) -> Form:
    client = member_id.rpartition("-")[0] or member_id
    return {"member_id": member_id, "client_id": client, "instance_id": None, "assignment": assignment}


def described(*members: Form, offsets: list[Form] | None = None, **own: Any) -> Form:
    return {**row(**own), "members": list(members), "offsets": offsets or [], "anomalies": []}


class Answers:
    """Answers as told; away where told."""

    capabilities = Capabilities()
    where = "at a test"

    def __init__(self) -> None:
        self.now_ms = m.T0
        self.rows: list[Form] = []
        self.open: list[Form] = []
        self.events: dict[str, list[Form]] = {}
        self.forms: dict[str, Form] = {}
        self.away: SourceAway | None = None
        self.asked: list[tuple[str, int | None]] = []
        self.health = Health(True, "caught up")

    def ready(self) -> Health:
        if self.away is not None:
            raise self.away
        return self.health

    def of_cluster(self, cluster: str) -> Answers:
        return self

    def groups(self) -> list[Form]:
        return self.rows

    def describe(self, group: str) -> Form | None:
        if self.away is not None:
            raise self.away
        return self.forms.get(group)

    def timeline(self, group: str, since_ms: int | None = None) -> Timeline | None:
        self.asked.append((group, since_ms))
        events = self.events.get(group)
        if events is None:
            return None
        return Timeline([event for event in events if since_ms is None or event["at_ms"] >= since_ms], None)

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        return [event for event in self.open if group is None or event["group"] == group]
