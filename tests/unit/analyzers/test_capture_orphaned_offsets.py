"""No offsets are orphaned within minutes."""

from __future__ import annotations

from tests.unit.analyzers.capture import found
from tests.unit.core.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)


def test_none_within_minutes() -> None:
    assert found("orphaned_offsets") == ()
