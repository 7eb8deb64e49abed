"""The five kinds of rollout on a live broker: real clients, each group deployed twice, first cleanly, and what
`kshadow verdict` says to whoever asks a real agent after the last member was started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.demo.fleet import ClientProcesses
from agent.tools.demo.script import CONSUMER_SETTINGS
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports

MEMBERS = 4
PACE_S = 6.0
AWAY_S = 1.0
STEADY_S = 33.0
BEGINNING_S = 60.0
"""Until all have joined on a busy machine, and the group has been steady: what comes before belongs to its start."""
WAIT_S = 60.0
"""Within so long of the last pod the verdict is to be there."""
COMMAND = [sys.executable, "-m", "agent.cli.main"]


@dataclass(frozen=True)
class LiveRollout:
    """A kind: the group's name, settings of the old and of the new version, its topics, what the verdict must be."""

    group: str
    expected: str
    second: Callable[[LiveGroup], None]
    new: Mapping[str, str] = field(default_factory=dict)
    old: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[int, ...] = (8,)
    is_static: bool = False


@dataclass
class LiveGroup:
    """A group at work."""

    kind: LiveRollout
    fleet: ClientProcesses

    @property
    def topics(self) -> dict[str, int]:
        return {f"{self.kind.group}-{at}": partitions for at, partitions in enumerate(self.kind.topics)}

    def start(self, number: int, settings: Mapping[str, str]) -> None:
        name = f"{self.kind.group}-{number}"
        longer = {"session.timeout.ms": "30000", "max.poll.interval.ms": "60000"}
        own = {"group.instance.id": name, **longer} if self.kind.is_static else {}
        session = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500", **own}
        strategy = {"partition.assignment.strategy": "range"}
        conf = {"group.id": self.kind.group, **CONSUMER_SETTINGS, **strategy, **session, **settings}
        self.fleet.start("consumer", name, settings=conf, topics=self.topics)

    def end(self, number: int, how: signal.Signals) -> None:
        name = f"{self.kind.group}-{number}"
        self.fleet.signal(name, how)
        self.fleet.reap(name)

    def deploy(self, settings: Mapping[str, str], how: signal.Signals = signal.SIGTERM) -> None:
        """All members, one after the other."""
        for number in range(MEMBERS):
            self.end(number, how)
            time.sleep(AWAY_S)
            self.start(number, settings)
            time.sleep(PACE_S)

    def play(self) -> None:
        for number in range(MEMBERS):
            self.start(number, self.kind.old)
        time.sleep(BEGINNING_S)
        self.deploy(self.kind.old)
        time.sleep(STEADY_S)
        self.kind.second(self)


def _clean(group: LiveGroup) -> None:
    group.deploy(group.kind.new)


def _killed(group: LiveGroup) -> None:
    group.deploy(group.kind.new, signal.SIGKILL)


def _crash_looping(group: LiveGroup) -> None:
    group.deploy(group.kind.new)
    for _ in range(3):
        for number in (0, 1):
            group.end(number, signal.SIGKILL)
            group.start(number, group.kind.new)
        time.sleep(10)


LIVE: Sequence[LiveRollout] = (
    LiveRollout("clean-static", "same", _clean, is_static=True),
    LiveRollout("clean-eager", "same", _clean),
    LiveRollout("crash-looping", "harmful", _crash_looping),
    LiveRollout("short-grace", "harmful", _killed),
    LiveRollout(
        "lopsided",
        "worse",
        _clean,
        old={"partition.assignment.strategy": "roundrobin,range"},
        new={"partition.assignment.strategy": "range,roundrobin"},
        topics=(2, 2, 2, 2, 2, 2),
    ),
)
"""The five kinds."""


def play(kinds: Sequence[LiveRollout] = LIVE) -> int:
    """Play them at once and print what came; how many were not as they should be."""
    with (
        tempfile.TemporaryDirectory(prefix="kshadow-verdicts-") as scratch,
        EmbeddedBroker(fetch_jars()) as broker,
    ):
        fleet = ClientProcesses(broker.bootstrap_servers, Path(scratch))
        groups = [LiveGroup(kind, fleet) for kind in kinds]
        (port,) = free_ports(1)
        agent = subprocess.Popen(
            [*COMMAND, "run", "--bootstrap-server", broker.bootstrap_servers, "--listen", f"127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            topics = {name: count for group in groups for name, count in group.topics.items()}
            made = admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()])
            for done in made.values():
                done.result()
            fleet.start("producer", "verdicts-producer", settings={"linger.ms": "50"}, topics=topics)
            wrong: list[str] = []
            threads = [threading.Thread(target=_judged, args=(it, port, wrong)) for it in groups]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return len(wrong)
        finally:
            fleet.close()
            agent.terminate()
            agent.wait(20)


def _judged(group: LiveGroup, port: int, wrong: list[str]) -> None:
    group.play()
    began_s = time.monotonic()
    url = f"http://127.0.0.1:{port}"
    try:
        with urlopen(f"{url}/readyz", timeout=10):
            pass
    except URLError as error:
        print(f"{group.kind.group}: the agent is not ready: {error}", flush=True)
    told = subprocess.run(
        [*COMMAND, "verdict", group.kind.group, "--agent", url, "--wait", f"{WAIT_S:.0f}s", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - began_s
    form = json.loads(told.stdout) if told.stdout else {"verdict": None, "reasons": [told.stderr.strip()]}
    code = 0 if group.kind.expected in ("same", "better") else 1
    before = (form.get("compared_with") or {}).get("verdict")
    # Deploys that follow at once, and without goodbyes, may be told as one (docs/verdict.md): then before is None.
    is_right = (form["verdict"], told.returncode) == (group.kind.expected, code) and before in (None, "same")
    if not is_right:
        wrong.append(group.kind.group)
    word = "as it should be" if is_right else "WRONG"
    print(
        f"{group.kind.group:14} {word}: before {before}, then {form['verdict']} (exit code {told.returncode}) "
        f"{took_s:.0f} s after the last start settled; {' '.join(form['reasons'])}",
        flush=True,
    )
    if not is_right:
        print(told.stdout, told.stderr, flush=True)
