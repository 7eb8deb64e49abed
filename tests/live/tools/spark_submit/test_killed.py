"""A stream of rollups that is killed; twenty times: `python -m tests.harness.spark.killed`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.spark.killed import play


@pytest.mark.thorough
@pytest.mark.timeout(900)  # several starts of Spark, on two cores that others use too
@pytest.mark.usefixtures("kafka")
def test_a_kill_changes_nothing(tmp_path: Path) -> None:
    outcome = play(tmp_path, kills=1, seed=5, groups=8, cores=1, longest_s=10, batch=1500)
    assert outcome.is_right, outcome
    assert outcome.rows > 500
    assert outcome.set_aside == 100
