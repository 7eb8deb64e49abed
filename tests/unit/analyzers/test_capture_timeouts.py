"""Timeouts on a real broker's log: in the groups whose scenario made them, and in no other."""

from __future__ import annotations

from tests.unit.analyzers.capture import clients_found, groups_found
from tests.unit.core.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)


def test_sessions_ran_out_where_members_were_killed() -> None:
    # Streams and the static members say no goodbye as they are stopped.
    assert groups_found("session_timeout") == {
        "audit-loop", "billing-java_crash", "emails-crash", "fraud-848", "geo-stream", "pricing-static", "stock-coop",
    }  # fmt: skip
    assert clients_found("session_timeout", "emails-crash") == ["emails-crash-0"]
    assert clients_found("session_timeout", "audit-loop") == ["audit-loop-crash"]


def test_a_member_did_not_poll() -> None:
    assert groups_found("poll_timeout") == {"pricing-poll"}
    assert clients_found("poll_timeout", "pricing-poll") == ["pricing-poll-slow"]
