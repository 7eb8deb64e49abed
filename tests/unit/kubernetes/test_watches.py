"""Lists and watches: what is asked next after each answer, what is learned, and how it is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import httpx2
import pytest

from agent.common import threads
from agent.core.inference.origins import Origin
from agent.core.shadow.views import Member
from agent.kubernetes.evidence import CAUGHT_UP_S, PodEvidence
from agent.kubernetes.health import BROKEN_WORRIES_MS, WatchState
from agent.kubernetes.kind_watch import WatchTimings
from agent.kubernetes.origin_rules import SETTLE_MS
from agent.kubernetes.watcher import KubernetesWatcher
from tests.unit.kubernetes.api_server import (
    Answer,
    ScriptedConnection,
    ScriptedServer,
    bookmark,
    broken,
    listed,
    pod,
    refused,
    watched,
)
from tests.waiting import until

QUICK = WatchTimings(first_pause_s=0.01, last_pause_s=0.05, denied_s=3600.0, steady_s=3600.0)


@contextmanager
def watching(
    timings: WatchTimings = QUICK, namespace: str | None = None, **answers: list[Answer]
) -> Iterator[tuple[KubernetesWatcher, ScriptedServer]]:
    server = ScriptedServer(answers)
    watcher = KubernetesWatcher(ScriptedConnection(server), namespace, timings=timings)
    watcher.start()
    try:
        yield watcher, server
    finally:
        watcher.stop()
    assert {it.method for it in server.requests} == {"GET"}


def record(watcher: KubernetesWatcher, name: str) -> Any:
    return watcher.evidence._history.pods.get(f"uid-{name}")


def test_a_watch_goes_on_where_the_one_before_ended() -> None:
    pods = [
        listed(pod("a", 3), version=5, more="next"),
        listed(pod("b", 4), version=5),
        watched(("ADDED", pod("c", 7)), bookmark(9)),
        watched(("DELETED", pod("a", 12)), httpx2.ReadError("reset")),
        broken(),
    ]
    with watching(pods=pods) as (watcher, server):
        until(lambda: len(server.asked("pods")) >= 6)
        asked = server.asked("pods")
        assert [it.get("continue") for it in asked[:2]] == [None, "next"]
        assert [it.get("resourceVersion") for it in asked[2:6]] == ["5", "9", "12", "12"]
        assert all(it["allowWatchBookmarks"] == "true" for it in asked[2:6])
        assert record(watcher, "a").gone_ms is not None
        assert record(watcher, "b").gone_ms is None
        assert record(watcher, "c").gone_ms is None
        until(lambda: watcher.reading().watching["Pod"])
        assert watcher.reading().requests["failed"] == 2
    assert watcher.reading().pods == 3


@pytest.mark.parametrize("gone", [refused(410, "too old"), watched(("ERROR", {"code": 410, "reason": "Expired"}))])
def test_after_a_version_is_gone_what_a_new_list_lacks_went_meanwhile(gone: Answer) -> None:
    pods = [listed(pod("a", 3), pod("b", 4), version=5), watched(bookmark(6)), gone, listed(pod("b", 4), version=20)]
    with watching(pods=pods) as (watcher, server):
        until(lambda: len(server.asked("pods")) >= 5)
        assert server.asked("pods")[4]["resourceVersion"] == "20"
        a = record(watcher, "a")
        assert a.gone_since_ms <= a.gone_ms
        assert record(watcher, "b").gone_ms is None
        assert watcher.reading().requests["expired"] == 1


def test_where_each_version_is_gone_once_it_was_listed_there_are_pauses() -> None:
    """As of very many pods that change all the time: everything was listed over and over, without a pause."""
    gone = watched(("ERROR", {"code": 410, "reason": "Expired"}))
    rarely = WatchTimings(first_pause_s=3600.0, last_pause_s=3600.0, pods_last_pause_s=3600.0, steady_s=3600.0)
    with watching(rarely, pods=[listed(version=5), gone] * 100) as (watcher, server):
        until(lambda: watcher.reading().requests["expired"] >= 2)
        time.sleep(0.2)
        assert len(server.asked("pods")) == 4


def test_a_kind_without_a_right_is_named_once_and_asked_seldom_and_the_others_go_on() -> None:
    denied = refused(403, 'events is forbidden: User "x" cannot list resource "events"')
    with watching(events=[denied], nodes=[refused(403, "no")]) as (watcher, server):
        until(lambda: sum(watcher.reading().watching.values()) == 5)
        assert watcher.await_first_look(10)
        time.sleep(0.2)
        assert len(server.asked("events")) == len(server.asked("nodes")) == 1
        told = [*watcher.worries()]
        assert len(told) == 2
        assert "nodes cannot be listed and watched (403: no): drains and lost nodes are not told" in told[0]
        assert watcher.status()["kinds"]["events"]["state"] == "denied"


def test_nothing_is_told_of_pods_once_the_right_to_them_is_withdrawn() -> None:
    """Its address may be another pod's since."""

    def at(seconds_ago: int) -> str:
        return datetime.fromtimestamp(time.time() - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": at(300), "finishedAt": at(40)}}
    container = {
        "name": "app", "restartCount": 1, "lastState": ended, "state": {"running": {"startedAt": at(30)}},
    }  # fmt: skip
    restarted = pod("a", 3, startTime=at(300), containerStatuses=[container])
    pods = [listed(restarted, version=5), watched(bookmark(6), 1.0), refused(403, "pods is forbidden")]
    with watching(pods=pods) as (watcher, _):

        def joined() -> Origin | None:
            member = Member("m-1", "consumer-1", "/10.0.0.9")
            return watcher.evidence.join_origin(member, round(time.time() * 1000))

        until(lambda: joined() is not None)
        until(lambda: watcher.status()["kinds"]["pods"]["state"] == WatchState.DENIED)
        time.sleep(CAUGHT_UP_S + 0.1)
        assert joined() is None


def test_what_is_not_seen_any_more_is_not_said_not_to_have_deleted_a_pod() -> None:
    """Of a StatefulSet that was known, rights taken away, and rolled out: "neither a rollout nor fewer replicas"."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    it = pod("a", 3, startTime=now)
    it["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}]
    deleted = {**it, "metadata": {**it["metadata"], "deletionTimestamp": now, "resourceVersion": "6"}}
    db = {
        "metadata": {"name": "db", "uid": "u", "namespace": "shop", "resourceVersion": "4"},
        "spec": {"replicas": 3},
    }
    sets = [listed(db, version=5), watched(bookmark(6)), refused(403, "statefulsets is forbidden")]
    with watching(pods=[listed(it, version=5), watched(("MODIFIED", deleted), 3600.0)], statefulsets=sets) as (
        watcher,
        _,
    ):
        until(lambda: watcher.status()["kinds"]["statefulsets"]["state"] == WatchState.DENIED)
        assert watcher.await_first_look(10)
        until(lambda: record(watcher, "a").deleted is not None)
        watcher.evidence._clock_ms = lambda: round(time.time() * 1000) + SETTLE_MS
        gone_ms = round(time.time() * 1000)

        def left() -> Origin | None:
            return watcher.evidence.departure_origin(Member("m-1", "c", "/10.0.0.9"), gone_ms, gone_ms)

        until(lambda: left() is not None)
        told = left()
        assert told is not None
        assert told.message == "the pod was deleted; why is not known, as its StatefulSet/db is not"


def test_a_pod_is_not_said_to_be_deleted_before_what_makes_pods_is_listed() -> None:
    """That its ReplicaSet was not known yet seemed to say that somebody had deleted it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    it = pod("a", 3, startTime=now)
    it["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "a", "uid": "u", "controller": True}]
    deleted = {**it, "metadata": {**it["metadata"], "deletionTimestamp": now, "resourceVersion": "6"}}

    async def first_page() -> AsyncIterator[bytes]:
        await asyncio.sleep(0.1)  # so that lists of others come in between
        yield b'{"metadata": {"resourceVersion": "5", "continue": "next"}}'

    async def second_page() -> AsyncIterator[bytes]:
        await asyncio.sleep(3600)
        yield b""

    sets: list[Answer] = [
        lambda: httpx2.Response(200, content=first_page()),
        lambda: httpx2.Response(200, content=second_page()),
    ]
    pods = [listed(it, version=5), watched(("MODIFIED", deleted), 3600.0)]
    with watching(pods=pods, replicasets=sets) as (watcher, _):
        until(lambda: record(watcher, "a") is not None and record(watcher, "a").deleted is not None)
        watcher.evidence._clock_ms = lambda: round(time.time() * 1000) + SETTLE_MS
        gone_ms = round(time.time() * 1000)
        assert watcher.evidence.departure_origin(Member("m-1", "c", "/10.0.0.9"), gone_ms, gone_ms) is None


def test_in_one_namespace_nodes_are_not_missed() -> None:
    with watching(namespace="shop", nodes=[refused(403, "no")]) as (watcher, server):
        until(lambda: sum(watcher.reading().watching.values()) == 6)
        assert {it.url.path for it in server.requests if it.url.path.endswith(("pods", "nodes"))} == {
            "/api/v1/namespaces/shop/pods",
            "/api/v1/nodes",
        }
        assert [*watcher.worries()] == []


def test_what_does_not_answer_is_a_worry_after_a_while() -> None:
    with watching(pods=[broken()] * 10_000) as (watcher, _):
        until(lambda: watcher.status()["kinds"]["pods"]["state"] == WatchState.BROKEN)
        assert watcher.await_first_look(10)
        assert [*watcher.worries()] == []
        for it in watcher._kinds:
            it.since_ms -= BROKEN_WORRIES_MS
        (worry,) = watcher.worries()
        assert worry.startswith("Kubernetes: no news of pods for 15 s (connection refused)")
        assert not watcher.evidence._sees_changes()
        # Events wait for what they are about.
        assert watcher.status()["kinds"]["events"]["state"] == WatchState.LISTING


def test_what_is_no_pod_is_passed_over_and_loses_no_other() -> None:
    odd = {"metadata": {"name": "odd", "uid": "uid-odd", "resourceVersion": "8"}, "status": {"podIP": 7}}
    pods = [
        listed(pod("a", 3), version=5),
        watched(("ADDED", odd), ("ADDED", pod("b", 9)), ("ERROR", {"code": 500, "message": "storage"})),
        refused(410, "too old"),
        listed(odd, pod("b", 9), version=20),
    ]
    with watching(pods=pods) as (watcher, server):
        until(lambda: len(server.asked("pods")) >= 5)
        assert watcher.status()["kinds"]["pods"]["unreadable"] == 2
        # It may be the odd one.
        assert record(watcher, "a").gone_ms is None
        assert record(watcher, "b") is not None


def test_a_line_without_an_end_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.kubernetes.kind_watch.MAX_LINE_BYTES", 1000)
    pods = [listed(version=5), lambda: httpx2.Response(200, content=b"x" * 2000)]
    with watching(pods=pods) as (watcher, server):
        until(lambda: len(server.asked("pods")) >= 3)
        assert watcher.reading().requests["failed"] == 1


def test_what_is_asked_to_wait_waits() -> None:
    pods = [refused(429, "too many", **{"Retry-After": "1"})]
    began = time.monotonic()
    with watching(pods=pods) as (_, server):
        until(lambda: len(server.asked("pods")) >= 2)
        assert time.monotonic() - began >= 0.7


def test_a_fault_does_not_end_the_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """No origin was known any more until a restart, and a line of the log alone told."""
    forget, forgotten = PodEvidence.forget, 0

    def fails_once(self: PodEvidence) -> None:
        nonlocal forgotten
        forgotten += 1
        if forgotten == 1:
            raise KeyError("pod")
        forget(self)

    monkeypatch.setattr(threads, "growing_pauses", lambda: repeat(0.01))
    monkeypatch.setattr(PodEvidence, "forget", fails_once)
    with watching(pods=[listed(pod("a", 3), version=5)] * 2) as (watcher, _):
        until(lambda: forgotten >= 2)
        until(lambda: all(watcher.reading().watching.values()) and record(watcher, "a") is not None)
        assert watcher.failure is not None, "it is told"


PATIENT = WatchTimings(first_pause_s=3600.0, last_pause_s=3600.0, pods_last_pause_s=0.05)


def test_who_is_answered_first_wakes_the_others() -> None:
    with watching(PATIENT, pods=[broken()] * 3, nodes=[broken()]) as (watcher, server):
        until(lambda: watcher.reading().watching["Node"])
        assert len(server.asked("nodes")) == 3


def test_who_is_refused_wakes_nobody() -> None:
    with watching(PATIENT, pods=[refused(401, "no")] * 10_000, nodes=[broken()]) as (watcher, server):
        until(lambda: len(server.asked("pods")) > 10)
        assert len(server.asked("nodes")) == 1
        assert watcher.status()["kinds"]["pods"]["error"] == "401: no"
