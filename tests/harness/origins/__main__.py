"""Plays the demo's crash loop with a pod for each client, and looks where people look: `python -m
tests.harness.origins --out DIR`.

A real broker, real clients that are killed, an agent, Prometheus and Alertmanager (`make tools TOOLS='prometheus
alertmanager'`); the pods' status is written as the kubelet writes it, into a world in memory. Checks that the kill
stands in the first sentence of `explain` and of the page, in the alert that a receiver gets, in the counter and
in the history, and leaves pictures of the page in DIR. Two minutes; needs Java and Chromium.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyarrow import dataset

from agent.common import clock
from agent.config.settings import AnalyzerSettings, ClusterSettings, HistorySettings, LagSettings, ReadSettings
from agent.core.inference.origins import OriginKind
from agent.core.protocol.hashing import GroupPartitioner
from agent.kafka.writer.topic import partition_count
from agent.kubernetes.evidence import PodEvidence
from agent.kubernetes.health import KubernetesReading
from agent.runtime.factory import make_agent
from agent.serving.metrics.exporter import Exporter, MetricsSource
from agent.serving.server import WebServer
from agent.tools.demo import SCENARIOS, Act, Scenarios
from agent.tools.demo.monitoring import Monitoring, Programs
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.browser import SIZES, chromium, opened
from tests.harness.docs_shots import report, watch
from tests.harness.kubernetes.components import Cluster, PodHandle
from tests.harness.kubernetes.memory_world import MemoryWorld
from tests.harness.tools import find
from tests.live.stack.scene import BROKER, TUNED, WAITS_S, Webhook
from tests.unit.cli.running import kshadow
from tests.waiting import until

SCENARIO = next(it for it in SCENARIOS if it.name == "crash-loop")
WORKLOAD, ORDINALS = "checkout", (1, 2)
PLAY_S, TELL_S = 180.0, 60.0
SAID = "OOM-killed"


class ClockWorld(MemoryWorld):
    """The same in its own time."""

    def now_ms(self) -> int:
        self.ms = clock.now_ms()
        return self.ms


class WrittenPods:
    """In the place of what watches an API server: pods that a scene writes."""

    failure: Exception | None = None

    def __init__(self) -> None:
        self.world = ClockWorld()
        self.evidence: PodEvidence = self.world.evidence
        self.cluster = Cluster(self.world)
        node = self.cluster.node("n7")
        workload = self.cluster.stateful_set(WORKLOAD, len(ORDINALS), "5b8d7f9c6b")
        pods = [self.cluster.pod(workload, node, ordinal=it) for it in ORDINALS]
        self.pods: dict[str, PodHandle] = {it.name: it for it in pods}

    def follow(self, act: str, members: tuple[str, ...]) -> None:
        """What the kubelet writes of what was done to a client, which is called as its pod."""
        for pod in (self.pods[it] for it in members if it in self.pods):
            if act == Act.KILL:
                self.world.now_ms()
                self.cluster.container_ends(pod, 137, "OOMKilled")
            elif act == Act.START and pod.last is not None:
                self.world.now_ms()
                self.cluster.container_restarts(pod)

    def reading(self) -> KubernetesReading:
        return KubernetesReading(watching={}, requests={}, pods=self.evidence.pods, left_out=0)

    def worries(self) -> Iterator[str]:
        yield from ()

    def status(self) -> dict[str, Any]:
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="Where the pictures go.")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    prometheus, alertmanager = find("prometheus"), find("alertmanager")
    if prometheus is None or alertmanager is None:
        raise SystemExit("make tools TOOLS='prometheus alertmanager' builds what this needs")
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        play(Path(place), out, Programs(prometheus, alertmanager), stack)
    print("all of it says so")


def play(directory: Path, out: Path, programs: Programs, stack: ExitStack) -> None:
    """All of it; raises where it is not said."""
    group = SCENARIO.group
    broker = stack.enter_context(EmbeddedBroker(fetch_jars(), directory=directory / "broker", properties=BROKER))
    pods = WrittenPods()
    settings = ClusterSettings(
        bootstrap_server=broker.bootstrap_servers,
        read=ReadSettings(group_partitioner=GroupPartitioner.KAFKA),
        lag=LagSettings(enabled=False),
        analyzers=AnalyzerSettings(tuning=tuple((it.split("=")[0], it.split("=")[1]) for it in TUNED)),
        history=HistorySettings(parquet=str(directory / "history")),
    )
    webhook = Webhook(stack)
    clients = stack.enter_context(Scenarios(broker.bootstrap_servers, directory / "clients", scenarios=[SCENARIO]))
    partition_count({"bootstrap.servers": broker.bootstrap_servers}, create=True)
    agent = make_agent(settings, pods)  # type: ignore[arg-type]  # all that is asked of a watcher
    agent.start()
    server = WebServer(agent.queries, exporter=Exporter([MetricsSource(None, agent.queries.readings)])).start()
    stack.callback(server.stop)
    monitoring = stack.enter_context(
        Monitoring(
            programs,
            directory / "monitoring",
            [server.url.removeprefix("http://")],
            waits_s=WAITS_S,
            webhook=webhook.url,
        )
    )

    clients.start()

    def played() -> bool:
        for step in clients.new_steps():
            print(f"{step.act:9} {', '.join(step.members)}", flush=True)
            pods.follow(step.act, step.members)
        return clients.done

    until(played, PLAY_S, "the faults are over")
    assert clients.failures == {}, clients.failures

    def told() -> list[str]:
        alerts = [it for _, it in webhook.received if it["labels"].get("group") == group]
        return [it["annotations"]["description"] for it in alerts]

    until(lambda: any(SAID in it for it in told()), TELL_S, "an alert that says so")
    print("\nalert:", next(it for it in told() if SAID in it))
    summary = json.loads(kshadow("explain", group, "--agent", server.url, "-o", "json").stdout)["summary"]
    print("\nexplain:", summary)
    assert SAID in summary.split(". ")[0], summary
    print("\n" + kshadow("explain", group, "--agent", server.url).stdout)
    for path in watch(server.url, out, ("watch-group",)):
        print("watch:", path)
    with chromium() as browser:
        for width in SIZES:
            with opened(browser, f"{server.url}/groups/{group}", width=width) as (page, seen):
                lead = page.locator(".lead").first.inner_text()
                assert SAID in lead, lead
                page.screenshot(full_page=True, path=out / f"origins-{width}.png")
            assert seen.wrong() == [], seen.wrong()
        report(browser, server.url, out / "report.png")
    print("page:", lead.replace("\n", " "))
    counted = monitoring.query(f'kshadow_group_departures_by_origin_total{{group="{group}"}}')
    print("counted:", {it["metric"]["origin"]: it["value"][1] for it in counted})
    kills = sum(step.act == Act.KILL for step in SCENARIO.steps)
    assert {it["metric"]["origin"]: int(it["value"][1]) for it in counted} == {OriginKind.OOM_KILLED: kills}
    agent.stop()
    rows = dataset.dataset(directory / "history", exclude_invalid_files=True).to_table().to_pylist()
    kept = [json.loads(it["origins"]) for it in rows if it["type"] == "member_left" and it["origins"] is not None]
    kinds = [origin["kind"] for it in kept for origin in it.values() if origin is not None]
    print("history:", kinds)
    assert kinds == [OriginKind.OOM_KILLED] * kills, kinds
    ids = [it["event_id"] for it in rows]
    assert len(set(ids)) == len(ids), "no event twice"


if __name__ == "__main__":
    main()
