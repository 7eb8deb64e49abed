"""The fleet as rows: from the answers of a source to what is shown, sorted and found.

Knows no screen, socket or clock. Names are strangers': what is shown of them is made printable here, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from agent.common.text import printable_truncated
from agent.core.diagnosis.severity import Severity
from agent.core.queries import Health
from agent.presentation.narrative.events import int_field
from agent.presentation.narrative.phrases import known_generation
from agent.presentation.narrative.words import clock

JsonView = Mapping[str, Any]

RECENT_MS = 600_000
"""Rebalances within so long ago are of late."""
MAX_RECENT = 1_000
"""Rebalances of late that are remembered of one group."""
MAX_NAME = 200
"""Characters of a name that are kept to be shown: real ones are shorter."""
CLUSTER_ROW_NAME = "(cluster)"
"""The row of findings that are about no group."""


class Key(NamedTuple):
    """What stays the same of a row. A `group` of None stands for all findings that are about no group."""

    cluster: str | None
    group: str | None


class FleetRow(Struct, frozen=True):
    """A group as the fleet shows it. `recent_rebalances`: of the last ten minutes; `worst_rank` is the rank of the
    severest open finding, -1 without one. Times are epoch milliseconds, None if unknown."""

    key: Key
    name: str
    group_type: str = ""
    state: str = ""
    generation: int | None = None
    members: int | None = None
    partitions: int | None = None
    rebalances: int | None = None
    recent_rebalances: int = 0
    lag: int | None = None
    worst_rank: int = -1
    findings: tuple[str, ...] = ()
    summary: str = ""
    state_since_ms: int | None = None
    last_commit_ms: int | None = None
    search_text: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that one round of questions told. `findings` are the events of those that are open, the severest first.

    `groups` says how many there are, `recent_rebalances` how many rebalances of late all have, `longest_name_width`
    is the longest name's columns: they are counted where the screen does not wait for it. `findings_by_key` are each
    row's own findings.
    """

    rows: tuple[FleetRow, ...] = ()
    findings: tuple[JsonView, ...] = ()
    at_ms: int = 0
    ready: bool = True
    health: str = ""
    groups: int = 0
    recent_rebalances: int = 0
    longest_name_width: int = 0
    is_recent_partial: bool = False
    """Whether there may have been more of those, before the first look."""
    by_key: Mapping[Key, FleetRow] = field(default_factory=dict, compare=False, repr=False)
    findings_by_key: Mapping[Key, Sequence[JsonView]] = field(default_factory=dict, compare=False, repr=False)

    def subject_of(self, finding: JsonView) -> tuple[Key, str]:
        """The row that a finding is about, and its name. An agent of one cluster may name it in events alone."""
        key = key_of(finding)
        row = self.by_key.get(key) or self.by_key.get(Key(None, key.group))
        if row is not None:
            return row.key, row.name
        return key, CLUSTER_ROW_NAME if key.group is None else display_text(key.group) or '""'


class RecentRebalances:
    """When each group rebalanced of late: from counts that grow between looks, and events before the first one."""

    def __init__(self, window_ms: int = RECENT_MS) -> None:
        self._window_ms = window_ms
        self._counts: dict[Key, int] = {}
        self._times: dict[Key, deque[int]] = {}

    def seed(self, key: Key, times_ms: Iterable[int]) -> None:
        """What is known from events before the first look."""
        self._times[key] = deque(sorted(times_ms), MAX_RECENT)

    def update(self, counts: Mapping[Key, int], now_ms: int) -> dict[Key, int]:
        """Rebalances of late of each group that had some, after a look at what each has counted so far."""
        for key, count in counts.items():
            before = self._counts.get(key)
            if before is not None and count > before:
                self._times.setdefault(key, deque(maxlen=MAX_RECENT)).extend(
                    [now_ms] * min(count - before, MAX_RECENT)
                )
        self._counts = dict(counts)
        for key in [key for key in self._times if key not in counts]:
            del self._times[key]
        out = {}
        for key, times in list(self._times.items()):
            while times and times[0] < now_ms - self._window_ms:
                times.popleft()
            if times:
                out[key] = len(times)
            else:
                del self._times[key]
        return out


def key_of(form: JsonView) -> Key:
    """Of a group's row, or of an event."""
    return Key(form.get("cluster"), form["group"])


def display_text(text: object, most: int = MAX_NAME) -> str:
    """A stranger's text made harmless and short; `…` says that there is more."""
    return printable_truncated(str(text), most)


RowCache = dict[Key, tuple[object, FleetRow]]
"""Rows as they were made last, and what of: most groups are the same as a moment ago."""


ALL_WELL = Health(True, "")


def build_fleet(
    groups: Sequence[JsonView],
    findings: Sequence[JsonView],
    recent_rebalances: Mapping[Key, int],
    at_ms: int,
    health: Health = ALL_WELL,
    cache: RowCache | None = None,
) -> Fleet:
    """All rows; `cache` is kept from one call to the next."""
    worst_first = sorted(findings, key=lambda it: (-severity_rank(it), it["since_ms"], it["analyzer"]))
    # An agent of one cluster may name it in events and not in rows.
    named = any(form.get("cluster") is not None for form in groups)
    of_group: dict[Key, list[JsonView]] = {}
    for event in worst_first:
        of_group.setdefault(Key(event.get("cluster") if named else None, event["group"]), []).append(event)
    several = len({form.get("cluster") for form in groups}) > 1
    before, after = cache or {}, {}
    rows = []
    for form in groups:
        key = key_of(form)
        found = of_group.get(key, ())
        made_of = (form, found, recent_rebalances.get(key, 0), several)
        was = before.get(key)
        row = was[1] if was is not None and was[0] == made_of else _row(key, form, found, made_of[2], several)
        # A copy, lest who gave it goes on with it.
        after[key] = ({**form}, found, *made_of[2:]), row
        rows.append(row)
    if cache is not None:
        cache.clear()
        cache.update(after)
    for key in [key for key in of_group if key.group is None]:
        name = CLUSTER_ROW_NAME if key.cluster is None else f"{CLUSTER_ROW_NAME} {display_text(key.cluster)}"
        rows.append(_with_findings(FleetRow(key, name), of_group[key]))
    return Fleet(
        tuple(rows),
        tuple(worst_first),
        at_ms,
        health.ready,
        display_text(health.reason),
        len(groups),
        sum(recent_rebalances.values()),
        max((cell_len(row.name) for row in rows), default=0),
        by_key={row.key: row for row in rows},
        findings_by_key=of_group,
    )


def severity_rank(event: JsonView) -> int:
    """How severe a finding is: 0 for the least."""
    return Severity.of(event["severity"]).rank


def _row(key: Key, form: JsonView, found: Sequence[JsonView], late: int, several: bool) -> FleetRow:
    name = display_text(form["group"]) or '""'
    if several and key.cluster is not None:
        name = f"{display_text(key.cluster)}/{name}"
    row = FleetRow(
        key,
        name,
        display_text(form["group_type"], 20),
        display_text(form["state"], 24),
        known_generation(form),
        int_field(form, "members"),
        int_field(form, "partitions"),
        int_field(form, "rebalances"),
        late,
        int_field(form, "lag"),
        state_since_ms=_time(form["state_since_ms"]),
        last_commit_ms=_time(form["last_commit_ms"]),
    )
    return _with_staleness(_with_findings(row, found), form)


def _with_staleness(row: FleetRow, form: JsonView) -> FleetRow:
    """That a group may stand otherwise by now comes before whatever else is known of it."""
    stale = form.get("stale")
    if stale is None:
        return row
    return replace(
        row,
        worst_rank=max(row.worst_rank, Severity.WARNING.rank),
        findings=(f"stale since {clock(stale['since_ms'])}", *row.findings),
        summary="an open transaction hides what was written since then",
        search_text=f"{row.search_text} stale",
    )


def _with_findings(row: FleetRow, found: Sequence[JsonView]) -> FleetRow:
    names = tuple(display_text(event["analyzer"], 60) for event in found)
    severity = Severity.of(found[0]["severity"]) if found else ""
    parts = (row.name, row.group_type, row.state, severity, *names)
    return replace(
        row,
        worst_rank=severity_rank(found[0]) if found else -1,
        findings=names,
        summary=display_text(found[0]["summary"], 400) if found else "",
        search_text=" ".join(parts).casefold(),
    )


def _time(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _by_trouble(row: FleetRow) -> tuple[Any, ...]:
    return -row.worst_rank, -len(row.findings), -row.recent_rebalances, -_unknown_last(row.lag), row.name


SORTS: Mapping[str, tuple[str, Any]] = {
    "t": ("trouble", _by_trouble),
    "n": ("name", lambda row: (row.name.casefold(), row.name)),
    "r": ("rebalances", lambda row: (-row.recent_rebalances, -_unknown_last(row.rebalances), row.name)),
    "l": ("lag", lambda row: (-_unknown_last(row.lag), row.name)),
    "m": ("members", lambda row: (-_unknown_last(row.members), row.name)),
}
"""Orders by the key that chooses each: what it is called, and what is compared."""


def _unknown_last(value: int | None) -> int:
    """Not known comes last."""
    return -1 if value is None else value


def sorted_rows(rows: Iterable[FleetRow], sort: str = "t", search: str = "") -> list[FleetRow]:
    """Those in which every word of `search` is found, in an order of `SORTS`."""
    words = search.casefold().split()
    found = [row for row in rows if all(word in row.search_text for word in words)]
    found.sort(key=SORTS[sort][1])
    return found
