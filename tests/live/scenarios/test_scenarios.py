"""After every step of every scenario the mirror says of every group what the broker says."""

from __future__ import annotations

import time

import pytest

from tests.live.scenarios.conftest import Cluster
from tests.live.scenarios.playing import Performance, play
from tests.live.scenarios.scenarios import scenarios, tasks_of
from tests.live.versions import COORDINATORS

pytestmark = pytest.mark.usefixtures("kafka")

ALL = [(version, name) for version in COORDINATORS for name in scenarios(version)]


@pytest.mark.parametrize(("cluster", "scenario"), ALL, indirect=["cluster"], scope="session")
def test_scenario(cluster: Cluster, performance: Performance, scenario: str) -> None:
    if performance.played[scenario].is_told:
        # What fails runs once more: played again, by itself. What differed before stays.
        again = play(cluster, [scenario])
        performance.played |= again.played
        performance.differences += again.differences
    played = performance.played[scenario]
    played.is_told = True
    assert played.problem is None
    assert played.steps > 0
    about = [text for text in performance.differences if text.split(": ")[0] in played.groups]
    assert not about, "\n".join(about)


def test_nothing_differed(cluster: Cluster, performance: Performance) -> None:
    assert not performance.differences, "\n".join(performance.differences)
    print(f"\n{cluster.tally}")


def test_connect_tasks(cluster: Cluster, performance: Performance) -> None:
    """The Admin API does not read Connect's assignments; Connect's own API does."""
    played = cluster.stage.shared.get("connect")
    if played is None:
        pytest.skip(
            "Connect is played on the newest only: its coordinator's groups are classic ones in both versions"
        )
    deadline = time.monotonic() + 30
    while True:  # tasks of the worker that left are given out when its scheduled delay is over
        form = cluster.agent.queries.describe(played["group"])
        assert form is not None
        mirrored = {member["client_id"]: member["assignment"] for member in form["members"]}
        told = tasks_of(played["port"])
        if mirrored == told or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert told is not None
    assert mirrored == told
