"""A source with what it is told to have, and forms made field by field."""

from __future__ import annotations

from typing import Any

from agent.cli.access import Past
from agent.watching.source import Away, Health
from tests.story import made as m

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

    live = True
    where = "at a test"

    def __init__(self) -> None:
        self.now_ms = m.T0
        self.rows: list[Form] = []
        self.open: list[Form] = []
        self.events: dict[str, list[Form]] = {}
        self.forms: dict[str, Form] = {}
        self.away: Away | None = None
        self.asked: list[tuple[str, int | None]] = []
        self.ready = Health(True, "caught up")

    def health(self) -> Health:
        if self.away is not None:
            raise self.away
        return self.ready

    def groups(self) -> list[Form]:
        return self.rows

    def describe(self, group: str, *, cluster: str | None = None) -> Form | None:
        if self.away is not None:
            raise self.away
        return self.forms.get(group)

    def past(self, group: str, since_ms: int | None = None, *, cluster: str | None = None) -> Past | None:
        self.asked.append((group, since_ms))
        events = self.events.get(group)
        if events is None:
            return None
        return Past([event for event in events if since_ms is None or event["at_ms"] >= since_ms], None)

    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[Form]:
        return [event for event in self.open if group is None or event["group"] == group]
