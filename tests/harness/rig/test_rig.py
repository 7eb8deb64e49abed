"""The rig in earnest for a minute: kshadow reports each rebalance of a real broker once, and invents none."""

from __future__ import annotations

import shutil

import pytest

from tests.harness.rig.report import report
from tests.harness.rig.run import run
from tests.harness.rig.scoring import score_run
from tests.live.versions import NEWEST

SELECTION = ("crash", "deploy", "coop", "static", "scale", "removed_by_admin", "unsubscribe", "mixed")


@pytest.mark.thorough  # tests/live/scenarios holds causes against the broker's own log
@pytest.mark.usefixtures("kafka")
def test_each_rebalance_is_reported_once_and_none_is_invented(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("Kafka runs on Java, and there is no java on PATH")
    libraries = ("librdkafka", "aiokafka")
    run(tmp_path, NEWEST, seed=7, seconds=20, names=SELECTION, parallel=8, libraries=libraries, say=print)
    score = score_run(tmp_path)
    print(report(score))
    assert score.rebalances >= 25
    assert not score.problems
    assert not score.missing
    assert not score.repeated
    assert not score.invented
    assert not score.departures_invented
    # A generation whose assignment never arrived is in the log alone.
    assert score.once == score.rebalances - len(score.unwritten)
    assert {verdict.details["settings"]["library"] for verdict in score.verdicts} == set(libraries)
    # No F1 threshold here: what the answers are worth is measured, on longer runs.
    assert {verdict.what for verdict in score.verdicts} == {"rebalance", "departure"}
