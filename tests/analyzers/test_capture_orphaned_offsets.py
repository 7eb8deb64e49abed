"""No offsets are orphaned within minutes."""

from __future__ import annotations

from tests.analyzers.capture import found
from tests.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)


def test_none_within_minutes() -> None:
    assert found("orphaned_offsets") == ()
