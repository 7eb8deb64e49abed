"""Advice on a real broker's log: one client restarts again and again there; the deploy's have new names."""

from __future__ import annotations

from tests.unit.analyzers.capture import clients_found, groups_found
from tests.unit.core.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)


def test_the_client_that_restarts_again_and_again() -> None:
    assert groups_found("static_membership_advice") == {"audit-loop"}
    assert clients_found("static_membership_advice", "audit-loop") == ["audit-loop-crash"]
