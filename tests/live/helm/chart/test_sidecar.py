"""The library's container in a consumer's chart, and beside a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.live.helm.chart.rendering import STRANGE, Refused, pod_of, rendered, sidecar

_RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def test_a_sidecar_of_a_consumer(any_helm: Path, parent: Path) -> None:
    container, native = sidecar(any_helm, parent, {})
    assert native
    assert container == {
        "name": "kshadow",
        "image": "kshadow:0.1.0",
        "restartPolicy": "Always",
        "args": [
            "run",
            "--bootstrap-server=kafka:9092",
            "--group=orders",
            "--no-admin",
            "--keep-trying",
            "--listen=[::]:9308",
        ],
        "ports": [{"name": "kshadow", "containerPort": 9308, "protocol": "TCP"}],
        # Neither ready nor started: the pod is not to depend on it.
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "kshadow"},
            "initialDelaySeconds": 30,
            "periodSeconds": 20,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": _RESTRICTED,
    }


def test_it_is_native_where_kubernetes_has_that(helm4: Path, parent: Path) -> None:
    for kubernetes, values, native in (
        ("1.28.9", {}, False),
        ("1.29.0", {}, True),
        ("1.28.9", {"native": True}, True),
        ("1.36.0", {"native": False}, False),
    ):
        container, is_native = sidecar(helm4, parent, values, kubernetes)
        assert is_native is native
        assert ("restartPolicy" in container) is native


def test_all_that_can_be_said(helm4: Path, parent: Path) -> None:
    values = {
        "image": "registry.example/kshadow:1.2",
        "imagePullPolicy": "Always",
        "cluster": "eu",
        "bootstrapServers": "a:9093,b:9093",
        "properties": {"sasl.password": "${KAFKA}", "retries": 6000000, "keep": True, "rate": 0.5},
        "secretEnv": {"KAFKA": {"name": "user", "key": "password"}},
        "certificatesSecret": "ca",
        "groups": ["orders", "returns"],
        "admin": True,
        "lag": False,
        "port": 9400,
        "extraArgs": ["--log-format=json"],
        "resources": {"limits": {"memory": "256Mi"}},
        "securityContext": {"runAsUser": 1001},
        "brokerLog": {"path": "/opt/kafka/logs", "volumeName": "logs"},
    }
    container, _ = sidecar(helm4, parent, values)
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example/kshadow:1.2", "Always")
    assert container["args"] == [
        "run",
        "--cluster=eu",
        "--bootstrap-server=a:9093,b:9093",
        "--property=keep=true",
        "--property=rate=0.5",
        "--property=retries=6000000",
        "--property=sasl.password=${KAFKA}",
        "--group=orders",
        "--group=returns",
        "--broker-log=/opt/kafka/logs",
        "--no-lag",
        "--keep-trying",
        "--listen=[::]:9400",
        "--log-format=json",
    ]
    assert container["env"] == [{"name": "KAFKA", "valueFrom": {"secretKeyRef": {"name": "user", "key": "password"}}}]
    assert container["ports"][0]["containerPort"] == 9400
    assert container["resources"] == {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    assert container["securityContext"] == {**_RESTRICTED, "runAsUser": 1001}
    assert container["volumeMounts"] == [
        {"name": "logs", "mountPath": "/opt/kafka/logs", "readOnly": True},
        {"name": "kshadow-certificates", "mountPath": "/etc/kshadow/certificates", "readOnly": True},
    ]
    pod = pod_of(rendered(helm4, parent, {"kshadow": values}))
    assert {"name": "kshadow-certificates", "secret": {"secretName": "ca"}} in pod["volumes"]


@pytest.mark.parametrize(
    "group",
    ["$(HOSTNAME)", "a$$b", "$$(X)", "${X}", "cost$", "$$$(", "\x7f\x85\x07", *STRANGE],
)
def test_a_groups_name_reaches_the_agent_as_it_is(helm4: Path, parent: Path, group: str) -> None:
    container, _ = sidecar(helm4, parent, {"groups": [group]})
    assert _as_kubelet_expands(container["args"][2]) == f"--group={group}"


def _as_kubelet_expands(text: str) -> str:
    """What a container gets: `$$` is one `$`, and `$(X)` what X is. See Kubernetes'
    third_party/forked/golang/expansion.
    """
    return re.sub(r"\$(\$|\([^)]*\))", lambda it: "$" if it[1] == "$" else "EXPANDED", text)


def test_nothing_is_there_where_it_is_not_enabled(any_helm: Path, parent: Path) -> None:
    pod = pod_of(rendered(any_helm, parent, {"kshadow": {"enabled": False, "bootstrapServers": ""}}))
    assert [it["name"] for it in pod["containers"]] == ["orders"]
    assert pod["initContainers"] is None
    assert [it["name"] for it in pod["volumes"]] == ["logs"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"bootstrapServers": ""}, "kshadow: bootstrapServers is needed"),
        ({"brokerLog": {"path": "/x"}}, "kshadow: brokerLog.volumeName is needed with brokerLog.path"),
        ({"brokerLog": {"volumeName": "x"}}, "kshadow: brokerLog.path is needed with brokerLog.volumeName"),
        ({"properties": {"sasl.password": "hunter2"}}, "kshadow: properties: sasl.password is a secret"),
        ({"group": "orders"}, "additional properties 'group' not allowed"),
        ({"groups": "orders"}, "at '/groups': got string, want array"),
        ({"native": "yes"}, "at '/native': value must be one of true, false, 'auto'"),
        ({"extraArgs": ["-X", "a=b"]}, "at '/extraArgs/0': '-X' does not match pattern '^--'"),
    ],
)
def test_wrong_values_are_refused_with_a_reason(helm4: Path, parent: Path, values: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=re.escape(said)) as refused:
        sidecar(helm4, parent, values)
    assert "hunter2" not in str(refused.value)
