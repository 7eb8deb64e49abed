"""Storms on a real broker's log: the crash loop is one, the rolling deploy of more generations is none."""

from __future__ import annotations

from tests.unit.analyzers.capture import found, groups_found
from tests.unit.core.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)


def test_the_crash_loop_and_nothing_else() -> None:
    assert groups_found("rebalance_storm") == {"audit-loop"}
    opened = found("rebalance_storm")[0]
    assert opened.numbers["pattern"] == "crash_loop"
    assert opened.numbers["top_clients"] == ["audit-loop-crash"]
    assert opened.numbers["rebalances"] == 5
    assert opened.severity == "warning"
