"""What cannot be is told; how many records settings come to."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.core.protocol.assignors import ASSIGNORS
from agent.simulation.generator.histories import generate
from agent.simulation.generator.record_count import with_duration_for, with_interval_for
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS, rounds
from agent.simulation.generator.settings import ASSIGNOR_WEIGHTS, GeneratorSettings, IntegerRange
from tests.unit.simulation.generator.making import SMALL, T0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"groups": 0}, "expected numbers of 1 and more"),
        ({"commit_interval_ms": 0}, "expected numbers of 1 and more"),
        ({"start_ms": -1}, "expected a start of 0 or later, got -1"),
        ({"duration_ms": 59_999}, "expected a duration of 1 minute or more, got 59999 ms"),
        ({"members": IntegerRange(0, 3)}, r"expected bounds from 1 on, the lower one first, got \(0, 3\)"),
        ({"partitions": IntegerRange(5, 3)}, "bounds from 1 on"),
        ({"session_timeout_ms": 5_999}, "brokers accept by default, 6000 to 1800000 ms, got 5999"),
        ({"session_timeout_ms": 1_800_001}, "session timeout"),
        (
            {"mix": {"steady": 1, "nope": 1, "no": 1}},
            "expected fates out of steady, .*, connect_bounce, got no, nope",
        ),
        ({"mix": {}}, "expected weights of fates from 0 on, not all 0"),
        ({"mix": {"steady": 0}}, "not all 0"),
        ({"mix": {"steady": -1, "crash": 2}}, "from 0 on"),
        ({"mix": {"steady": float("nan")}}, "from 0 on"),
        ({"assignors": {"range,nope": 1}}, "expected assignors out of range, .*, got nope"),
    ],
)
def test_what_cannot_be(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(SMALL, **change)


def test_strategies_are_what_the_model_can_play() -> None:
    assert ASSIGNOR_WEIGHTS
    assert {name for strategy in ASSIGNOR_WEIGHTS for name in strategy.split(",")} <= ASSIGNORS.keys()
    assert set(GeneratorSettings(T0).mix) == set(SCENARIO_KINDS)


@pytest.mark.parametrize("fit", [with_interval_for, with_duration_for])
@pytest.mark.parametrize("records", [8_000, 40_000])
def test_about_so_many_records(fit: Any, records: int) -> None:
    settings = fit(replace(GeneratorSettings(T0), groups=30), records)
    assert 0.75 < sum(1 for _ in generate(settings)) / records < 1.25
    assert (settings.duration_ms == GeneratorSettings(T0).duration_ms) == (fit is with_interval_for)


@pytest.mark.parametrize("fit", [with_interval_for, with_duration_for])
def test_too_few_records(fit: Any) -> None:
    with pytest.raises(ValueError, match=r"76 groups like these make about \d+ records .* than that, got 50"):
        fit(SMALL, 50)


@pytest.mark.parametrize("fit", [with_interval_for, with_duration_for])
def test_none_that_commit(fit: Any) -> None:
    with pytest.raises(ValueError, match="expected groups that commit offsets, these fates have none"):
        fit(replace(SMALL, mix={"connect_bounce": 1}), 10_000)


@pytest.mark.parametrize("fate", ["kip848_steady", "kip848_deploy", "kip848_crash"])
def test_about_so_many_records_of_other_groups(fate: str) -> None:
    settings = with_interval_for(replace(GeneratorSettings(T0), groups=20, mix={fate: 1}), 30_000)
    assert 0.75 < sum(1 for _ in generate(settings)) / 30_000 < 1.25


def test_too_short_a_time() -> None:
    settings = replace(SMALL, commit_interval_ms=100)
    with pytest.raises(
        ValueError, match=r"76 groups that commit each 100 ms make 9000 records in \d+ ms: expected a minute or"
    ):
        with_duration_for(settings, 9_000)


def test_a_long_history_has_more_of_what_happens_now_and_then() -> None:
    hour = 3_600_000
    assert [rounds(hours * hour) for hours in (1, 5, 6, 24, 24 * 30)] == [1, 1, 2, 5, 8]
