"""What holds of every Connect cluster whose workers start, end and die, whatever the order and the settings."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import event, given, settings
from hypothesis import strategies as st

from agent.simulation.groups.connect import ConnectProtocol
from agent.simulation.groups.script import Close, Kill, SetPartitions, Step
from tests import examples
from tests.unit.simulation.groups.connecting import MINUTE, ConnectPlay, start

NAMES = ("w1", "w2", "w3", "w4")
TIMES = st.one_of(st.integers(0, 20_000), st.sampled_from((1, 3_000, 10_000, 60_000, MINUTE, 5 * MINUTE, 6 * MINUTE)))


@st.composite
def stories(draw: st.DrawFn) -> tuple[dict[str, int], list[Step], int, int]:
    """Connectors with their tasks, steps, how many changes they are, and the longest delay."""
    delay_ms = draw(st.sampled_from((0, 1_000, MINUTE, 5 * MINUTE)))
    mode = draw(st.sampled_from(tuple(ConnectProtocol)))
    config = {f"c{number}": draw(st.integers(1, 5)) for number in range(draw(st.integers(1, 3)))}
    now, running, steps, sizes = 0, set[str](), list[Step](), dict(config)
    for _ in range(draw(st.integers(1, 8))):
        action = draw(st.sampled_from(("start", "start", "kill", "close", "grow")))
        if action == "grow":
            name = f"c{draw(st.integers(0, 3))}"
            sizes[name] = sizes.get(name, 0) + draw(st.integers(1, 3))
            steps.append(SetPartitions(now, name, sizes[name]))
        elif action == "start" and len(running) < len(NAMES):
            name = draw(st.sampled_from([it for it in NAMES if it not in running]))
            running.add(name)
            steps.append(start(now, name, connect_protocol=mode, scheduled_rebalance_max_delay_ms=delay_ms))
        elif running:
            name = draw(st.sampled_from(sorted(running)))
            running.remove(name)
            steps.append(Kill(now, name) if action == "kill" else Close(now, name))
        now += draw(TIMES)
    return config, steps, now, delay_ms


@settings(max_examples=examples(300), deadline=None)
@given(stories())
def test_clusters_converge(story: tuple[dict[str, int], list[Step], int, int]) -> None:
    config, steps, last_ms, delay_ms = story
    play = ConnectPlay(config, *steps, until_ms=last_ms + 2 * delay_ms + 3 * MINUTE)

    runs = sorted(play.runs, key=lambda it: (it[0], it[2]))
    for (task, _, _, until), (other, _, since, _) in pairwise(runs):
        assert task != other or until <= since, "two workers ran a task at once"

    alive = [name for name, client in play.world.clients.items() if client.is_running]
    if not alive:
        event("nobody is left")
        return
    expected = {(name, number) for name, count in play.world.partitions.items() for number in range(count)}
    held = play.held()
    counts = Counter(task for tasks in held.values() for task in tasks)
    assert counts == dict.fromkeys(expected, 1), "every configured task runs, once"
    for kind in ("connectors", "tasks"):
        shares = [len(getattr(play.worker(name).held_work, kind)) for name in alive]
        assert max(shares) - min(shares) <= 1, f"{kind} are even"
    assert len(play.rounds) <= 3 * len(steps)
