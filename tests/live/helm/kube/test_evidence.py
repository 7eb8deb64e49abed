"""Origins of members' pods from a real API server, whose watches break meanwhile: a part of
`python -m tests.harness.kubernetes proof`."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from agent.common.clock import now_ms
from agent.core.inference.origins import KINDS
from agent.kubernetes.watcher import KubernetesWatcher
from tests.harness.kubernetes.api_world import ApiWorld
from tests.harness.kubernetes.components import Cluster
from tests.harness.kubernetes.faults import CuttableLine
from tests.harness.kubernetes.proof import Asker, connection_over, play
from tests.harness.kubernetes.scenes import Scenes
from tests.live.helm.kube.server import Server

LONG = {
    "departs_node_lost",
    "departs_oom_killed",
    "unknown_used_again",
    "unknown_helper_ended_later",
    "unknown_other_container",
}


def test_every_origin_is_known_though_its_watches_are_cut(server: Server) -> None:
    port = urlsplit(server.api.url).port
    assert port is not None
    scenes, crashed = Scenes(Cluster(ApiWorld(server.api))), list[str]()
    with CuttableLine(port) as line:
        watcher = KubernetesWatcher(connection_over(line, server.kubeconfig))
        watcher.start()
        assert watcher.await_first_look(60), watcher.status()
        players = play({name: it for name, it in scenes.all().items() if name not in LONG}, crashed)
        time.sleep(5.5)
        line.cut()
        for it in players:
            it.join()
        asker = Asker(watcher.evidence)
        asker.take(scenes)
        deadline = time.monotonic() + 60
        while missing := [it for it in asker.asked if it.expected.mistake(it.last) is not None]:
            assert time.monotonic() < deadline, [it.expected.mistake(it.last) for it in missing]
            time.sleep(0.5)
            # The topic shows some of them only when their sessions have run out.
            asker.ask(now_ms() + 60_000)
        watcher.stop()
    assert crashed == []
    assert [it.wrong for it in asker.asked if it.wrong is not None] == []
    assert watcher.reading().requests["failed"] >= 6, "it was cut"
    assert {it.expected.kind for it in asker.asked} == {None, *map(str, KINDS)}
