"""How long a report takes, and how large it is: `python -m tests.harness.bench.report_speed [GROUPS [EVENTS]]`.

Prints processor seconds. By default 5,000 groups and 50,000 events.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from agent.presentation.report.document import document
from agent.presentation.report.gather import gather
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import SECOND, T0
from tests.unit.presentation.report.made import MADE, Event, Source, form, wanted, with_all_events

CAUSES = ("member_left", "session_timeout", "member_left", "poll_timeout")


def fleet(groups: int, events: int) -> tuple[dict[str, Any], list[Event]]:
    """Groups of which one in fifty has half of the events."""
    names = [f"team-{at % 40}.service-{at}" for at in range(groups)]
    busy = names[:: max(groups // max(groups // 50, 1), 1)]
    out: list[Event] = []
    for at in range(events // 2):
        group = busy[at % len(busy)] if at % 2 else names[at % groups]
        at_ms = T0 + at * SECOND
        who = m.member(f"{group}-{at % 7}", at)
        gone = {**m.member(f"{group}-{(at + 1) % 7}", at - 6), "cause": CAUSES[at % 4], "confidence": 0.9}
        more = {"joined": [who], "left": [gone], "stopped_ms": at % 9_000, "group": group}
        out.append(m.rebalance(at, CAUSES[at % 4], at_ms, **more))
        moved = {"assigned_partitions": 12, "gained_partitions": 3, "lost_partitions": 0}
        out.append(m.event("assignment_changed", at_ms, generation=at, group=group, **moved))
    return {name: form() for name in names}, out


def main(arguments: list[str]) -> None:
    groups, events = (int(it) for it in (*arguments, *("5000", "50000")[len(arguments) :]))
    forms, history = fleet(groups, events)
    source = Source(history, forms, T0 + events * SECOND)
    began = time.process_time()
    facts = gather(with_all_events(source), MADE, wanted())
    gathered = time.process_time()
    page = document(facts)
    done = time.process_time()
    print(f"{groups:,} groups, {len(history):,} events: {len(facts.details)} told of in full, {len(page):,} bytes")
    print(f"gathered in {gathered - began:.2f} s, written in {done - gathered:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
