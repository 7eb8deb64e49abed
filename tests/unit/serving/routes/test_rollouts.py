"""The route of a group's rollouts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from httpx import Client

from agent.core.queries import Rollouts
from agent.core.records import RecordBatch
from agent.serving.replays import Replays
from agent.serving.rollouts import costs_soon, find_rollouts, with_costs
from agent.serving.web.answers import COMPLETE_SINCE
from tests.harness.verdicts.stories import GROUP, START_MS, STORIES, UNTIL_MS, records
from tests.unit.presentation.schemas.strict import wrong
from tests.unit.serving.routes.replayed import Replayed, let_go
from tests.unit.serving.routes.test_routes import client
from tests.unit.simulation.generator.making import runs

ROLLOUTS = f"/api/v1/groups/{GROUP}/rollouts"


def batches() -> list[RecordBatch]:
    return list(runs(list(records(STORIES["short grace period"], 411))))


@pytest.fixture(scope="module")
def agent() -> Replayed:
    out = Replayed(batches())
    out.now_ms = START_MS + UNTIL_MS
    return out


@pytest.fixture(scope="module")
def http(agent: Replayed) -> Iterator[Client]:
    with client(agent) as it:
        yield it


def test_every_rollout_with_its_verdict(http: Client) -> None:
    told = http.get(ROLLOUTS).json()
    assert [it["verdict"] for it in told] == ["same", "harmful"]
    assert [problem for it in told for problem in wrong("rollout", it)] == []
    assert told[0]["whatif"] is None, "only the newest is replayed"
    assert told[1]["whatif"]["today"]["rebalances"] > 0
    second_ms = told[1]["began_ms"]
    assert http.get(ROLLOUTS, params={"since": second_ms}).json() == told[1:]
    assert http.get(ROLLOUTS, params={"until": second_ms - 1}).json() == told[:1]
    assert http.get(ROLLOUTS, params={"since": "soon"}).status_code == 400
    assert http.get("/api/v1/groups/nobody/rollouts").status_code == 404
    assert COMPLETE_SINCE not in http.get(ROLLOUTS).headers


def test_one_whose_beginning_was_let_go_is_not_told() -> None:
    agent = Replayed(batches())
    agent.now_ms = START_MS + UNTIL_MS
    whole = find_rollouts(agent, GROUP)
    assert whole is not None
    second_ms = whole.rollouts[1]["began_ms"]
    events, _ = agent.recent.timeline(GROUP)
    let_go(agent, GROUP, sum(it["at_ms"] <= second_ms for it in events))
    with client(agent) as http:
        told = http.get(ROLLOUTS)
        assert (told.json(), told.headers[COMPLETE_SINCE]) == ([], str(second_ms + 1))
        assert "Rollouts" not in http.get(f"/groups/{GROUP}").text


def test_an_agent_that_does_not_read_does_not_know_that_nothing_happens() -> None:
    log = list(records(STORIES["clean eager"], 411))
    whole = Replayed(runs(log))
    whole.now_ms = START_MS + UNTIL_MS
    (_, newest), _ = find_rollouts(whole, GROUP) or Rollouts([])
    cut = [it for it in log if it.timestamp_ms < newest["ended_ms"] + 10_000]
    for stopped, state in ((None, "steady"), ("the broker is away", "running")):
        agent = Replayed(runs(cut), stopped=stopped)
        agent.now_ms = START_MS + UNTIL_MS
        (_, told), _ = find_rollouts(agent, GROUP) or Rollouts([])
        assert told["state"] == state


def test_a_replay_is_made_once(agent: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    replays = Replays()
    found = find_rollouts(agent, GROUP)
    assert found is not None
    first = with_costs(agent, found.rollouts, replays)
    monkeypatch.setattr(agent, "recording", lambda group: pytest.fail("replayed again"))
    assert with_costs(agent, found.rollouts, replays) == first
    assert costs_soon(agent, found.rollouts[-1], replays) == first[-1]["whatif"], (
        "the page has what was made for the route"
    )


def test_a_model_that_trips_fails_no_answer(agent: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_rollouts(agent, GROUP)
    assert found is not None
    monkeypatch.setattr(agent, "recording", lambda group: 1 // 0)
    (*_, newest) = with_costs(agent, found.rollouts, Replays())
    assert newest["whatif"]["untold"] == "the replay failed (ZeroDivisionError)"
    assert wrong("rollout", newest) == []
