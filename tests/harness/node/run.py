"""Within the isolation: start all, play the scenes, end all."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.node import node, workloads
from tests.harness.node.agent_scenes import AGENT_SCENES, Stage
from tests.harness.node.isolation import GATEWAY, prepare
from tests.harness.node.scenes import REPLICAS, play
from tests.harness.node.shop import Shop, until
from tests.harness.tools import need
from tests.live.helm.kube.api import namespace
from tests.live.helm.kube.helm import Helm, HelmError


def run(work: Path, images: list[Path], names: Sequence[str], recorded: Path | None) -> int:
    """Play scenes; the exit code: 1 where one is not as it should be."""
    prepare()
    started = time.monotonic()
    with (
        node.running(work, images) as cluster,
        EmbeddedBroker(fetch_jars(), host=GATEWAY, heap="256m") as broker,
        orders(broker.bootstrap_servers),
    ):
        _say(f"node: ready after {time.monotonic() - started:.0f} s")
        shop = Shop(cluster.api, recorded)
        helm = Helm(need("helm"), work / "helm", cluster.server.kubeconfig)
        stage = Stage(cluster, shop, helm, broker.bootstrap_servers, work)
        _install(stage)
        failed = 0
        for name in names:
            began = time.monotonic()
            try:
                said = AGENT_SCENES[name](stage) if name in AGENT_SCENES else play(name, shop)
                _say(f"ok      {name}: {said} [{time.monotonic() - began:.0f} s]")
            except (AssertionError, HelmError, httpx.HTTPError) as error:
                failed += 1
                _say(f"FAILED  {name}: {error}")
        _say(shop.explain())
    return 1 if failed else 0


@contextmanager
def orders(brokers: str) -> Iterator[None]:
    """Records for consumers to have something to commit, some a second."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for made in admin.create_topics([NewTopic(workloads.TOPIC, 6, 1)]).values():
        made.result(20)
    producer, is_over = Producer({"bootstrap.servers": brokers}), threading.Event()

    def produce() -> None:
        for key in itertools.count():
            producer.produce(workloads.TOPIC, b"order", key=str(key))
            producer.poll(0)
            if is_over.wait(0.05):
                return

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        producer.flush(10)


def _install(stage: Stage) -> None:
    """Consumers with their sidecars, and the agent by its chart."""
    api = stage.cluster.api
    for name in (workloads.NAMESPACE, workloads.AGENTS):
        api.make(namespace(name, workloads.RESTRICTED))
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until("its service account", lambda path=path: api.http.get(path).status_code == 200)
    api.make(workloads.script(), workloads.NAMESPACE)
    for manifest in workloads.sidecars_rights():
        api.make(manifest, workloads.NAMESPACE)
    plain = workloads.consumers(stage.brokers, REPLICAS)
    api.make(workloads.with_sidecar(plain, stage.brokers, stage.directory), workloads.NAMESPACE)
    stage.install("install")
    stage.agent_pod()
    stage.shop.await_members(REPLICAS)
    _say("agent: installed by its chart and ready; consumers run with their sidecars")


def _say(line: str) -> None:
    print(line, flush=True)
