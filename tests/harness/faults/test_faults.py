"""Some of the faults, in a short form; `python -m tests.harness.faults` plays them all, for as long as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.faults import log_scenes as log_scenes
from tests.harness.faults import scenes as scenes
from tests.harness.faults.scene import Scale
from tests.harness.faults.stage import FAULTS

pytestmark = pytest.mark.usefixtures("kafka")


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("killed", Scale(times=2, seconds=60, groups=60)),
        # The simulation plays these hundreds of times: tests/harness/deterministic.
        pytest.param("network-paused", Scale(times=2, seconds=60, groups=60), marks=pytest.mark.thorough),
        pytest.param("replicas", Scale(seconds=60, groups=60), marks=pytest.mark.thorough),
    ],
)
def test_nothing_is_lost_and_nothing_told_twice_in_other_words(name: str, scale: Scale, tmp_path: Path) -> None:
    verdict = FAULTS[name](tmp_path / name, scale)
    print(verdict)
    assert verdict.is_right, verdict
