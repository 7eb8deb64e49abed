"""One API server for all, when the first asks for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.harness.kube_definitions import LABELS, need_definitions
from tests.harness.tools import need
from tests.live.helm.kube.api import Api, Manifest, namespace
from tests.live.helm.kube.helm import Helm
from tests.live.helm.kube.schemas import Conformity
from tests.live.helm.kube.server import Programs, Server, running
from tests.waiting import until

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}

_SERVED_S = 60.0


@pytest.fixture(scope="session")
def kubernetes() -> None:
    """For tests that ask an API server."""


@pytest.fixture(scope="session")
def server(kubernetes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real API server that knows the custom resources as well."""
    programs = Programs(need("etcd"), need("kube-apiserver"))
    definitions = [it for name in LABELS for it in need_definitions(name)]
    with running(programs, tmp_path_factory.mktemp("kube")) as it:
        for definition in definitions:
            it.api.make(definition)
        for definition in definitions:
            _await_served(it.api, definition)
        yield it


def _await_served(api: Api, definition: Manifest) -> None:
    """Until the server lists such objects, and tells that it does: soon after it has taken the definition."""
    spec = definition["spec"]
    version = next(it["name"] for it in spec["versions"] if it["storage"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    until(lambda: api.http.get(path).status_code == 200 and _is_told(api, path), _SERVED_S, path)


def _is_told(api: Api, path: str) -> bool:
    """Whether discovery has it: that comes last, and is asked for once."""
    version, _, plural = path.rpartition("/")
    answer = api.http.get(version)
    return answer.status_code == 200 and plural in {it["name"] for it in answer.json()["resources"]}


@pytest.fixture
def space(server: Server, counted: Callable[[], int]) -> str:
    """A new namespace under the restricted Pod Security standard. It stays: nobody is there to clean it up."""
    name = f"it-{counted()}"
    server.api.make(namespace(name, RESTRICTED))
    return name


@pytest.fixture(scope="session")
def counted() -> Callable[[], int]:
    """1, 2, 3, …"""
    return itertools.count(1).__next__


@pytest.fixture(scope="session", params=["helm", "helm3"])
def helm(request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 4 and Helm 3, each at the server."""
    program = need(request.param)
    return Helm(program, tmp_path_factory.mktemp(request.param), server.kubeconfig)


@pytest.fixture(scope="session")
def rendering(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """A Helm that reaches no server."""
    return Helm(need("helm"), tmp_path_factory.mktemp("rendering"))


@pytest.fixture(scope="session")
def conformity() -> Conformity:
    """kubeconform with its schemas."""
    return Conformity(need("kubeconform"))
