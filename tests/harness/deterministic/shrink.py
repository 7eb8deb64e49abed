"""A plan that fails, made smaller for as long as it fails: fewer faults, fewer groups, a shorter log, fewer quirks.

Owns what is tried. A smaller plan is another run, so it may fail otherwise; that is as good to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.harness.deterministic.world import Plan


def shrunk(plan: Plan, fails: Callable[[Plan], bool], most: int = 200) -> Plan:
    """The smallest that was found in so many runs."""
    tried = 0
    found = True
    while found:
        found = False
        for smaller in _smaller(plan):
            tried += 1
            if tried > most:
                return plan
            if fails(smaller):
                plan, found = smaller, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans that have less, those that have least first."""
    faults, log = plan.faults, plan.log
    size = len(faults)
    while size:
        for at in range(0, len(faults), size):
            yield replace(plan, faults=faults[:at] + faults[at + size :])
        size //= 2
    for quirk in sorted(log.quirks):
        yield replace(plan, log=replace(log, quirks=log.quirks - {quirk}))
    if log.duration_ms > 120_000:
        until_ms = log.duration_ms * 2 // 3
        left = tuple(it for it in faults if it.at_s * 1000 < until_ms)
        yield replace(plan, log=replace(log, duration_ms=until_ms), faults=left)
    if log.groups > 1:
        yield replace(plan, log=replace(log, groups=log.groups - 1))
