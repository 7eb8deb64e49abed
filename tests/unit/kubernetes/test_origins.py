"""Every origin by the rules, from what Kubernetes' components write, in memory."""

from __future__ import annotations

import time

import msgspec
import pytest

from agent.core.inference.origins import KINDS, Origin
from agent.kubernetes.evidence import CAUGHT_UP_S
from agent.kubernetes.history import KEEP_MS, MAX_WAITING
from agent.kubernetes.objects import Workload
from agent.kubernetes.records import Span
from tests.harness.kubernetes.components import Cluster, PodHandle, SetHandle
from tests.harness.kubernetes.memory_world import MemoryWorld
from tests.harness.kubernetes.scenes import Expected, Scenes, member

NAMES = [it for it in dir(Scenes) if it.startswith(("departs_", "joins_", "unknown_"))]


def _played(*names: str) -> tuple[MemoryWorld, list[Expected]]:
    world = MemoryWorld()
    scenes = Scenes(Cluster(world))
    for name in names:
        for seconds in scenes.all()[name]():
            world.passes(seconds)
        world.passes(6)
    return world, scenes.expected


def _mistakes(world: MemoryWorld, expected: list[Expected]) -> list[str]:
    out = []
    for it in expected:
        asked = world.evidence
        origin = (
            asked.join_origin(it.member, it.shown_ms)
            if it.joins
            else asked.departure_origin(it.member, it.departed_ms, it.shown_ms)
        )
        out.append(it.mistake(origin))
    return [it for it in out if it is not None]


@pytest.mark.parametrize("name", NAMES)
def test_each_scene(name: str) -> None:
    world, expected = _played(name)
    assert expected
    assert _mistakes(world, expected) == []


def test_all_scenes_in_one_cluster_tell_every_kind() -> None:
    world, expected = _played(*NAMES)
    assert _mistakes(world, expected) == []
    assert {it.kind for it in expected} - {None} == {str(it) for it in KINDS}


@pytest.mark.parametrize(
    ("scene", "kind", "values"),
    [
        ("departs_oom_killed", "oom_killed", ("512Mi", None, None)),
        ("departs_liveness_killed", "liveness_killed", (None, None, "every 5 s, 3 times, timeout 2 s")),
        ("departs_at_the_end_of_grace", "rolled_out", (None, "6 s", None)),
    ],
)
def test_advice_reads_the_value_in_force_from_the_message(
    scene: str, kind: str, values: tuple[str | None, ...]
) -> None:
    world, expected = _played(scene)
    it = next(it for it in expected if it.kind == kind and not it.joins)
    found = world.evidence.departure_origin(it.member, it.departed_ms, it.shown_ms)
    assert found is not None
    assert (found.limit, found.grace, found.probe) == values


@pytest.mark.parametrize("first", ["events", "pods"])
def test_an_event_that_comes_before_what_it_is_about_is_not_lost(first: str) -> None:
    world = MemoryWorld(without=frozenset([first]))
    scenes = Scenes(Cluster(world))
    for seconds in scenes.departs_liveness_killed():
        world.passes(seconds)
    world.bring(first)
    world.passes(6)
    assert _mistakes(world, scenes.expected) == []


def deleted(world: MemoryWorld, cluster: Cluster, pod: PodHandle) -> int:
    """When a pod was deleted, which takes a second to end."""
    world.delete("pods", pod.name)
    left = world.ms
    world.passes(1)
    cluster.finishes(pod)
    return left


def origin_of_deleted(world: MemoryWorld, cluster: Cluster, pod: PodHandle) -> Origin | None:
    """What is told of a pod that is deleted now, a few seconds later."""
    left = deleted(world, cluster, pod)
    world.passes(6)
    return world.evidence.departure_origin(member(pod), left, left + 300)


def test_an_event_about_the_pod_that_had_the_name_before_is_not_of_the_one_that_has_it_now() -> None:
    """As in the first list after an agent's start: whatever ended the new pod later, it was told as evicted."""
    world = MemoryWorld(without=frozenset(["events"]))
    cluster = Cluster(world)
    sets = cluster.stateful_set("db", 1, "5b8d7f9c6b")
    first = cluster.pod(sets, cluster.node("n"), ordinal=0)
    world.passes(5)
    cluster.taint_evicts(first)
    world.passes(2)
    cluster.finishes(first)
    world.passes(1)
    second = cluster.pod(sets, "n", ordinal=0)
    world.passes(60)
    world.bring("events")
    origin = origin_of_deleted(world, cluster, second)
    assert origin is not None
    assert origin.kind == "deleted"


def test_nobody_is_said_to_have_deleted_a_pod_of_a_set_that_a_controller_shrank_that_is_not_followed() -> None:
    """Argo's Rollout: "the pod was deleted, and neither a rollout nor fewer replicas did it"."""
    world = MemoryWorld()
    cluster = Cluster(world)
    rollout = SetHandle("Rollout", "payments", "uid-of-a-rollout")
    sets, node = cluster.replica_set(rollout, "5b8d7f9c6b", 1, 3), cluster.node("n")
    pods = [cluster.pod(sets, node) for _ in range(3)]
    world.passes(600)
    cluster.controller_scales(sets, 2)
    lefts = [(pod, deleted(world, cluster, pod)) for pod in (pods[2], pods[0])]
    world.passes(6)
    told = [world.evidence.departure_origin(member(pod), left, left + 300) for pod, left in lefts]
    assert [None if it is None else it.kind for it in told] == [None, "deleted"], "the second was one too few"


def test_of_a_pod_that_was_deleted_before_anybody_looked_it_is_not_said_that_no_fewer_replicas_did_it() -> None:
    world = MemoryWorld(without=frozenset(["statefulsets"]))
    cluster = Cluster(world)
    sets, node = cluster.stateful_set("db", 2, "5b8d7f9c6b"), cluster.node("n")
    pods = [cluster.pod(sets, node, ordinal=it) for it in range(2)]
    world.passes(600)
    cluster.scale(sets, 1, "kubectl")
    left = deleted(world, cluster, pods[1])
    # An agent that starts finds it as it is.
    world.evidence.apply(
        "StatefulSet", msgspec.convert(world._objects["statefulsets", "db"], Workload), Span.at(world.ms)
    )
    world.evidence.first_look_done()
    told = [world.evidence.departure_origin(member(pods[1]), left, left + 300)]
    told.append(origin_of_deleted(world, cluster, pods[0]))
    assert [it and it.message for it in told] == [
        "the pod was deleted; why is not known, as it was before kshadow looked",
        "the pod was deleted, and neither a rollout nor fewer replicas did it",
    ]


def test_of_a_set_that_was_not_seen_for_a_while_it_is_not_said_that_no_fewer_replicas_deleted_its_pod() -> None:
    """The right to its kind was withdrawn, and given back right after it was given fewer replicas."""
    world = MemoryWorld(without=frozenset(["statefulsets"]))
    cluster = Cluster(world)
    sets, node = cluster.stateful_set("db", 2, "5b8d7f9c6b"), cluster.node("n")
    pods = [cluster.pod(sets, node, ordinal=it) for it in range(2)]
    it = world._objects["statefulsets", "db"]
    world.passes(600)
    world.evidence.apply("StatefulSet", msgspec.convert(it, Workload), Span.at(world.ms))
    world.evidence.first_look_done()
    world.passes(60)
    world.evidence.drop("StatefulSet")
    last_ms = world.ms
    world.passes(60)
    cluster.scale(sets, 1, "kubectl")
    left = deleted(world, cluster, pods[1])
    it["metadata"]["generation"] = 2
    world.evidence.apply("StatefulSet", msgspec.convert(it, Workload), Span(last_ms, world.ms))
    world.passes(6)
    assert world.evidence.departure_origin(member(pods[1]), left, left + 300) is None
    world.passes(600)
    told = origin_of_deleted(world, cluster, pods[0])
    assert told is not None
    assert told.message == "the pod was deleted, and neither a rollout nor fewer replicas did it", "that was seen"


def test_a_set_that_is_shrunk_past_its_deployment_has_no_pod_that_nothing_deleted() -> None:
    """`kubectl scale rs`; the Deployment controller brings it back at once."""
    world = MemoryWorld()
    cluster = Cluster(world)
    deployment = cluster.deployment("payments", 3)
    sets, node = cluster.replica_set(deployment, "5b8d7f9c6b", 1, 3), cluster.node("n")
    pods = [cluster.pod(sets, node) for _ in range(3)]
    world.passes(600)
    cluster.scale(sets, 2, "kubectl")
    left = deleted(world, cluster, pods[0])
    cluster.controller_scales(sets, 3)
    world.passes(6)
    assert world.evidence.departure_origin(member(pods[0]), left, left + 300) is None
    told = origin_of_deleted(world, cluster, pods[1])
    assert told is not None
    assert told.kind == "deleted", "that was one too few"


def test_of_a_deployment_that_came_and_changed_unseen_it_is_not_said_that_nothing_deleted_its_pod() -> None:
    """As where an etcd was compacted while nothing was heard: a list shows it as it was after it was given fewer."""
    unheard = frozenset(["deployments", "replicasets", "events"])
    world = MemoryWorld(without=unheard)
    cluster = Cluster(world)
    began = world.ms
    world.passes(1)
    deployment = cluster.deployment("payments", 3)
    sets, node = cluster.replica_set(deployment, "5b8d7f9c6b", 1, 3), cluster.node("n")
    pods = [cluster.pod(sets, node) for _ in range(3)]
    world.passes(5)
    cluster.scale(deployment, 2, "kubectl")
    cluster.controller_scales(sets, 2)
    left = deleted(world, cluster, pods[0])
    for kind, plural, name in (
        ("Deployment", "deployments", deployment.name),
        ("ReplicaSet", "replicasets", sets.name),
    ):
        it = world._objects[plural, name]
        it["metadata"]["generation"] = 2
        listed = msgspec.convert(it, Workload)
        world.evidence.apply(kind, listed, Span(began, world.ms))
    world.evidence.first_look_done()
    world.passes(6)
    assert world.evidence.departure_origin(member(pods[0]), left, left + 300) is None


def test_of_a_pod_whose_controller_is_not_followed_it_is_not_said_that_no_rollout_deleted_it() -> None:
    """Strimzi rolls the pods of Kafka Connect by deleting them."""
    world = MemoryWorld()
    cluster = Cluster(world)
    world.evidence.first_look_done()
    pod = cluster.pod(SetHandle("StrimziPodSet", "connect", "uid-of-a-set"), cluster.node("n"), ordinal=0)
    world.passes(600)
    told = origin_of_deleted(world, cluster, pod)
    assert told is not None
    assert told.kind == "deleted"
    assert told.message == "the pod was deleted; why is not known, as its StrimziPodSet/connect is not"


def test_a_node_that_was_not_ready_a_day_before_is_not_lost_where_a_taint_evicts() -> None:
    world = MemoryWorld()
    cluster = Cluster(world)
    node = cluster.node("n")
    pod = cluster.pod(cluster.stateful_set("db", 1, "5b8d7f9c6b"), node, ordinal=0)
    world.passes(60)
    cluster.event(("Pod", pod.name, pod.uid), "NodeNotReady", "Node is not ready", "node-controller")
    world.passes(86_400)
    cluster.taint_evicts(pod)
    left = world.ms
    world.passes(2)
    cluster.finishes(pod)
    world.passes(6)
    told = world.evidence.departure_origin(member(pod), left, left + 300)
    assert told is not None
    assert (told.kind, "NoExecute taint" in told.message) == ("evicted", True)


def test_events_that_wait_are_bounded() -> None:
    world = MemoryWorld()
    cluster = Cluster(world)
    for number in range(3 * MAX_WAITING):
        cluster.event(("Pod", f"p{number}", f"x{number}"), "Preempted", "Preempted by pod 0c5f", "scheduler")
    assert len(world.evidence._history._waiting) == MAX_WAITING


def test_nodes_that_are_gone_are_remembered_no_longer_than_their_pods() -> None:
    """An autoscaler gives each node a name of its own, so they came to be more for ever."""
    world = MemoryWorld()
    cluster, nodes = Cluster(world), world.evidence._history.nodes
    cluster.node("stays")
    for number in range(3):
        cluster.node(f"n{number}")
    world.delete("nodes", "n0")
    world.evidence.retain("Node", None, [nodes["stays"].uid, nodes["n2"].uid], Span.at(world.ms))
    world.delete("nodes", "n2")
    cluster.node("n2")
    world.passes(KEEP_MS / 1000)
    world.evidence.forget()
    assert [*nodes] == ["stays", "n0", "n1", "n2"]
    world.passes(1)
    world.evidence.forget()
    assert [*nodes] == ["stays", "n2"]


def test_what_the_first_lists_show_is_told_at_once() -> None:
    world = MemoryWorld(without=frozenset(["pods", "events"]))
    scenes = Scenes(Cluster(world))
    for play in (scenes.departs_exited, scenes.departs_liveness_killed):
        for seconds in play():
            world.passes(seconds)
    world.passes(3600)
    world.bring("pods", "events")
    assert len(_mistakes(world, scenes.expected)) == 1, "more may come of the exit"
    world.evidence.first_look_done()
    assert _mistakes(world, scenes.expected) == []


def test_nothing_is_told_while_an_address_may_become_another_pods_unseen() -> None:
    world, expected = _played("departs_exited", "joins_restarted")
    assert _mistakes(world, expected) == []
    world.evidence.watched("Pod", False)
    assert len(_mistakes(world, expected)) == len(expected)
    world.evidence.watched("Pod", True)
    assert len(_mistakes(world, expected)) == len(expected), "what went by comes now"
    time.sleep(CAUGHT_UP_S)
    assert _mistakes(world, expected) == []


@pytest.mark.parametrize(("generation", "told"), [(2, "deleted"), (3, None)])
def test_nobody_is_said_to_have_deleted_a_pod_where_replicas_may_have_been_changed_and_back(
    generation: int, told: str | None
) -> None:
    world = MemoryWorld()
    scenes = Scenes(Cluster(world))
    played = scenes.departs_deleted()
    world.passes(next(played))
    name = next(name for kind, name in world._objects if kind == "deployments")
    world.patch("deployments", name, {"metadata": {"generation": 1}})
    world.patch("deployments", name, {"metadata": {"generation": generation}})
    for seconds in played:
        world.passes(seconds)
    world.passes(6)
    it = scenes.expected[0]
    origin = world.evidence.departure_origin(it.member, it.departed_ms, it.shown_ms)
    assert (None if origin is None else origin.kind) == told
