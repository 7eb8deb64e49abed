"""The server is one: what is wrong it refuses. Without this, that it takes the chart would say nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.live.helm.kube.server import Server
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "it"},
    "spec": {
        "containers": [
            {
                "name": "it",
                "image": "it",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }
        ],
        "serviceAccountName": "default",
    },
}
RULE: dict[str, Any] = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "PrometheusRule",
    "metadata": {"name": "it"},
    "spec": {"groups": [{"name": "it", "rules": [{"alert": "It", "expr": "up == 0", "for": "5m"}]}]},
}
SPARK: dict[str, Any] = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "it"},
    "spec": {
        "type": "Python",
        "sparkVersion": "4.0.0",
        "mainApplicationFile": "local:///it.py",
        "driver": {"cores": 1},
        "executor": {"cores": 1},
    },
}
USER: dict[str, Any] = {
    "apiVersion": "kafka.strimzi.io/v1",
    "kind": "KafkaUser",
    "metadata": {"name": "it"},
    "spec": {
        "authorization": {
            "type": "simple",
            "acls": [{"resource": {"type": "topic", "name": "it"}, "operations": ["Read"]}],
        }
    },
}


def changed(manifest: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with another value at `a.0.b`."""
    out = copy.deepcopy(manifest)
    at: Any = out
    *way, last = (int(it) if it.isdigit() else it for it in path.split("."))
    for step in way:
        at = at[step]
    at[last] = value
    return out


WRONG = [
    (changed(POD, "spec.containers.0.ports", [{"containerPort": 93080}]), 422, "must be between 1 and 65535"),
    (changed(POD, "spec.containers.0.imagePolicy", "Always"), 400, 'unknown field "spec.containers[0].imagePolicy"'),
    (changed(POD, "metadata.name", "It Is"), 422, "a lowercase RFC 1123 subdomain"),
    (
        changed(POD, "spec.containers.0.securityContext.capabilities.add", ["NET_ADMIN"]),
        403,
        "unrestricted capabilities",
    ),
    (changed(POD, "spec.containers.0.securityContext", {}), 403, 'violates PodSecurity "restricted:latest"'),
    (changed(POD, "spec.hostNetwork", True), 403, "host namespaces"),
    (changed(POD, "spec.volumes", [{"name": "log", "hostPath": {"path": "/"}}]), 403, "restricted volume types"),
    (changed(POD, "spec.serviceAccountName", "nobody"), 403, 'serviceaccount "nobody" not found'),
    (changed(RULE, "spec.groups.0.rules.0.for", "five"), 422, "spec.groups[0].rules[0].for"),
    (changed(RULE, "spec.groups.0.rules.0.four", "5m"), 400, 'unknown field "spec.groups[0].rules[0].four"'),
    (changed(SPARK, "spec.type", "Cobol"), 422, 'Unsupported value: "Cobol"'),
    (changed(SPARK, "spec.driver.memry", "1g"), 400, 'unknown field "spec.driver.memry"'),
    (changed(USER, "spec.authorization.acls.0.operations", ["Reed"]), 422, 'Unsupported value: "Reed"'),
    (changed(USER, "spec.authorization.acls.0.hosts", "*"), 400, 'unknown field "spec.authorization.acls[0].hosts"'),
]


@pytest.mark.parametrize(("manifest", "status", "said"), WRONG, ids=lambda it: it if isinstance(it, str) else "")
def test_it_refuses_what_is_wrong(server: Server, space: str, manifest: Any, status: int, said: str) -> None:
    server.api.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, space)
    refused = server.api.create(manifest, space)
    assert (refused.status_code, said in refused.json()["message"]) == (status, True), refused.text


@pytest.mark.parametrize("manifest", [POD, RULE, SPARK, USER], ids=lambda it: it["kind"])
def test_it_takes_what_is_right(server: Server, space: str, manifest: Any) -> None:
    server.api.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, space)
    server.api.make(manifest, space)
    assert f"{manifest['kind']}/it" in server.api.objects(space)


def test_it_knows_who_may_do_what(server: Server, space: str) -> None:
    rbac = "rbac.authorization.k8s.io"
    nobody = server.api.rules(space, None)
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    server.api.make({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": "it"}, "rules": rules}, space)
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "it"},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "it"},
        "subjects": [{"kind": "ServiceAccount", "name": "it", "namespace": space}],
    }
    server.api.make(binding, space)
    until(lambda: server.api.may(space, "it", "get", "secrets"))
    assert not server.api.may(space, "it", "list", "secrets")
    assert not server.api.may(space, "other", "get", "secrets")
    assert server.api.rules(space, "it") != nobody == server.api.rules(space, "other")
