from __future__ import annotations

import time
from importlib import reload

import pytest

from agent.common import clock


@pytest.mark.parametrize("since_boot_ms", [7.3, 7.9])
@pytest.mark.parametrize("later_ms", [0.0, 0.15, 0.35, 5.65])
def test_both_clocks_say_the_same_to_the_millisecond(
    since_boot_ms: float, later_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were rounded each by itself, and the steady one was one ahead."""
    wall_ns = 1_795_000_000_000_400_000
    passed_ms = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: (since_boot_ms + passed_ms[0]) / 1000)
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns + round(passed_ms[0] * 1e6))
    reload(clock)
    try:
        passed_ms[0] = later_ms
        assert clock.steady_ms() == clock.now_ms()
    finally:
        monkeypatch.undo()
        reload(clock)
