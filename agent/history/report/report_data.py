"""What the page is made of: small results, collected. Rows are those of the summary's tables, unless told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.history.report.spans import Range, Step

Row = Mapping[str, Any]
Rows = Sequence[Row]


class Comparison(Struct, frozen=True):
    """Two ranges. `of_all` and `groups` are rows of `COMPARISON`; `groups` those of stopped partition time."""

    before: Range
    after: Range
    of_all: Rows
    groups: Rows


class Gains(Struct, frozen=True):
    """What the model says. `asked` groups were played; `rows` are those that would gain. Of `doubtful` ones the
    model's stopped times are not the log's, or the log does not tell."""

    asked: int
    rows: Rows
    doubtful: int = 0


class ReportData(Struct, frozen=True):
    """All that the page shows. Rankings are cut at `most_groups`; the totals say how many rows there are."""

    span: Range
    zone: str
    step: Step
    most_groups: int
    totals: Row
    """`ranking.TOTALS`."""
    departures: Rows
    """`ranking.DEPARTURES`."""
    origins: Rows
    """`ranking.ORIGINS`."""
    ranking: Rows
    courses: Mapping[int, Mapping[str, int | None]]
    """By rank: rebalances by step."""
    teams: Rows
    teams_total: int
    starts: Sequence[str]
    """Every step of the range."""
    steps: Rows
    """`times.STEPS`."""
    causes: Rows
    heat_map: Rows
    deploys: Rows
    deploys_total: int
    kinds: Rows
    """`deploys.KINDS`."""
    halves: Comparison | None
    """The second half of the range against the first; None where it is under two days."""
    compared: Comparison | None
    gains: Gains | None
    findings: Rows
    """`ranking.FINDINGS`."""
    unknown: Row
    """`ranking.unknown`."""
    made_at_ms: int
    made_with: str
    """Versions."""
    command: str

    @property
    def has_clusters(self) -> bool:
        """Whether groups must be told by their cluster as well."""
        return len(self.totals["clusters"]) > 1
