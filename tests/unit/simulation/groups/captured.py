"""The capture's classic groups: what came to their coordinator, and what it made of that, by its log and the topic.

Read with patterns of its own, not the agent's: it is the yardstick.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.unit.core.wire.vectors import CAPTURE

_TIME = re.compile(r"\[(\S+ \S+)\] INFO ")
_LINES = (
    (
        "asked",
        r"Dynamic member with unknown member id joins group (?P<group>\S+) in .* new member id (?P<member>\S+) ",
    ),
    ("joined", r"Pending dynamic member with id (?P<member>\S+) joins group (?P<group>\S+) in "),
    (
        "static",
        r"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id joins group (?P<group>\S+) in "
        r".*(?:Created a new member id (?P<member>\S+)|Replacing previously mapped member (?P<old>\S+)) ",
    ),
    ("again", r"Preparing to rebalance group (?P<group>\S+) .*reason: Leader (?P<member>\S+) re-joining"),
    ("again", r"Preparing to rebalance group (?P<group>\S+) .*reason: Updating metadata for member (?P<member>\S+) "),
    ("stabilized", r"Stabilized group (?P<group>\S+) generation (?P<generation>\d+) with (?P<size>\d+) members"),
    ("assigned", r"from leader (?P<member>\S+) for group (?P<group>\S+) for generation (?P<generation>\d+)"),
    ("left", r"\[Group (?P<group>\S+)\] Member (?P<member>\S+) has left group through explicit `LeaveGroup`"),
    ("failed", r"Member (?P<member>\S+) in group (?P<group>\S+) has failed"),
    ("empty", r"Group (?P<group>\S+) with generation (?P<generation>\d+) is now empty"),
    ("deleted", r"The following groups were deleted: (?P<group>[^,\s]+)\. "),
    (
        "preparing",
        r"Preparing to rebalance group (?P<group>\S+) in state \S+ with old generation (?P<generation>\d+)",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _LINES)


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says; times are epoch milliseconds."""

    kind: str
    at_ms: int
    member: str | None = None
    instance: str | None = None
    generation: int = -1
    size: int = -1


@dataclass(slots=True)
class Captured:
    """One group: its lines, and its records in order."""

    lines: list[Line] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def last_known(self, member: str, generation: int) -> dict[str, Any]:
        """What the topic says of a member, in this generation or the first one after it that it is in."""
        known = [(it["generation"], row) for it in self.records for row in it["members"] if row["memberId"] == member]
        later = [row for at, row in known if at >= generation]
        return later[0] if later else known[-1][1]


def captured() -> dict[str, Captured]:
    """Groups of the capture that were classic from beginning to end."""
    groups: dict[str, Captured] = defaultdict(Captured)
    for text in (CAPTURE / "coordinator.log").read_text(encoding="utf-8").splitlines():
        time = _TIME.match(text)
        for kind, pattern in _PATTERNS if time else ():
            if (match := pattern.search(text)) is not None:
                found = match.groupdict()
                at = datetime.strptime(time[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
                groups[found["group"]].lines.append(
                    Line(
                        kind,
                        round(at.timestamp() * 1000),
                        found.get("member"),
                        found.get("instance"),
                        int(found.get("generation") or -1),
                        int(found.get("size") or -1),
                    )
                )
                break
    with gzip.open(CAPTURE / "dump.ndjson.gz", "rt", encoding="utf-8") as dump:
        for text in dump:
            row = json.loads(text)
            if row.get("key", {}) and row["key"].get("type") == "2":
                value = row["value"]
                record = {"generation": None, "members": []} if value is None else value["data"]
                groups[row["key"]["data"]["group"]].records.append({**record, "timestamp": row["timestamp"]})
    migrated = {group for group, it in groups.items() if any(record["generation"] is None for record in it.records)}
    return {
        group: it
        for group, it in sorted(groups.items())
        if it.records and (group not in migrated or any(line.kind == "deleted" for line in it.lines))
    }
