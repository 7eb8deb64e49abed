"""What `kshadow doctor --kubernetes` finds of rights, at a real API server that goes by them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config.settings import KubernetesSettings
from agent.kubernetes.watched import WATCHED, Watched
from agent.tools.doctor import Check, CheckOutcome, DoctorRequest
from agent.tools.doctor.kubernetes import check_kubernetes
from tests.live.helm.kube.server import Server

pytestmark = pytest.mark.usefixtures("kubernetes")

VERBS = ["get", "list", "watch"]


def account(server: Server, space: str, rules: list[dict[str, Any]], directory: Path) -> Path:
    """A kubeconfig of a service account that has these rights everywhere."""
    api, name = server.api, f"doctor-{space}"
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    bound = {"kind": "ServiceAccount", "name": "it", "namespace": space}
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
        "subjects": [bound],
    }
    del binding["rules"]
    api.make({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "it"}}, space)
    api.make(role)
    api.make(binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = api.http.post(f"/api/v1/namespaces/{space}/serviceaccounts/it/token", json=request)
    assert answer.status_code == 201, answer.text
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer.json()["status"]["token"]}
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def rule(watched: Watched, verbs: Collection[str] = VERBS) -> dict[str, Any]:
    return {"apiGroups": [watched.group], "resources": [watched.plural], "verbs": list(verbs)}


def found(namespace: str | None = None) -> list[Check]:
    wanted = KubernetesSettings(enabled=True, namespace=namespace)
    return list(check_kubernetes(DoctorRequest({}, kubernetes=wanted)))


def test_each_missing_right_is_named(
    server: Server, space: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No right to Deployments and nodes, and none to watch pods."""
    verbs = {"deployments": [], "nodes": [], "pods": ["get", "list"]}
    rules = [rule(it, verbs.get(it.plural, VERBS)) for it in WATCHED if verbs.get(it.plural, VERBS)]
    monkeypatch.setenv("KUBECONFIG", str(account(server, space, rules, tmp_path)))
    checks = {it.on: it for it in found()}
    assert list(checks) == ["API server", *(it.plural for it in WATCHED)]
    failed = {on: it for on, it in checks.items() if it.outcome is CheckOutcome.FAILED}
    assert failed.keys() == verbs.keys()
    assert "no origin is known" in failed["pods"].found
    assert f'User "system:serviceaccount:{space}:it" cannot watch resource "pods"' in failed["pods"].found
    assert "--resource=deployments.apps" in failed["deployments"].fix[0]
    # In one namespace: nodes lie in none.
    checks = {it.on: it for it in found(space)}
    assert (checks["nodes"].outcome, checks["pods"].outcome) == (CheckOutcome.WARNING, CheckOutcome.FAILED)
    assert checks["pods"].fix[0].startswith(f"kubectl --namespace {space} create role kshadow-pods")


def test_all_is_well_with_what_the_agent_watches(
    server: Server, space: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(account(server, space, [rule(it) for it in WATCHED], tmp_path)))
    assert {it.outcome for it in found()} == {CheckOutcome.OK}


def test_no_login_and_no_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "nobody's"}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    (check,) = found()
    assert (check.outcome, "does not take the login" in check.found) == (CheckOutcome.FAILED, True)
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path.write_text(yaml.safe_dump(config))
    (check,) = found()
    assert (check.outcome, "does not answer" in check.found) == (CheckOutcome.FAILED, True)
    path.unlink()
    (check,) = found()
    assert check.outcome is CheckOutcome.FAILED
    assert str(path) in check.found


def test_nothing_is_asked_unless_wanted() -> None:
    assert list(check_kubernetes(DoctorRequest({}))) == []
