"""The fleet as rows: from the answers of a source to what is shown, sorted and found.

Knows no screen, socket or clock. Names are strangers': what is shown of them is made printable here, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rich.cells import cell_len

from agent.plain import printable
from analyzers.severity import Severity

Form = Mapping[str, Any]

LATELY_MS = 600_000
"""Rebalances within so long ago are of late."""
MOST_LATE = 1_000
"""Rebalances of late that are remembered of one group."""
MAX_NAME = 200
"""Characters of a name that are kept to be shown: real ones are shorter."""
CLUSTER = "(cluster)"
"""The row of findings that are about no group."""


class Key(NamedTuple):
    """What stays the same of a row. A `group` of None stands for all findings that are about no group."""

    cluster: str | None
    group: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A group as the fleet shows it. `late`: rebalances of late; `worst` is the rank of the severest open finding,
    -1 without one. `state_since_ms` and `last_commit_ms` are epoch milliseconds, None where not known."""

    key: Key
    name: str
    kind: str = ""
    state: str = ""
    generation: int | None = None
    members: int | None = None
    partitions: int | None = None
    rebalances: int | None = None
    late: int = 0
    lag: int | None = None
    worst: int = -1
    findings: tuple[str, ...] = ()
    summary: str = ""
    state_since_ms: int | None = None
    last_commit_ms: int | None = None
    haystack: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that one round of questions told. `findings` are the events of those that are open, the severest first.

    `groups` says how many there are, `late` how many rebalances of late all have, `longest` is the longest name's
    columns: they are counted where the screen does not wait for it. `found` are each row's own findings.
    """

    rows: tuple[Row, ...] = ()
    findings: tuple[Form, ...] = ()
    at_ms: int = 0
    ready: bool = True
    health: str = ""
    groups: int = 0
    late: int = 0
    longest: int = 0
    by_key: Mapping[Key, Row] = field(default_factory=dict, compare=False, repr=False)
    found: Mapping[Key, Sequence[Form]] = field(default_factory=dict, compare=False, repr=False)


class Late:
    """When each group rebalanced of late: from counts that grow between looks, and events before the first one."""

    def __init__(self, window_ms: int = LATELY_MS) -> None:
        self._window_ms = window_ms
        self._counts: dict[Key, int] = {}
        self._times: dict[Key, deque[int]] = {}

    def seed(self, key: Key, times_ms: Iterable[int]) -> None:
        """What is known from events before the first look."""
        self._times[key] = deque(sorted(times_ms), MOST_LATE)

    def look(self, counts: Mapping[Key, int], now_ms: int) -> dict[Key, int]:
        """Rebalances of late of each group that had some, after a look at what each has counted so far."""
        for key, count in counts.items():
            before = self._counts.get(key)
            if before is not None and count > before:
                self._times.setdefault(key, deque(maxlen=MOST_LATE)).extend([now_ms] * min(count - before, MOST_LATE))
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


def key_of(form: Form) -> Key:
    """Of a group's row, or of an event."""
    return Key(form.get("cluster"), form["group"])


def shown(text: object, most: int = MAX_NAME) -> str:
    """A stranger's text made harmless and short; `…` says that there is more."""
    raw = str(text)
    out = printable(raw[: most + 1])
    return out if len(out) <= most else out[: most - 1] + "…"


Known = dict[Key, tuple[object, Row]]
"""Rows as they were made last, and what of: most groups are the same as a moment ago."""


def fleet(
    groups: Sequence[Form],
    findings: Sequence[Form],
    late: Mapping[Key, int],
    at_ms: int,
    health: tuple[bool, str] = (True, ""),
    known: Known | None = None,
) -> Fleet:
    """All rows. `late` counts rebalances of late; `known` is kept from one call to the next."""
    worst_first = sorted(findings, key=lambda it: (-rank(it), it["since_ms"], it["analyzer"]))
    # An agent of one cluster may name it in events and not in rows.
    named = any(form.get("cluster") is not None for form in groups)
    of_group: dict[Key, list[Form]] = {}
    for event in worst_first:
        of_group.setdefault(Key(event.get("cluster") if named else None, event["group"]), []).append(event)
    several = len({form.get("cluster") for form in groups}) > 1
    before, after = known or {}, {}
    rows = []
    for form in groups:
        key = key_of(form)
        found = of_group.get(key, ())
        made_of = (form, found, late.get(key, 0), several)
        was = before.get(key)
        row = was[1] if was is not None and was[0] == made_of else _row(key, form, found, made_of[2], several)
        # A copy, lest who gave it goes on with it.
        after[key] = ({**form}, found, *made_of[2:]), row
        rows.append(row)
    if known is not None:
        known.clear()
        known.update(after)
    for key in [key for key in of_group if key.group is None]:
        name = CLUSTER if key.cluster is None else f"{CLUSTER} {shown(key.cluster)}"
        rows.append(_with_findings(Row(key, name), of_group[key]))
    return Fleet(
        tuple(rows),
        tuple(worst_first),
        at_ms,
        health[0],
        shown(health[1]),
        len(groups),
        sum(late.values()),
        max((cell_len(row.name) for row in rows), default=0),
        {row.key: row for row in rows},
        of_group,
    )


def rank(event: Form) -> int:
    """How severe a finding is: 0 for the least."""
    return Severity.of(event["severity"]).rank


def _row(key: Key, form: Form, found: Sequence[Form], late: int, several: bool) -> Row:
    name = shown(form["group"]) or '""'
    if several and key.cluster is not None:
        name = f"{shown(key.cluster)}/{name}"
    row = Row(
        key,
        name,
        shown(form["group_type"], 20),
        shown(form["state"], 24),
        form["generation"],
        _number(form, "members"),
        _number(form, "partitions"),
        _number(form, "rebalances"),
        late,
        _number(form, "lag"),
        state_since_ms=_time(form["state_since_ms"]),
        last_commit_ms=_time(form["last_commit_ms"]),
    )
    return _with_findings(row, found)


def _with_findings(row: Row, found: Sequence[Form]) -> Row:
    names = tuple(shown(event["analyzer"], 60) for event in found)
    severity = Severity.of(found[0]["severity"]) if found else ""
    parts = (row.name, row.kind, row.state, severity, *names)
    return replace(
        row,
        worst=rank(found[0]) if found else -1,
        findings=names,
        summary=shown(found[0]["summary"], 400) if found else "",
        haystack=" ".join(parts).casefold(),
    )


def _number(form: Form, name: str) -> int | None:
    """What an agent of another version does not say is not known."""
    value = form.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


SORTS: Mapping[str, tuple[str, Any]] = {
    "t": ("trouble", lambda row: (-row.worst, -len(row.findings), -row.late, -_least(row.lag), row.name)),
    "n": ("name", lambda row: (row.name.casefold(), row.name)),
    "r": ("rebalances", lambda row: (-row.late, -_least(row.rebalances), row.name)),
    "l": ("lag", lambda row: (-_least(row.lag), row.name)),
    "m": ("members", lambda row: (-_least(row.members), row.name)),
}
"""Orders by the key that chooses each: what it is called, and what is compared."""


def _least(value: int | None) -> int:
    """Not known comes last."""
    return -1 if value is None else value


def ordered(rows: Iterable[Row], sort: str = "t", wanted: str = "") -> list[Row]:
    """Those in which every word of `wanted` is found, in an order of `SORTS`."""
    words = wanted.casefold().split()
    found = [row for row in rows if all(word in row.haystack for word in words)]
    found.sort(key=SORTS[sort][1])
    return found
