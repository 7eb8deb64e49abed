"""When clients of a play commit: at their pace, before they let go, and not where nobody would take it."""

from __future__ import annotations

from agent.simulation.generator.commit_schedule import CommitSchedule, CommitSpan
from agent.simulation.groups.messages import MemberRemoved
from agent.simulation.groups.protocol_models import AnyEffect
from agent.simulation.groups.script import ClientSettings, Close, Freeze, Kill, Script, Stall, Start, Step
from agent.simulation.groups.simulation import Simulation

EVERY_MS = 10_000


def spans(*steps: Step, partitions: int = 1, until_ms: int = 600_000, **silent: int) -> list[tuple[int, int, int]]:
    """First commit, from one to the next, and when it ends, of each span in order of time."""
    return sorted(span[:3] for span in played(*steps, partitions=partitions, until_ms=until_ms, **silent))


def played(*steps: Step, partitions: int = 1, until_ms: int = 600_000, **silent: int) -> list[CommitSpan]:
    script = Script("g", {"t": partitions}, steps, until_ms)
    commits = CommitSchedule(script, dict.fromkeys("ab", EVERY_MS), silent)
    Simulation(script, lambda world, now, effects: commits.observe(world, now)).run()
    commits.finish(until_ms)
    return commits.spans


def client(name: str, **more: object) -> ClientSettings:
    return ClientSettings(name, frozenset({"t"}), assignors=("range",), **more)  # type: ignore[arg-type]


# The first one waits 3 s for others, and six messages of 1 ms are under way.
A = Start(0, "a", client("a"))
STABLE_MS = 3_006


def test_who_stays_commits_to_the_end() -> None:
    assert spans(A) == [(STABLE_MS + EVERY_MS, EVERY_MS, 600_000)]


def test_who_closes_commits_once_more_and_who_dies_does_not() -> None:
    before = (STABLE_MS + EVERY_MS, EVERY_MS, 100_000)
    assert spans(A, Close(100_000, "a")) == [before, (100_001, 1, 100_002)]
    assert spans(A, Kill(100_000, "a")) == [before]
    static = Start(0, "a", client("a", instance_id="a"))
    (only, last) = spans(static, Close(100_000, "a"))
    assert (only[2], last) == (100_000, (100_001, 1, 100_002))


def test_a_dead_members_session_runs_from_its_last_commit_if_no_heartbeat_came_later() -> None:
    """A broker takes either for a sign of life."""
    died_ms = STABLE_MS + 10 * EVERY_MS + 1
    stopped: list[int] = []
    script = Script("g", {"t": 1}, (A, Kill(died_ms, "a")), 600_000)
    commits = CommitSchedule(script, {"a": EVERY_MS}, {})

    def observe(world: Simulation, now_ms: int, effects: list[AnyEffect]) -> None:
        commits.observe(world, now_ms)
        stopped.extend(now_ms for it in effects if isinstance(it, MemberRemoved))

    Simulation(script, observe).run()
    assert stopped == [died_ms - 1 + client("a").session_timeout_ms]


def test_a_stall_that_ends_in_time_ends_with_a_commit() -> None:
    assert spans(A, Stall(100_000, "a", 50_000)) == [
        (STABLE_MS + EVERY_MS, EVERY_MS, 100_000),
        (150_001, EVERY_MS, 600_000),
    ]


def test_a_stall_that_is_too_long_does_not() -> None:
    back, rejoined = spans(A, Stall(100_000, "a", 350_000))
    assert back == (STABLE_MS + EVERY_MS, EVERY_MS, 100_000)
    assert 450_000 + EVERY_MS < rejoined[0] < 455_000 + EVERY_MS


def test_before_it_joins_again_a_member_commits_what_it_gives_back() -> None:
    every = played(A, Start(100_000, "b", client("b")), partitions=2)
    (given_back,) = [span for span in every if span.every_ms == 1]
    assert given_back.slots == {("t", 0), ("t", 1)}
    assert 100_000 < given_back.first_ms < 103_100, "with its next heartbeat it hears of it"
    after = [span for span in every if span.end_ms == 600_000]
    assert sorted(map(sorted, (span.slots for span in after))) == [[("t", 0)], [("t", 1)]]


def test_nobody_takes_commits_of_who_was_dropped_while_it_stood_still() -> None:
    patient = {"session_timeout_ms": 120_000, "max_poll_interval_ms": 60_000}
    a, b = (Start(0, name, client(name, **patient)) for name in "ab")
    found = played(a, b, Freeze(100_000, "b", 80_000), Close(110_000, "a"), partitions=2)
    of_b = [span for span in found if ("t", 1) in span.slots]
    assert not [span for span in of_b if 100_000 < span.first_ms <= 183_000]
    assert of_b[-1].end_ms == 600_000, "it has joined again"


def test_who_falls_silent_commits_no_more() -> None:
    assert spans(A, Close(100_000, "a"), a=50_000) == [(STABLE_MS + EVERY_MS, EVERY_MS, 50_000)]
    assert spans(A, a=STABLE_MS) == []
