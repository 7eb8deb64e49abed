"""By which names the server may be asked."""

from __future__ import annotations

import time

import httpx
import pytest

from agent.serving.server import serving
from agent.serving.web.allowed_hosts import AllowedHosts
from tests.unit.serving.routes.replayed import Replayed

HERE = (
    "localhost",
    "LOCALHOST:9308",
    "it.localhost",
    "127.0.0.1:9308",
    "[::1]:9308",
    "10.2.3.4",
    "[fd00::1]:80",
    None,
)
"""No stranger's name, whatever the server listens on: kubelets ask by the pod's address."""


@pytest.mark.parametrize("listens_on", ["127.0.0.1", "127.0.0.5", "::1", "localhost"])
def test_on_loopback_only_names_of_this_machine(listens_on: str) -> None:
    hosts = AllowedHosts((), listens_on)
    assert all(hosts.admits(it) for it in HERE)
    for stranger in (
        "evil.example",
        "evil.example:9308",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[",
        "",
        "x@",
    ):
        assert not hosts.admits(stranger), stranger


@pytest.mark.parametrize("listens_on", ["::", "0.0.0.0", "10.1.1.1", "kshadow.example"])
def test_elsewhere_every_name(listens_on: str) -> None:
    assert AllowedHosts((), listens_on).admits("kshadow.monitoring.svc:9308")


def test_names_that_are_given() -> None:
    hosts = AllowedHosts(("Kshadow.example", "*.svc.cluster.local"), "::")
    assert all(hosts.admits(it) for it in (*HERE, "kshadow.EXAMPLE:80", "kshadow.example.", "a.b.svc.cluster.local"))
    for stranger in ("evil.example", "x.kshadow.example", "svc.cluster.local", "xsvc.cluster.local"):
        assert not hosts.admits(stranger), stranger
    assert AllowedHosts(("*",), "127.0.0.1").admits("evil.example")


def test_a_long_host_costs_nothing() -> None:
    began = time.process_time()
    assert not AllowedHosts((), "127.0.0.1").admits("a" + ".a" * 60_000)
    assert time.process_time() - began < 2


def test_who_is_refused() -> None:
    with serving(Replayed([]), allowed_hosts=["kshadow.example"]) as url:
        for path in ("/", "/metrics", "/healthz", "/api/v1/groups"):
            assert httpx.get(url + path).status_code == 200
            assert httpx.get(url + path, headers={"Host": "kshadow.example"}).status_code == 200
            answer = httpx.get(url + path, headers={"Host": "rebound.example"})
            assert answer.status_code == 421
            assert answer.json() == {"error": "expected a host name of this server's; --allowed-host adds one"}
