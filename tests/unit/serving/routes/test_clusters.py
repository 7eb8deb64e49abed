"""Several clusters: what they say together, one by one, and while one of them is broken."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar
from weakref import ref

import pytest
from httpx import Client

from agent.common.collector import collector_paused
from agent.common.logs import LogHandler, TextFormatter
from agent.common.threads import daemon_thread
from agent.config.settings import PLAIN_CLUSTER
from agent.core.queries import AmbiguousGroup, Health
from agent.kafka.source.errors import SourceUnreachable
from agent.persistence.snapshot.store import StoreError, StoreErrorReason
from agent.runtime import supervisor
from agent.runtime.agent import Agent as LiveAgent
from agent.runtime.parts import AgentOptions
from agent.runtime.supervisor import ClusterSupervisor, SupervisedClusters
from tests.unit.cli.running import SEGMENTS, kshadow
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.serving.routes.replayed import Replayed, of_log, of_path, served
from tests.waiting import until

NOWHERE = "no broker answers at localhost:1"


class Agent(Replayed):
    """A mirror that is started and stopped as an agent is."""

    dies = False
    started = stopped = 0

    @property
    def queries(self) -> Agent:
        return self

    def start(self) -> None:
        self.started += 1

    def stop(self) -> None:
        self.stopped += 1

    def alive(self) -> Health:
        return Health(False, "the reader stopped: OSError()") if self.dies else super().alive()


class Telling(Agent):
    """One that tells something of itself."""

    def status(self) -> dict[str, object]:
        return {"kept": 3}

    def of_cluster(self, cluster: str) -> Agent | None:
        return self if cluster == "eu" else None


class Warned(Agent):
    """One that is ready, and has more to say."""

    def ready(self) -> Health:
        return Health(True, "caught up; snapshots fail; samples fail")


class Unreachable(Agent):
    """A cluster that nobody answers for."""

    def start(self) -> None:
        super().start()
        raise SourceUnreachable(NOWHERE)


def group(name: str, generation: int = 1) -> Agent:
    return Agent(of_log(Log().add(b.new_group(name), b.classic_group(generation, b.member("m-1"), group=name))))


def cluster(name: str | None, *agents: Callable[[], Agent]) -> ClusterSupervisor:
    """Its agents one after another; the last again and again."""
    left = list(agents)
    return ClusterSupervisor(
        name, lambda: left.pop(0)() if len(left) > 1 else left[0](), look_s=0.01, wait_s=(0.01, 0.05), steady_s=0.05
    )


@contextmanager
def running(*clusters: ClusterSupervisor) -> Iterator[SupervisedClusters]:
    made = SupervisedClusters(clusters)
    made.start()
    try:
        yield made
    finally:
        made.stop()


class OfItsOwn(Unreachable):
    """One whose parts hold each other, as an agent's do; the first ends once it ran, the second is not there."""

    made: ClassVar[list[ref[Agent]]] = []

    def __init__(self) -> None:
        super().__init__(of_log(Log().add(b.new_group("payments"))))
        self.itself = self
        self.made.append(ref(self))
        self.dies = len(self.made) == 1

    def start(self) -> None:
        if len(self.made) == 2:
            super().start()


def test_what_has_ended_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector of cycles never came to it: each agent stayed, with all that it knew and its clients' threads."""
    monkeypatch.setattr(OfItsOwn, "made", made := [])
    with collector_paused(), running(cluster("eu", OfItsOwn)):
        until(lambda: [it() is not None for it in made] == [False, False, True], said=lambda: made)


def test_together() -> None:
    eu, us = Agent(of_path(SEGMENTS)), Telling(of_log(Log().add(b.new_group("payments"))))
    with running(cluster("eu", lambda: eu), cluster("us", lambda: us)) as all_:
        until(lambda: all_.ready().ready)
        assert all_.ready() == Health(True, "caught up")
        assert all_.alive() == Health(True, "reading")
        rows = all_.groups()
        assert [row["group"] for row in rows] == sorted(str(row["group"]) for row in rows)
        assert [row for row in rows if row["cluster"] == "eu"] == [{**row, "cluster": "eu"} for row in eu.groups()]
        assert all_.describe("payments") == {**(us.describe("payments") or {}), "cluster": "us"}
        assert all_.describe("nobody") is None
        told, expected = all_.timeline("ads-eos"), eu.timeline("ads-eos")
        assert told is not None
        assert expected is not None
        assert told == ([{**event, "cluster": "eu"} for event in expected[0]], expected[1])
        found = all_.findings(since_ms=0)
        assert found
        assert found == [{**it, "cluster": "eu"} for it in eu.findings(since_ms=0)]
        ready = {"ready": True, "reason": "caught up"}
        assert all_.status() == {"clusters": {"eu": ready, "us": {**ready, "kept": 3}}}
        with pytest.raises(TypeError):
            all_.readings()
    assert (eu.started, eu.stopped, us.started, us.stopped) == (1, 1, 1, 1)


def test_one_by_one() -> None:
    with running(cluster("eu", lambda: group("a", 3)), cluster("us", lambda: group("a", 5))) as all_:
        until(lambda: all_.ready().ready)
        for ask in (all_.describe, all_.timeline):
            with pytest.raises(AmbiguousGroup) as raised:
                ask("a")
            assert str(raised.value) == "several clusters have this group: eu, us; ?cluster=NAME chooses one"
        assert [(row["cluster"], row["generation"]) for row in all_.groups()] == [("eu", 3), ("us", 5)]
        for name, generation in (("eu", 3), ("us", 5)):
            one = all_.of_cluster(name)
            assert one is not None
            form = one.describe("a")
            assert form is not None
            assert (form["cluster"], form["generation"]) == (name, generation)
            assert one.timeline("nobody") is None
            assert one.readings().healthy
        assert all_.of_cluster("ap") is None
        assert list(all_.capabilities.clusters) == ["eu", "us"]


def test_what_warns_is_told_of_all() -> None:
    with running(cluster("eu", lambda: Warned(())), cluster("us", lambda: Agent(()))) as all_:
        until(lambda: all_.ready().ready)
        assert all_.ready() == Health(True, "caught up; cluster eu: snapshots fail; cluster eu: samples fail")


@pytest.mark.parametrize("name", ["eu", None])
def test_an_agent_of_one_cluster_answers_to_its_name(name: str | None) -> None:
    alone = LiveAgent(
        AgentOptions(conf={"bootstrap.servers": "localhost:1"}, settings=replace(PLAIN_CLUSTER, name=name))
    )
    try:
        assert alone.queries.of_cluster("eu") is (alone.queries if name == "eu" else None)
        assert alone.queries.of_cluster("us") is None
    finally:
        alone.stop()


@pytest.mark.parametrize("command", ["describe", "explain", "timeline", "members", "lag"])
def test_the_prompt_asks_one_by_its_name(command: str) -> None:
    """Where several have a group of a name, what the answer advises is what gets another."""
    with running(cluster("eu", lambda: group("a", 3)), cluster("us", lambda: group("a", 5))) as all_:
        until(lambda: all_.ready().ready)
        with served(all_) as url:
            several = kshadow(command, "a", "--agent", url)
            assert (several.exit_code, several.stdout) == (3, "")
            assert "several clusters have this group: eu, us; ?cluster=NAME chooses one" in several.stderr
            for name, generation in (("eu", 3), ("us", 5)):
                one = kshadow(command, "a", "--agent", f"{url}/?cluster={name}", "-o", "json")
                assert (one.exit_code, one.stderr) == (0, "")
                if command == "describe":
                    form = json.loads(one.stdout)
                    assert (form["cluster"], form["generation"]) == (name, generation)
            rows = json.loads(kshadow("groups", "--agent", f"{url}?cluster=us", "-o", "json").stdout)
            assert [row["cluster"] for row in rows] == ["us"]
            none = kshadow(command, "a", "--agent", f"{url}?cluster=ap")
            assert (none.exit_code, none.stderr.endswith("404 Not Found: no such cluster\n")) == (3, True)


def test_what_is_asked_of_one_is_not_older_for_anothers_trouble() -> None:
    with running(cluster("eu", lambda: group("a")), cluster("us", lambda: Unreachable(()))) as all_:
        until(lambda: all_.has_caught_up and NOWHERE in all_.ready().reason)
        with served(all_) as url:
            eu = kshadow("describe", "a", "--agent", f"{url}?cluster=eu")
            assert (eu.exit_code, eu.stderr) == (0, "")
            both = kshadow("describe", "a", "--agent", url)
            assert (both.exit_code, NOWHERE in both.stderr) == (1, True)
        with served(all_) as url, Client(base_url=url) as http:
            for page in ("/", "/findings", "/groups/a"):
                assert "not up to date" in http.get(page).text
                assert "not up to date" not in http.get(page, params={"cluster": "eu"}).text


def test_findings_of_several_in_the_order_in_which_they_opened() -> None:
    makers = (lambda: Agent(of_path(SEGMENTS)), lambda: Agent(of_path(SEGMENTS)))
    with running(*(cluster(name, make) for name, make in zip("ab", makers, strict=True))) as all_:
        until(lambda: all_.ready().ready)
        found = all_.findings(since_ms=0)
        since = [it["since_ms"] for it in found]
        assert since == sorted(since)
        assert {it["cluster"] for it in found} == {"a", "b"}
        one = all_.of_cluster("a")
        assert one is not None
        assert len(found) == 2 * len(one.findings(since_ms=0))


def test_one_that_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    tried: list[Unreachable] = []

    def unreachable() -> Unreachable:
        tried.append(Unreachable(()))
        return tried[-1]

    with running(cluster("eu", lambda: group("a")), cluster("us", unreachable)) as all_:
        until(lambda: len(tried) > 3)
        assert (all_.has_caught_up, all_.alive().ready) == (True, True)
        assert all_.ready() == Health(False, f"cluster us: {NOWHERE}")
        assert [row["cluster"] for row in all_.groups()] == ["eu"]
        us = all_.of_cluster("us")
        assert us is not None
        assert (us.has_caught_up, us.ready()) == (False, Health(False, NOWHERE))
        assert (us.groups(), us.findings(), us.describe("a"), us.timeline("a")) == ([], [], None, None)
        assert not us.readings().healthy
        assert us.alive() == Health(True, NOWHERE)
    assert all(it.stopped == 1 for it in tried)
    assert f"{NOWHERE}; trying again in 0 s" in caplog.text


def test_lines_of_the_log_name_the_cluster_that_they_are_about() -> None:
    class Talking(Agent):
        def start(self) -> None:
            super().start()
            thread = daemon_thread("talking", log.warning, "said in a thread")
            thread.start()
            thread.join()

    log, stream = logging.getLogger("kshadow"), io.StringIO()
    handler = LogHandler(stream)
    handler.setFormatter(TextFormatter())
    log.addHandler(handler)
    try:
        with running(cluster("eu", lambda: Talking(())), cluster("us", lambda: Unreachable(()))) as all_:
            until(lambda: all_.has_caught_up and "trying again" in stream.getvalue())
    finally:
        log.removeHandler(handler)
    assert 'said in a thread cluster="eu"\n' in stream.getvalue()
    assert f'{NOWHERE}; trying again in 0 s cluster="us"\n' in stream.getvalue()


def test_snapshots_that_cannot_be_opened_are_told_as_plainly(caplog: pytest.LogCaptureFixture) -> None:
    full = "opening the snapshot directory /snapshots: No space left on device"

    def without_room() -> Agent:
        raise StoreError(StoreErrorReason.FULL, full)

    with running(cluster("eu", without_room)) as all_:
        until(lambda: "trying again" in caplog.text)
        assert all_.ready() == Health(False, f"cluster eu: {full}")
    assert not any(it.exc_info for it in caplog.records)


def test_one_that_comes_later() -> None:
    us = cluster("us", lambda: Unreachable(()), lambda: group("late"))
    with running(cluster("eu", lambda: group("a")), us) as all_:
        until(lambda: all_.ready().ready)
        assert [row["group"] for row in all_.groups()] == ["a", "late"]


def test_one_that_breaks_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    first, second = group("a", 1), group("a", 2)
    with running(cluster("eu", lambda: first, lambda: second), cluster("us", lambda: group("b"))) as all_:
        until(lambda: first.started == 1 and all_.ready().ready)
        first.dies = True
        until(lambda: [row["generation"] for row in all_.groups()] == [2, 1])
        assert all_.alive().ready
    assert (first.stopped, second.stopped) == (1, 1)
    assert "the reader stopped: OSError()" in caplog.text


def test_any_failure_is_one_clusters_own(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Agent:
        raise RuntimeError("a mistake")

    class Stubborn(Agent):
        dies = True

        def stop(self) -> None:
            super().stop()
            raise RuntimeError("it does not stop")

    stubborn = Stubborn(())
    agents = (cluster("eu", lambda: group("a")), cluster("us", broken), cluster("ap", lambda: stubborn))
    with running(*agents) as all_:
        until(lambda: all_.has_caught_up and stubborn.stopped > 1 and "a mistake" in all_.ready().reason)
        assert [row["group"] for row in all_.groups()] == ["a"]
        assert all_.alive().ready
    assert "it does not stop" in caplog.text


def test_one_that_is_behind_is_not_told_of() -> None:
    behind = Agent(of_log(Log().add(b.new_group("half"))), has_caught_up=False)
    with running(cluster("eu", lambda: group("a")), cluster("us", lambda: behind)) as all_:
        until(lambda: all_.has_caught_up and behind.started == 1)
        assert [row["group"] for row in all_.groups()] == ["a"]
        assert all_.describe("half") is None
        until(lambda: "12 records to go" in all_.ready().reason)
        assert all_.ready().reason == "cluster us: catching up with the topic's end: 12 records to go"


def test_nobody_looks_after_a_cluster_that_was_never_started() -> None:
    made = SupervisedClusters([cluster("eu", lambda: group("a"))])
    assert made.alive() == Health(False, "cluster eu: nobody looks after it")
    assert made.ready() == Health(False, "cluster eu: connecting")
    assert not made.has_caught_up
    made.stop()


def test_a_stop_waits_for_all_at_once() -> None:
    class Slow(Agent):
        def stop(self) -> None:
            time.sleep(1)
            super().stop()

    agents = [Slow(()) for _ in range(5)]
    with running(*(cluster(str(at), lambda agent=agent: agent) for at, agent in enumerate(agents))) as all_:  # type: ignore[misc]
        until(lambda: all(it.started for it in agents))
        began = time.monotonic()
        all_.stop()
        assert time.monotonic() - began < 4
    assert all(it.stopped == 1 for it in agents)
    assert not [it for it in threading.enumerate() if it.name.startswith("cluster ")]


def test_a_stop_does_not_wait_for_one_that_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are away took most of what all of a stop may take, or more: then the process ended with 1."""
    monkeypatch.setattr(supervisor, "LEFT_S", 3.0)
    connects = threading.Event()

    class Connecting(Agent):
        def start(self) -> None:
            super().start()
            connects.wait(30)

    reading, away = group("a"), [Connecting(()) for _ in range(5)]
    clusters = [cluster(f"us-{at}", lambda agent=agent: agent) for at, agent in enumerate(away)]  # type: ignore[misc]
    with running(cluster("eu", lambda: reading), *clusters) as all_:
        until(lambda: all(it.started for it in away) and all_.of_cluster("eu").has_caught_up)  # type: ignore[union-attr]
        began = time.monotonic()
        all_.stop()
        took_s = time.monotonic() - began
        assert (reading.stopped, [it.stopped for it in away]) == (1, [0] * 5)
        connects.set()
    until(lambda: all(it.stopped for it in away))
    assert took_s < 9, "3 s for all, not for each"


def test_the_only_one_answers_as_its_agent_does(caplog: pytest.LogCaptureFixture) -> None:
    """Tried again and again as several are, and named nowhere, as one alone is not."""

    agent = Telling(of_path(SEGMENTS))
    made = cluster(None, lambda: Unreachable(()), lambda: agent)
    assert (made.status(), made.ready()) == ({}, Health(False, "connecting"))
    assert made.of_cluster("eu") is made
    made.start()
    try:
        until(lambda: made.ready().ready)
        assert f"{NOWHERE}; trying again in 0 s" in [it.getMessage() for it in caplog.records]
        assert (made.groups(), made.findings(0)) == (agent.groups(), agent.findings(0))
        assert (made.describe("ads-eos"), made.timeline("ads-eos")) == (
            agent.describe("ads-eos"),
            agent.timeline("ads-eos"),
        )
        assert made.status() == {"kept": 3}
        assert (made.of_cluster("eu"), made.of_cluster("us")) == (made, None)
        assert made.alive() == Health(True, "reading")
    finally:
        made.stop()
    assert agent.stopped == 1
    assert made.alive() == Health(False, "nobody looks after it")


def test_over_http() -> None:
    with (
        running(cluster("eu", lambda: group("a")), cluster("us", lambda: group("b"))) as all_,
        served(all_) as url,
        Client(base_url=url) as http,
    ):
        until(lambda: all_.ready().ready)
        assert [(it["cluster"], it["group"]) for it in http.get("/api/v1/groups").json()] == [
            ("eu", "a"),
            ("us", "b"),
        ]
        assert http.get("/api/v1/groups/b").json()["cluster"] == "us"
        assert http.get("/readyz").text == "caught up\n"
