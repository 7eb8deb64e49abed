"""The scoring: what counts as right, wrong or excused, F1 by hand, and the capture's structure."""

from __future__ import annotations

import pytest

from tests.harness.rig.evidence import GOOD, NONE, WEAK
from tests.harness.rig.report import report
from tests.harness.rig.scoring import Score, Verdict, merged, score_run
from tests.harness.rig.test_log import CAPTURE


def verdict(truth, predicted, evidence=GOOD):
    details = {"log_time": "2026-11-21 10:00:00,000", "settings": {}}
    return Verdict("departure", "g", "crash", "m", truth, predicted, evidence, details)


@pytest.mark.parametrize(
    ("truth", "predicted", "evidence", "outcome"),
    [
        # 1
        ("session_timeout", "session_timeout", GOOD, "right"),
        # 2: right is right, however little there was to go by
        ("session_timeout", "session_timeout", NONE, "right"),
        # 3: to know nothing is no answer where there is something to know
        ("session_timeout", "unknown_departure", WEAK, "wrong"),
        # 4
        ("session_timeout", "unknown_departure", NONE, "excused"),
        ("member_left", "unknown", NONE, "excused"),
        # 5: a guess is wrong, evidence or not
        ("session_timeout", "member_left", NONE, "wrong"),
    ],
)
def test_outcomes(truth, predicted, evidence, outcome):
    assert verdict(truth, predicted, evidence).outcome == outcome


def test_f1_leaves_out_what_is_excused():
    answers = [
        ("session_timeout", "session_timeout"),
        ("session_timeout", "member_left"),
        ("member_left", "member_left"),
        ("poll_timeout", "unknown_departure"),
    ]
    score = Score("by hand", verdicts=[verdict(*answer) for answer in answers])
    score.verdicts.append(verdict("member_left", "unknown_departure", NONE))
    assert score.f1("departure") == {
        "member_left": (pytest.approx(2 / 3), 1),
        "poll_timeout": (0.0, 1),
        "session_timeout": (pytest.approx(2 / 3), 2),
    }
    assert score.macro_f1("departure") == pytest.approx(4 / 9)
    assert merged([score, score]).macro_f1("departure") == pytest.approx(4 / 9)


@pytest.mark.skipif(not CAPTURE.is_dir(), reason=f"there is no capture in {CAPTURE}")
def test_the_capture_is_reported_once():
    score = score_run(CAPTURE)
    assert (score.rebalances, score.once, len(score.unwritten)) == (68, 67, 1)
    for wrong in (score.missing, score.repeated, score.invented, score.departures_invented, score.problems):
        assert not wrong
    assert "reported exactly once 67" in report(score)


@pytest.mark.skipif(not CAPTURE.is_dir(), reason=f"there is no capture in {CAPTURE}")
def test_with_the_brokers_log_nothing_of_the_capture_is_wrong():
    score = score_run(CAPTURE, with_log=True)
    assert not [verdict for verdict in score.verdicts if verdict.outcome == "wrong"]
    assert (score.macro_f1("rebalance"), score.macro_f1("departure")) == (1.0, 1.0)
    assert (score.once, score.missing, score.invented, score.departures_invented) == (67, [], [], [])
