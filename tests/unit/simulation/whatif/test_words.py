"""What a comparison says in sentences."""

from __future__ import annotations

from msgspec.structs import replace

from agent.simulation.groups.simulate import StoppedTime
from agent.simulation.whatif import sentences as words
from agent.simulation.whatif.calibrated_replay import (
    CalibratedReplay,
    GenerationDifference,
    calibrate,
)
from agent.simulation.whatif.changes import Alternative
from agent.simulation.whatif.comparison import AlternativeOutcome, Comparison, compare
from agent.simulation.whatif.recorded_script import Generation
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, rolling_restart, shared_out

STATIC = Alternative({"static": True})


def restarted() -> CalibratedReplay:
    return calibrate(rolling_restart(3).recording(), b.T0 + 300_000)


def made(
    alternative: Alternative, rebalances: int, stopped_ms: int, *detected_ms: int, deaths: int = 2
) -> AlternativeOutcome:
    return AlternativeOutcome(alternative, rebalances, StoppedTime(stopped_ms, 0, 0), deaths, detected_ms)


def test_what_was_replayed() -> None:
    found = restarted()
    assert words.headline(found) == (
        "`orders`: 8 generations of 3 clients between 2026-09-21 14:13:20 and 2026-09-21 14:18:20 UTC (5 min)."
    )
    result = compare(found, [])
    assert not [it for it in words.assumptions(found, result) if "newcomer" in it]
    first, second, third = words.reproduced(found, result)
    assert first == "The replay under today's settings reproduces the log: 8 generations with the same members."
    assert second == "Assignments come within 0 ms of the log's, half of them within 0 ms."
    assert third == (
        "In the replay partitions are stopped for 9.0 partition-seconds. In the 7 of 8 generations whose stopped "
        "time the log shows it is 9.0 partition-seconds, and 72.0 by the log: more than a factor of 2 apart. The "
        "model's times are not this group's: compare its numbers with each other only."
    )


def known(found: CalibratedReplay, costed: int, stopped_ms: int, log_stopped_ms: int) -> CalibratedReplay:
    """The same with other stopped times."""
    near = replace(found.reproduction, costed=costed, stopped_ms=stopped_ms, log_stopped_ms=log_stopped_ms)
    return found._replace(reproduction=near)


def test_the_stopped_time_of_the_log_stands_beside_the_replays() -> None:
    found = restarted()
    result = compare(found, [])
    assert words.reproduced(known(found, 7, 9_000, 8_500), result)[-1] == (
        "In the replay partitions are stopped for 9.0 partition-seconds. In the 7 of 8 generations whose stopped "
        "time the log shows it is 9.0 partition-seconds, and 8.5 by the log."
    )
    assert words.reproduced(known(found, 0, 0, 0), result)[-1] == (
        "In the replay partitions are stopped for 9.0 partition-seconds. The log does not show for how long they "
        "were: compare its numbers with each other only."
    )


def test_what_is_not_exact_says_so_first() -> None:
    found = restarted()
    differences = (
        GenerationDifference(Generation(7, b.T0, frozenset({"b", "a"})), None),
        GenerationDifference(Generation(8, b.T0, frozenset()), None),
        GenerationDifference(None, Generation(9, b.T0 + 1_000, frozenset({"a"}))),
        GenerationDifference(None, Generation(10, b.T0 + 1_000, frozenset())),
    )
    wrong = replace(found.reproduction, matched=6, differences=differences, late_ms=())
    said = words.reproduced(found._replace(reproduction=wrong), compare(found, []))
    assert said == [
        "The replay under today's settings differs from the log: it reproduces 6 of 8 generations and adds 2. "
        "The numbers below are off by as much.",
        "Generation 7 (14:13:20: `a` and `b`) is not reproduced.",
        "Generation 8 (14:13:20: no members) is not reproduced.",
        "At 14:13:21 the replay has a generation of `a` that is not in the log.",
        words.reproduced(found, compare(found, []))[-1],
    ]
    only_last = replace(found.reproduction, differences=differences[3:])
    said = words.reproduced(found._replace(reproduction=only_last), compare(found, []))
    assert said[1] == "At 14:13:21 the replay has a generation without members that is not in the log."


def advice(today: AlternativeOutcome, *others: AlternativeOutcome) -> list[str]:
    return words.advice(known(restarted(), 7, 9_000, 9_000), Comparison((today, *others), ()))


TODAY = made(Alternative({}), 10, 100_000, 6_000, 7_000)


def test_one_setting_helps_with_both() -> None:
    assert advice(TODAY, made(STATIC, 4, 20_000, 6_000, 7_000)) == [
        "Static membership saves most stopped time: 80.0 of 100.0 partition-seconds, and 6 rebalances."
    ]


def test_one_helps_with_each() -> None:
    longer = Alternative({"session-timeout": 60_000})
    assert advice(TODAY, made(longer, 12, 20_000, 30_000, 60_000, 61_000), made(STATIC, 4, 110_000, 7_000)) == [
        "Session timeout 1 min saves most stopped time: 80.0 of 100.0 partition-seconds, but adds 2 rebalances. "
        "A dead member is then removed after 1 min (median; today 7.0 s).",
        "Static membership saves most rebalances: 6 of 10, but costs 10.0 partition-seconds of stopped time. "
        "It removes the members of 1 of 2 deaths or stalls (today 2); the others return before that.",
    ]
    assert advice(TODAY, made(longer, 10, 20_000, 6_500), made(STATIC, 4, 90_000, 7_000, 7_000)) == [
        "Session timeout 1 min saves most stopped time: 80.0 of 100.0 partition-seconds. It removes the members of "
        "1 of 2 deaths or stalls (today 2); the others return before that.",
        "Static membership saves most rebalances: 6 of 10, and 10.0 partition-seconds of stopped time.",
    ]


def test_no_seconds_are_promised_where_the_times_are_not_the_groups() -> None:
    longer = Alternative({"session-timeout": 60_000})
    faster, fewer, dear = made(longer, 12, 20_000, 6_000), made(STATIC, 4, 99_000, 6_000), made(STATIC, 4, 110_000)
    for doubtful in (known(restarted(), 7, 9_000, 30_000), known(restarted(), 0, 0, 0)):
        assert words.advice(doubtful, Comparison((TODAY, faster, fewer), ()))[0].startswith(
            "Session timeout 1 min saves most stopped time: 80 % of the model's, but adds 2 rebalances."
        )
        said = words.advice(doubtful, Comparison((TODAY, dear), ()))[1]
        assert said.startswith(
            "Static membership saves most rebalances: 6 of 10, but costs 10 % of the model's stopped"
        )
        calm = made(Alternative({}), 10, 0)
        free = words.advice(doubtful, Comparison((calm, made(STATIC, 4, 1_000)), ()))[1]
        assert "6 of 10, but costs stopped time." in free
        compared = Comparison((TODAY, faster, dear), ())
        assert [words.saving(doubtful, compared, it) for it in (faster, dear)] == [
            "-2 rebalances, 80 %",
            "6 rebalances, -10 %",
        ]
        assert words.saving(doubtful, Comparison((calm, fewer), ()), fewer) == "6 rebalances"
        same = made(STATIC, 10, 1_000)
        assert words.saving(doubtful, Comparison((calm, same), ()), same) is None


def test_settings_that_do_not_decide_when_a_death_is_noticed_are_not_said_to() -> None:
    delayed = made(Alternative({"initial-delay": 3_000}), 9, 20_000, 3_000, 3_000)
    assert advice(TODAY, delayed) == [
        "Initial delay 3 s saves most stopped time: 80.0 of 100.0 partition-seconds, and 1 rebalance."
    ]


def test_nothing_helps() -> None:
    assert advice(TODAY, made(STATIC, 10, 100_000)) == ["No setting saves notable stopped time."]


def test_deaths_that_nobody_noticed_either_way() -> None:
    calm = made(Alternative({}), 10, 100_000, deaths=0)
    assert advice(calm, made(STATIC, 4, 20_000, deaths=0))[0].endswith("and 6 rebalances.")


def test_what_is_taken_for_granted() -> None:
    history = rolling_restart(3)
    names = ["c0-2", "c1-2", "new-1"]
    history.at(400_000, *shared_out(names[:2]))
    history.at(420_000, *shared_out(names), skip=1)
    found = calibrate(history.recording(), b.T0 + 500_000)
    result = compare(found, [STATIC, Alternative({"static": True, "assignor": "homemade"})])
    said = list(words.assumptions(found, result))
    assert said[0].startswith(
        "Clients notice a rebalance with their next heartbeat, every 3 s (from the log or the command line)"
    )
    assert said[1] == "Brokers wait 0 s for more members of an empty group (from the log or the command line)."
    assert "Generations that never completed, of which the log shows only that the number jumps: 1." in said
    assert "1 newcomer is taken for the restart of a client that left for good: `new` for `c2`." in said
    assert any(it.startswith("Static membership: a client that closes keeps its place") for it in said)
    assert said[-1] == "Static membership, homemade assignor is left out: the model has no assignor homemade."


def test_what_the_log_does_not_tell_is_said() -> None:
    history = History(created=False)
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(30_000, *shared_out(["d-1", "e-1", "f-1"]))
    history.at(40_000, *shared_out(["f-1"]))
    history.at(50_000, *shared_out(["f-1", "x-1", "y-1"]))
    found = calibrate(history.recording(), b.T0 + 60_000)
    said = list(words.assumptions(found, compare(found, [])))
    assert "(not in the log: the clients' default, or what fits best)" in said[0]
    assert "(not in the log: the brokers' default)" in said[1]
    assert any(it.startswith("2 newcomers are taken for the restart of a client") for it in said)


def test_cells() -> None:
    assert words.detection(made(STATIC, 1, 0)) is None
    assert words.detection(made(STATIC, 1, 0, 6_000, 7_000, 9_000)) == "7.0 to 9.0 s"
    exact = known(restarted(), 7, 9_000, 9_000)
    one = made(STATIC, 9, 100_000)
    assert words.saving(exact, Comparison((TODAY, one), ()), one) == "1 rebalance, 0.0 s"
    dear = made(STATIC, 12, 1_234_500)
    assert words.saving(exact, Comparison((TODAY, dear), ()), dear) == "-2 rebalances, -1,134.5 s"
    same = made(STATIC, 10, 100_000)
    assert words.saving(exact, Comparison((TODAY, same), ()), same) is None
    assert words.saving(exact, Comparison((TODAY, same), ()), TODAY) is None


def test_one_setting_saves_rebalances_alone() -> None:
    assert advice(TODAY, made(STATIC, 4, 100_000, 6_000, 7_000)) == [
        "No setting saves notable stopped time.",
        "Static membership saves most rebalances: 6 of 10.",
    ]


def test_a_setting_that_saves_time_alone() -> None:
    assert advice(TODAY, made(STATIC, 10, 10_000, 6_000, 7_000)) == [
        "Static membership saves most stopped time: 90.0 of 100.0 partition-seconds."
    ]
