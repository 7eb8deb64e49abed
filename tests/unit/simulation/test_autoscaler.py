"""A twin of `python -m tests.harness.autoscaler`, of a seed that nothing was chosen on and for a shorter time."""

from __future__ import annotations

from tests.harness.autoscaler.__main__ import FEEDING, SHARE, example, told
from tests.harness.autoscaler.loop import play


def test_the_example_for_keda_halves_the_rebalances_at_no_more_lag() -> None:
    feeding, calm = (play(it, 411, 12) for it in (FEEDING, example()))
    assert feeding.rebalances >= 10, "it feeds itself"
    assert 2 * calm.rebalances <= feeding.rebalances
    assert calm.lag_percentile(SHARE) <= feeding.lag_percentile(SHARE)
    finding, *whatif = told(feeding, 411)
    assert finding.startswith("finding: An autoscaler turned 3 times in 30 min")
    assert whatif, "numbers, or why there are none"
