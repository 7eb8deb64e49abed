"""What an agent found once it has caught up, in five lines for whoever has just started it.

On a terminal as text; in a log it is one record, with the numbers as fields.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from agent.common.sanitize import printable
from agent.common.text import truncated
from agent.common.threads import BackgroundThread
from agent.core.queries import JsonObject
from agent.presentation.narrative.findings import severity_rank
from agent.serving.queries import ServedQueries

log = logging.getLogger("kshadow")

LOOK_S = 0.2
MOST_FINDINGS = 2
_WIDEST = 110


def first_look(groups: Sequence[JsonObject], findings: Sequence[JsonObject], url: str) -> list[str]:
    """At most five lines: groups by state, findings by severity, the two worst, and the page."""
    states = Counter(str(it["state"]) for it in groups)
    lines = [f"caught up: {_count(len(groups), 'group')}{_listed(states.most_common())}"]
    severities = Counter(str(it["severity"]) for it in findings)
    by_severity = sorted(severities.items(), key=lambda it: severity_rank(it[0]))
    lines.append(f"{_count(len(findings), 'finding')}{_listed(by_severity)}")
    worst = sorted(findings, key=lambda it: severity_rank(str(it["severity"])))
    are_several = any(it.get("cluster") is not None for it in groups)
    for it in worst[:MOST_FINDINGS]:
        where = it["group"] or "the cluster"
        if are_several:
            where = f"{it['cluster']}/{where}"
        lines.append(truncated(f"  {where}: {it['analyzer']}: {it['summary']}", _WIDEST))
    lines.append(f"the page: {url}/")
    return [printable(line) for line in lines]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(counts: Sequence[tuple[str, int]]) -> str:
    return f" ({', '.join(f'{number} {name}' for name, number in counts)})" if counts else ""


class FirstLook(BackgroundThread):
    """Waits until answers are whole, tells what there is, and ends."""

    def __init__(self, queries: ServedQueries, url: str) -> None:
        super().__init__("first look")
        self._queries, self._url = queries, url

    def _run(self) -> None:
        while not self._queries.ready().ready:
            if self._stop.wait(LOOK_S):
                return
        lines = first_look(self._queries.groups(), self._queries.findings(), self._url)
        if sys.stdout.isatty():
            with suppress(OSError):  # the terminal is gone
                sys.stdout.write("\n".join(lines) + "\n")
                sys.stdout.flush()
        else:
            log.info("%s", "; ".join(line.strip() for line in lines))
