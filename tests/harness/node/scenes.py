"""What happens to consumers, by the kubelet's and the controllers' own hands, and what is to be said of it.

Each scene is a function of the shop: it does something, and returns what it expects. `SCENES` has them in an order in
which each finds the shop as the first did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tests.harness.node.node import NODE
from tests.harness.node.shop import Shop, until
from tests.harness.node.workloads import GROUP, NAMESPACE, Manifest

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{GROUP}"
REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Expected:
    """Of which pod's member which origin; `words` stand in its message. `joins`: the origin of a join of the group
    after it, of any pod."""

    pod: str
    kind: str
    words: tuple[str, ...]
    joins: str | None = None


def _name(pod: Manifest) -> str:
    return str(pod["metadata"]["name"])


def oom_killed(shop: Shop, pods: list[Manifest]) -> Expected:
    shop.harm(pods[0], "oom")
    return Expected(_name(pods[0]), "oom_killed", ("`app`", "memory limit of 96Mi"), joins="restarted")


def exited(shop: Shop, pods: list[Manifest]) -> Expected:
    shop.harm(pods[1], "exit?3")
    return Expected(_name(pods[1]), "exited", ("`app`", "exit code 3"), joins="restarted")


def liveness_killed(shop: Shop, pods: list[Manifest]) -> Expected:
    shop.harm(pods[2], "sick")
    return Expected(_name(pods[2]), "liveness_killed", ("`app`", "liveness probe"), joins="restarted")


def evicted(shop: Shop, pods: list[Manifest]) -> Expected:
    """By the kubelet, since a volume is over its size."""
    shop.harm(pods[0], "fill")
    return Expected(_name(pods[0]), "evicted", ("kubelet",), joins="restarted")


def drained(shop: Shop, pods: list[Manifest]) -> Expected:
    """As `kubectl drain` does it: the node is closed, then each pod is evicted; here it is opened again at once."""
    shop.patch(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": True}})
    time.sleep(1)
    name = _name(pods[0])
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    shop.request("POST", f"{PODS}/{name}/eviction", body)
    until("the evicted pod is gone", lambda: name not in {_name(it) for it in _all(shop)})
    shop.patch(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": None}})
    return Expected(name, "drained", (f"`{NODE}`",), joins="restarted")


def deleted(shop: Shop, pods: list[Manifest]) -> Expected:
    shop.request("DELETE", f"{PODS}/{_name(pods[0])}")
    return Expected(_name(pods[0]), "deleted", (), joins="restarted")


def scaled_down(shop: Shop, pods: list[Manifest]) -> Expected:
    before = {_name(it) for it in pods}
    shop.patch(DEPLOYMENT, {"spec": {"replicas": REPLICAS - 1}})
    gone = until("a pod goes", lambda: sorted(before - {_name(it) for it in shop.pods()}))
    return Expected(gone[0], "scaled_down", (f"from {REPLICAS} to {REPLICAS - 1}",))


def scaled_up(shop: Shop, pods: list[Manifest]) -> Expected:
    """The other way: nobody leaves."""
    before = {_name(it) for it in shop.pods()}
    shop.patch(DEPLOYMENT, {"spec": {"replicas": REPLICAS}})
    made = until("a pod comes", lambda: sorted({_name(it) for it in shop.pods()} - before))
    return Expected(made[0], "scaled_up", (f"from {REPLICAS - 1} to {REPLICAS}",))


def rolled_out(shop: Shop, pods: list[Manifest]) -> Expected:
    shop.patch(DEPLOYMENT, {"spec": {"template": {"metadata": {"annotations": {"release": str(time.time())}}}}})
    return Expected(_name(pods[0]), "rolled_out", ("revision",), joins="rolled_out")


def _all(shop: Shop) -> list[Manifest]:
    found: list[Manifest] = shop.request("GET", PODS)["items"]
    return found


SCENES: Mapping[str, Callable[[Shop, list[Manifest]], Expected]] = MappingProxyType(
    {
        it.__name__: it
        for it in (
            oom_killed,
            exited,
            liveness_killed,
            evicted,
            drained,
            deleted,
            scaled_down,
            scaled_up,
            rolled_out,
        )
    }
)


def play(name: str, shop: Shop) -> str:
    """Play one; what was seen, in a line. Raises `AssertionError` where kshadow says something else."""
    count = REPLICAS - 1 if name == "scaled_up" else REPLICAS
    pods = shop.await_members(count)
    counted = shop.metric(name)
    began_ms = time.time_ns() // 1_000_000
    expected = SCENES[name](shop, pods)
    key = "joined" if name == "scaled_up" else "left"

    def told() -> Manifest | None:
        return next(iter(shop.origins(expected.pod, key, began_ms - 1000)), None)

    try:
        member = until(f"an origin of the member of {expected.pod} that {key}", told)
        # What comes late amends it within ten seconds.
        time.sleep(11)
        member = told() or member
        origin = member["origin"]
        assert origin["kind"] == expected.kind, f"{expected.kind} expected, {member} came"
        missing = [it for it in expected.words if it not in origin["message"]]
        assert not missing, f"{missing} expected in {origin['message']!r}"
        said = f"{origin['kind']} ({member.get('cause', key)}): {origin['message']}"
        if key == "left":
            assert shop.metric(name) > counted, f"{name} is not counted"
        if expected.joins is not None:
            said += f"; then {_joined(shop, expected, began_ms)}"
        if name == "oom_killed":
            # What people read first, on a terminal and on the page.
            first = shop.explain().partition("\n\n")[0]
            assert "OOM-killed" in first.replace("\n", " "), first
            assert "OOM-killed" in shop.page(), "the page does not say so"
        return said
    finally:
        shop.record(name)


def _joined(shop: Shop, expected: Expected, began_ms: int) -> str:
    def look() -> Manifest | None:
        return next(
            (
                member["origin"]
                for pod in shop.pods()
                for member in shop.origins(_name(pod), "joined", began_ms)
                if member["origin"]["kind"] == expected.joins
            ),
            None,
        )

    origin = until(f"a member that joined: {expected.joins}", look)
    return f"{origin['kind']}: {origin['message']}"
