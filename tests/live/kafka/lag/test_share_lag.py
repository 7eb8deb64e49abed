"""Share groups' positions and lag beside Kafka's own Admin client: a few moments of `tests.harness.share_lag`."""

from __future__ import annotations

import pytest

from tests.harness.share_lag import play


@pytest.mark.usefixtures("kafka")
def test_positions_and_lag_are_what_kafkas_tool_says() -> None:
    out = play(8, seed=2)
    assert out.differences == []
    assert out.moments == 8
    assert out.positions > 10, "some were compared"
    assert out.lagging > 0, "not all of them were at their ends"
