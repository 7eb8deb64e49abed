"""The proof: see `__main__.py`."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx
import yaml

from agent.common.clock import now_ms
from agent.core.events.open_origins import BEHIND_S, SETTLE_S
from agent.core.inference.origins import KINDS, Origin
from agent.kubernetes.connection import Connection, find_connection
from agent.kubernetes.evidence import PodEvidence
from agent.kubernetes.kind_watch import WatchTimings
from agent.kubernetes.watcher import KubernetesWatcher
from tests.harness.kubernetes.api_world import ApiWorld
from tests.harness.kubernetes.components import Cluster
from tests.harness.kubernetes.faults import CuttableLine
from tests.harness.kubernetes.scenes import Expected, Scene, Scenes
from tests.harness.tools import need
from tests.live.helm.kube.server import Programs, RestartableServer, restartable

ASK_S = 0.5
END_S = 25.0
"""After the last scene: until watches are back, and asked the last time."""
SILENT_S = 20.0
"""Of the round of silence; bookmarks come once a minute, so watches are begun anew in others as well."""


@dataclass
class Asked:
    """What came of asking for one origin."""

    expected: Expected
    wrong: str | None = None
    """An origin that it never was."""
    came_ms: int | None = None
    """How long after it was shown it was first right."""
    last: Origin | None = None


@dataclass
class Asker:
    """Asks like an agent, of all that scenes expect."""

    evidence: PodEvidence
    asked: list[Asked] = field(default_factory=list)

    def take(self, scenes: Scenes) -> None:
        """What it expects by now."""
        known = {id(it.expected) for it in self.asked}
        self.asked += [Asked(it) for it in list(scenes.expected) if id(it) not in known]

    def lacks_some(self) -> bool:
        """Whether the latest answer lacked an origin that there is."""
        return any(it.last is None for it in self.asked if it.expected.kind is not None)

    def ask(self, now: int) -> None:
        for it in self.asked:
            age_ms = now - it.expected.shown_ms
            if age_ms < 0:
                continue
            who = it.expected
            it.last = (
                self.evidence.join_origin(who.member, who.shown_ms)
                if who.joins
                else self.evidence.departure_origin(who.member, who.departed_ms, who.shown_ms)
            )
            if it.last is None:
                continue
            if it.last.kind != who.kind or it.last.pod != who.pod:
                it.wrong = it.wrong or f"after {age_ms} ms: {who.mistake(it.last)}"
            elif it.came_ms is None:
                it.came_ms = age_ms


def prove(rounds: list[str] | None = None) -> int:
    """Play all rounds, or these; the exit code."""
    chosen = {name: DISTURBANCES[name] for name in rounds or DISTURBANCES}
    failed = False
    with (
        tempfile.TemporaryDirectory() as directory,
        restartable(Programs(need("etcd"), need("kube-apiserver")), Path(directory)) as server,
    ):
        port = urlsplit(server.server.api.url).port
        assert port is not None
        cluster, apps = Cluster(ApiWorld(server.server.api)), count(1)
        with CuttableLine(port) as line:
            for name, disturb in chosen.items():
                failed |= _round(name, disturb, server, line, [Scenes(cluster, apps), Scenes(cluster, apps)])
    return 1 if failed else 0


def _round(
    name: str, disturb: Disturbance, server: RestartableServer, line: CuttableLine, several: list[Scenes]
) -> bool:
    timings = WatchTimings(silent_s=SILENT_S, uncached_watch_s=15.0)
    watcher = KubernetesWatcher(connection_over(line, server.server.kubeconfig), timings=timings)
    watcher.start()
    assert watcher.await_first_look(60), watcher.status()
    asker, over = Asker(watcher.evidence), threading.Event()
    crashed: list[str] = []
    players = [player for scenes in several for player in play(scenes.all(), crashed)]
    troubles = threading.Thread(target=disturb, args=(line, server, over))
    troubles.start()
    ended_s: float | None = None
    while (
        ended_s is None
        or time.monotonic() < ended_s + END_S
        or any(it.expected.shown_ms > now_ms() for it in asker.asked)
    ):
        time.sleep(ASK_S)
        for scenes in several:
            asker.take(scenes)
        asker.ask(now_ms())
        if ended_s is None and not any(it.is_alive() for it in players):
            ended_s = time.monotonic()
            over.set()
    troubles.join()
    asker.ask(now_ms())
    # Where a watch is just being renewed nothing is told, and who asks asks again.
    again_until_s = time.monotonic() + SETTLE_S
    while asker.lacks_some() and time.monotonic() < again_until_s:
        time.sleep(ASK_S)
        asker.ask(now_ms())
    failed = _report(name, asker.asked, watcher, line) or bool(crashed)
    print(*crashed, sep="\n")
    watcher.stop()
    return failed


def play(scenes: Mapping[str, Callable[[], Scene]], crashed: list[str]) -> list[threading.Thread]:
    """Scenes in the time that passes, each in a thread that was started; what ends one goes to `crashed`."""
    players = [threading.Thread(target=_play, args=(it(), crashed), name=name) for name, it in scenes.items()]
    for it in players:
        it.start()
    return players


def _play(scene: Scene, crashed: list[str]) -> None:
    try:
        for seconds in scene:
            time.sleep(seconds)
    except AssertionError as error:
        crashed.append(f"{threading.current_thread().name}: {error}")


def _report(name: str, asked: list[Asked], watcher: KubernetesWatcher, line: CuttableLine) -> bool:
    members = len({(it.expected.member.client_host, it.expected.member.client_id) for it in asked})
    known = [it for it in asked if it.expected.kind is not None]
    wrong = [it.wrong for it in asked if it.wrong is not None]
    lost = [str(it.expected.mistake(it.last)) for it in known if it.last is None]
    less = [str(it.expected.mistake(it.last)) for it in known if it.last and it.expected.mistake(it.last)]
    slow = [it for it in known if it.came_ms is None or it.came_ms > 1000 * SETTLE_S]
    late = [it for it in slow if it.came_ms is None or it.came_ms > 1000 * (SETTLE_S + BEHIND_S)]
    came = sorted(it.came_ms for it in known if it.came_ms is not None)
    kinds = {it.expected.kind for it in known}
    reading = watcher.reading()
    print(
        f"{name:10} {members} members, {len(known)} origins of {len(kinds)} kinds, {len(asked) - len(known)} unknown:"
        f" {len(wrong)} wrong, {len(lost)} lost, {len(less)} with less to say, {len(slow)} after "
        f"{SETTLE_S:.0f} s, {len(late)} of these late; "
        f"half known after {came[len(came) // 2] if came else 0} ms, all after {came[-1] if came else 0} ms; "
        f"requests {dict(reading.requests)}, {line.cuts} cuts",
        flush=True,
    )
    print(*(f"    {it}" for it in (*wrong, *lost, *less)), sep="\n")
    missing = {str(it) for it in KINDS} - kinds
    if missing:
        print(f"never played: {missing}")
    if name == "compacted":
        # What came and went unseen while nothing was heard, no watch can know.
        return bool(wrong or missing)
    return bool(wrong or lost or missing)


def connection_over(line: CuttableLine, kubeconfig: Path) -> Connection:
    """As the kubeconfig names it, but over the line."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{line.port}"
    over_line = kubeconfig.with_name("kubeconfig-line")
    over_line.write_text(yaml.safe_dump(config))
    with patch.dict(os.environ, {"KUBECONFIG": str(over_line)}):
        return find_connection()


# What goes wrong meanwhile: each until `over`.

Disturbance = Callable[[CuttableLine, RestartableServer, threading.Event], None]


def _nothing(line: CuttableLine, server: RestartableServer, over: threading.Event) -> None:
    return


def _cuts(line: CuttableLine, server: RestartableServer, over: threading.Event) -> None:
    pauses = random.Random(7)
    while not over.wait(pauses.uniform(0.5, 4.0)):
        line.cut()


def _restarts(line: CuttableLine, server: RestartableServer, over: threading.Event) -> None:
    for _ in range(3):
        if over.wait(4.0):
            return
        server.kill()
        server.start()


def _compacted(line: CuttableLine, server: RestartableServer, over: threading.Event) -> None:
    for _ in range(3):
        if over.wait(4.0):
            return
        line.refuse(True)
        server.kill()
        server.start()
        over.wait(2.0)
        _compact(server.etcd)
        server.kill()
        line.refuse(False)
        server.start()


def _away(line: CuttableLine, server: RestartableServer, over: threading.Event) -> None:
    over.wait(6.0)
    line.refuse(True)
    line.cut()
    over.wait(30.0)
    line.refuse(False)


def _silence(line: CuttableLine, server: RestartableServer, over: threading.Event) -> None:
    over.wait(6.0)
    line.silence()


DISTURBANCES: dict[str, Disturbance] = {
    "none": _nothing,
    "cuts": _cuts,
    "restarts": _restarts,
    "compacted": _compacted,
    "away": _away,
    "silence": _silence,
}


def _compact(etcd: str) -> None:
    """Forget all versions of objects but the newest, as API servers have etcd do every five minutes."""
    with httpx.Client(base_url=etcd, trust_env=False) as http:
        header = http.post("/v3/kv/range", json={"key": "AA=="}).json()["header"]
        http.post("/v3/kv/compaction", json={"revision": header["revision"], "physical": True}).raise_for_status()
