"""Which API server is asked, by whose login, and what is said where that cannot work."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config.settings import KubernetesSettings
from agent.kubernetes import connection
from agent.kubernetes.connection import find_connection
from agent.kubernetes.errors import KubernetesMisconfigured
from agent.kubernetes.watched import WATCHED
from agent.runtime.factory import make_watcher
from tests.answering import Handler, web_server

TOKEN = "c2VjcmV0LXRva2Vu"


def kubeconfig(**user: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": it, "context": {"cluster": "c", "user": "u"}} for it in ("here", "there")],
        "current-context": "here",
    }


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.mark.parametrize(("context", "named"), [(None, "here"), ("there", "there")])
def test_a_kubeconfig_by_its_context(file: Path, context: str | None, named: str) -> None:
    file.write_text(yaml.safe_dump(kubeconfig(token=TOKEN)))
    found = find_connection(context)
    assert found.where == f"https://10.0.0.1:6443 (context {named} of {file})"
    assert found.client().base_url == "https://10.0.0.1:6443"


def test_a_pod_by_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"token": TOKEN, "namespace": "shop", "ca.crt": "no certificate"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setattr(connection.KubeConfig.from_service_account.__func__, "__defaults__", (str(tmp_path),))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubernetesMisconfigured, match="'KUBERNETES_SERVICE_HOST' is missing"):
        find_connection()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find_connection()
    assert found.where == "https://[fd00::1]:443 (service account)"
    with pytest.raises(KubernetesMisconfigured, match="expected certificates that can be read"):
        found.client()


EXEC_V1 = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        (yaml.safe_dump(kubeconfig(token=TOKEN)), "nowhere", "Context 'nowhere' not found"),
        (
            yaml.safe_dump(kubeconfig(exec=EXEC_V1)),
            None,
            r"speaks v1beta1, got client\.authentication\.k8s\.io/v1:",
        ),
        (yaml.safe_dump(kubeconfig(**{"auth-provider": {"name": "gcp"}})), None, "by an auth-provider"),
        (f"users: [{{token: {TOKEN}\n]]", None, "expected YAML at line 2"),
        ("contexts: []\nusers: []", None, "'clusters' is missing"),
        ("- 1", None, "its fields are not those of a kubeconfig"),
        (None, None, "not found"),
    ],
)
def test_what_cannot_work_is_said_without_the_secret(
    file: Path, text: str | None, context: str | None, said: str
) -> None:
    if text is not None:
        file.write_text(text)
    with pytest.raises(KubernetesMisconfigured, match=said) as raised:
        find_connection(context)
    assert TOKEN not in str(raised.value)


_DOCTOR = """
from agent.config.settings import KubernetesSettings
from agent.tools.doctor.checks import DoctorRequest
from agent.tools.doctor.kubernetes import check_kubernetes

for check in check_kubernetes(DoctorRequest({}, kubernetes=KubernetesSettings(enabled=True))):
    print(f"{check.outcome}: {check.found}")
"""


@pytest.mark.usefixtures("process")
def test_the_doctor_tells_of_a_login_that_fails(file: Path) -> None:
    """It ended with a traceback, also where the program that a cloud's kubeconfig names is not installed."""
    file.write_text(yaml.safe_dump(kubeconfig(tokenFile="/nowhere/token")))
    # In a process of its own: other tests leave a loop running in this one.
    done = subprocess.run([sys.executable, "-c", _DOCTOR], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert f"(context here of {file}): the login fails: Token file /nowhere/token not found" in done.stdout
    assert done.stdout.startswith("failed: ")


@pytest.mark.usefixtures("process")
def test_the_doctor_does_not_take_in_all_that_there_is(file: Path) -> None:
    """A watch without a version begins with each object: in a pod of 128 MiB they ended the agent beside it."""
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "x" * 100_000}}}).encode() + b"\n"
    sent = []

    class Endless(Handler):
        def do_GET(self) -> None:  # http.server's name
            self.send_response(200)
            self.end_headers()
            if "watch=1" not in self.path:
                self.wfile.write(b'{"metadata": {"resourceVersion": "7"}, "items": []}')
                return
            until_s = time.monotonic() + 5
            with suppress(OSError):
                while time.monotonic() < until_s:
                    self.wfile.write(line)
                    sent.append(len(line))

    with web_server(Endless) as url:
        config = kubeconfig(token=TOKEN)
        config["clusters"][0]["cluster"]["server"] = url
        file.write_text(yaml.safe_dump(config))
        done = subprocess.run([sys.executable, "-c", _DOCTOR], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("ok: granted") == len(WATCHED), done.stdout + done.stderr
    # What connections hold of it.
    assert sum(sent) < len(WATCHED) * 10_000_000


def test_several_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    with pytest.raises(KubernetesMisconfigured, match="expected one file"):
        find_connection()


def test_certificates_that_are_none_are_refused_without_being_shown(file: Path) -> None:
    it = kubeconfig(token=TOKEN)
    it["clusters"][0]["cluster"] = {"server": "https://10.0.0.1", "certificate-authority-data": TOKEN}
    file.write_text(yaml.safe_dump(it))
    with pytest.raises(KubernetesMisconfigured, match="expected certificates that can be read") as raised:
        find_connection().client()
    assert TOKEN not in str(raised.value)


def test_nobody_is_asked_unless_told_to(file: Path) -> None:
    assert make_watcher(KubernetesSettings()) is None
    file.write_text(yaml.safe_dump(kubeconfig(token=TOKEN)))
    watcher = make_watcher(KubernetesSettings(enabled=True, namespace="shop", context="there"))
    assert watcher is not None
    assert (watcher.status()["namespace"], watcher.status()["api_server"]) == ("shop", find_connection("there").where)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("agent.kubernetes.connection", "agent.kubernetes.watcher"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "lightkube.config.kubeconfig", None)
    with pytest.raises(KubernetesMisconfigured, match=r"pip install 'kshadow\[kubernetes\]'"):
        make_watcher(KubernetesSettings(enabled=True))
