"""The agents that are measured: how each is started, when it has read everything, what it says it has seen.

kshadow is ours; the others are there if an environment variable names their binary (`BINARIES`). How to build them is
no business of this project's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent.tools.embedded.ports import free_ports
from tests.harness.bench import load
from tests.harness.bench.measure import Service, Services, get, service

KSHADOW = [sys.executable, "-m", "agent.cli.main"]
BINARIES = {"kminion": "KMINION", "Burrow": "BURROW", "kafka_exporter": "KAFKA_EXPORTER"}
SENTINEL = "bench-sentinel"
"""A group of one position, whose offset is how often it committed: what a tool shows of it tells how late it is."""
SENTINEL_TOPIC = "topic-000"


@dataclass
class Running:
    """A tool at work."""

    service: Service
    url: str
    servers: str

    def get(self, path: str, timeout_s: float = 2.0) -> bytes | None:
        """The body of a 200; None for anything else."""
        return get(self.url + path, timeout_s)


class Tool:
    """How one of them is handled."""

    name = ""
    reads_topic = True
    """Whether it reads the offsets topic at all; otherwise it asks the brokers at each scrape."""
    asks_cheaply = True
    """Whether one group can be asked for without a scrape of all."""

    def launch(self, servers: str, directory: Path, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
        """The command and what is added to the environment. It serves on that port of 127.0.0.1."""
        raise NotImplementedError

    def is_ready(self, it: Running) -> bool:
        """Whether it has read what the topic held when it started."""
        raise NotImplementedError

    def seen(self, it: Running) -> int | None:
        """How many of the sentinel's commits it shows; None if it does not say (yet)."""
        raise NotImplementedError

    def behind(self, it: Running) -> int | None:
        """How many records it says it is behind the topic; None if it does not say."""
        return None

    @contextmanager
    def running(self, servers: str, directory: Path) -> Iterator[Running]:
        """Run it for as long as the block lasts."""
        port = free_ports(1)[0]
        home = directory / re.sub(r"\W+", "-", self.name)
        home.mkdir(exist_ok=True)
        command, env = self.launch(servers, home, port)
        with service(command, env=env, cwd=home, name="output") as process:
            yield Running(process, f"http://127.0.0.1:{port}", servers)


@dataclass
class KShadow(Tool):
    """Ours, with options for `run`."""

    name: str = "kshadow"
    options: tuple[str, ...] = field(default=())

    def launch(self, servers: str, directory: Path, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
        run = [*KSHADOW, "run", "--bootstrap-server", servers, "--listen", f"127.0.0.1:{port}"]
        return [*run, *self.options], {}

    def is_ready(self, it: Running) -> bool:
        return it.get("/readyz") is not None

    def seen(self, it: Running) -> int | None:
        body = it.get(f"/api/v1/groups/{SENTINEL}", 30.0)
        return None if body is None else max((row["offset"] for row in json.loads(body)["offsets"]), default=None)

    def behind(self, it: Running) -> int | None:
        body = it.get("/metrics", 120.0)
        return None if body is None else sum(_values(body, b"kshadow_topic_behind_records"))


@dataclass
class Shards(KShadow):
    """So many of ours at once, each with its share of the partitions; what they use is added up."""

    count: int = 1

    @contextmanager
    def running(self, servers: str, directory: Path) -> Iterator[Running]:
        with ExitStack() as stack:
            agents = [KShadow(f"{self.name} {at}", ("--shard", f"{at}/{self.count}")) for at in range(self.count)]
            yield RunningShards([stack.enter_context(agent.running(servers, directory)) for agent in agents])


class RunningShards(Running):
    """Agents at work: each is asked, and the bodies of those that answer follow each other."""

    def __init__(self, shards: Sequence[Running]) -> None:
        """At least one."""
        first = shards[0]
        super().__init__(Services([it.service for it in shards]), first.url, first.servers)
        self._shards = shards

    def get(self, path: str, timeout_s: float = 2.0) -> bytes | None:
        bodies = [it.get(path, timeout_s) for it in self._shards]
        if path == "/readyz" and None in bodies:
            return None
        return b"".join(filter(None, bodies)) or None


@dataclass
class KMinion(Tool):
    """It exports nothing before it is ready, and looks every twelve seconds whether it is."""

    binary: str
    name: str = "kminion"
    asks_cheaply = False

    def launch(self, servers: str, directory: Path, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
        config = directory / "kminion.yaml"
        config.write_text(
            f'kafka: {{brokers: ["{servers}"]}}\n'
            "logger: {level: error}\n"
            "minion: {consumerGroups: {enabled: true, scrapeMode: offsetsTopic, granularity: partition}}\n"
            f'exporter: {{host: "127.0.0.1", port: {port}}}\n'
        )
        return [self.binary], {"CONFIG_FILEPATH": str(config)}

    def is_ready(self, it: Running) -> bool:
        return it.get("/ready") is not None

    def seen(self, it: Running) -> int | None:
        body = it.get("/metrics", 120.0)
        prefix = f'kminion_kafka_consumer_group_offset_commits_total{{group_id="{SENTINEL}"'.encode()
        return None if body is None else max(_values(body, prefix), default=None)


@dataclass
class Burrow(Tool):
    """It is caught up when the group that stands for itself is at the topic's end; it has no readiness for that."""

    binary: str
    name: str = "Burrow"

    def launch(self, servers: str, directory: Path, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
        (directory / "burrow.toml").write_text(
            f'[general]\npidfile="{directory}/burrow.pid"\n'
            '[logging]\nlevel="error"\n'
            '[client-profile.bench]\nclient-id="burrow"\nkafka-version="2.8.0"\n'
            f'[cluster.local]\nclass-name="kafka"\nservers=["{servers}"]\nclient-profile="bench"\n'
            f'[consumer.local]\nclass-name="kafka"\ncluster="local"\nservers=["{servers}"]\nclient-profile="bench"\n'
            "start-latest=false\n"
            '[storage.default]\nclass-name="inmemory"\n'
            '[evaluator.default]\nclass-name="caching"\n'
            f'[httpserver.default]\naddress="127.0.0.1:{port}"\n'
        )
        return [self.binary, "--config-dir", str(directory)], {}

    def is_ready(self, it: Running) -> bool:
        return self.behind(it) == 0

    def behind(self, it: Running) -> int | None:
        read = self._offsets(it, "burrow-local", load.TOPIC)
        if read is None:
            return None
        ends = load.ends(it.servers)
        return sum(max(end - read.get(partition, 0), 0) for partition, end in ends.items())

    def seen(self, it: Running) -> int | None:
        return (self._offsets(it, SENTINEL, SENTINEL_TOPIC) or {}).get(0)

    def _offsets(self, it: Running, group: str, topic: str) -> dict[int, int] | None:
        """The newest offset that it has of each partition."""
        body = it.get(f"/v3/kafka/local/consumer/{group}", 30.0)
        if body is None:
            return None
        rows = json.loads(body)["topics"].get(topic, [])
        newest = ([at for at in row["offsets"] if at is not None] for row in rows)
        return {number: kept[-1]["offset"] for number, kept in enumerate(newest) if kept}


@dataclass
class KafkaExporter(Tool):
    """It keeps nothing and reads no topic: each scrape asks the brokers for everything."""

    binary: str
    name: str = "kafka_exporter"
    options: tuple[str, ...] = ()
    reads_topic = False
    asks_cheaply = False

    def launch(self, servers: str, directory: Path, port: int) -> tuple[Sequence[str], Mapping[str, str]]:
        listen = f"--web.listen-address=127.0.0.1:{port}"
        return [self.binary, f"--kafka.server={servers}", listen, *self.options], {}

    def is_ready(self, it: Running) -> bool:
        return it.get("/") is not None


def others() -> tuple[list[Tool], dict[str, str]]:
    """The tools whose binaries are named, and why the rest is left out."""
    tools: list[Tool] = []
    missing = {}
    makes = {"kminion": KMinion, "Burrow": Burrow, "kafka_exporter": KafkaExporter}
    for name, variable in BINARIES.items():
        path = os.environ.get(variable)
        if not path:
            missing[name] = f"{variable} does not name its binary"
        elif not os.access(path, os.X_OK):
            missing[name] = f"{variable}: no program at {path}"
        else:
            tools.append(makes[name](str(Path(path).absolute())))
    return tools, missing


def has_option(option: str) -> bool:
    """Whether `kshadow run` has an option."""
    shown = subprocess.run([*KSHADOW, "run", "--help"], capture_output=True, text=True, check=True).stdout
    return re.search(rf"^\s*{re.escape(option)}\b", shown, re.MULTILINE) is not None


def _values(body: bytes, prefix: bytes) -> list[int]:
    return [int(float(line.rsplit(b" ", 1)[1])) for line in body.splitlines() if line.startswith(prefix)]
