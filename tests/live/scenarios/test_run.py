"""`kshadow run` and the commands that ask, as processes, against a real broker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.core.protocol.hashing import partition_for_group
from agent.presentation.json_views import NO_LAG
from agent.tools.embedded import ProcessReaper
from agent.tools.embedded.ports import free_ports
from tests.live.scenarios.conftest import Cluster
from tests.live.versions import NEWEST
from tests.unit.cli import running as running_here

pytestmark = pytest.mark.usefixtures("kafka")

ONCE = pytest.mark.parametrize("cluster", [NEWEST], indirect=True, scope="session")
"""For what no coordinator's version changes."""

KSHADOW = [sys.executable, "-m", "agent.cli.main"]
GROUP_METRICS = {
    "kshadow_group_state",
    "kshadow_group_members",
    "kshadow_group_generation",
    "kshadow_group_idle_members",
    "kshadow_group_rebalances",
    "kshadow_group_member_departures",
    "kshadow_group_last_commit_timestamp_seconds",  # of groups that commit
}
OTHER_METRICS = {"kshadow_records", "kshadow_topic_behind_records", "kshadow_caught_up", "kshadow_build_info"}


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("KSHADOW_")}


class Running:
    """`kshadow run` as a process."""

    def __init__(self, bootstrap: str, log: Path, *arguments: str) -> None:
        port = free_ports(1)[0]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        command = [*KSHADOW, "run", "--bootstrap-server", bootstrap, "--listen", f"127.0.0.1:{port}", *arguments]
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=environment())
        self._leash = ProcessReaper()
        self._leash.watch(self.process.pid)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; 0 while nobody listens."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return 0, ""

    def await_ready(self, status: int = 200, timeout_s: float = 90) -> list[int]:
        """Every different status of /readyz until this one."""
        seen: list[int] = []
        deadline = time.monotonic() + timeout_s
        while not seen or seen[-1] != status:
            now = self.get("/readyz")[0]
            if not seen or seen[-1] != now:
                seen.append(now)
            assert self.process.poll() is None, self.log.read_text()
            if now == 503:
                assert self.get("/healthz")[0] == 200, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline, f"{seen} {self.get('/readyz')}\n{self.log.read_text()[-2000:]}"
            time.sleep(0.05)
        return seen

    def metrics(self) -> dict[str, list[Any]]:
        status, text = self.get("/metrics")
        assert status == 200
        return {family.name: family.samples for family in text_string_to_metric_families(text)}

    def end(self) -> float:
        """SIGTERM; how long it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0, self.log.read_text()[-2000:]
        return time.monotonic() - began

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._leash.release(self.process.pid)
        self._leash.close()


@contextlib.contextmanager
def running(cluster: Cluster, directory: Path, *arguments: str) -> Iterator[Running]:
    it = Running(cluster.broker.bootstrap_servers, directory / "kshadow.log", *arguments)
    try:
        yield it
    finally:
        it.close()


def kshadow(*arguments: str, code: int = 0) -> str:
    """One command's standard output."""
    ended = subprocess.run([*KSHADOW, *arguments], capture_output=True, text=True, timeout=60, env=environment())
    assert ended.returncode == code, (arguments, ended)
    return ended.stdout if code == 0 else ended.stderr


def printed(*arguments: str) -> str:
    """The same, by this process: it starts sooner."""
    result = running_here.kshadow(*arguments)
    assert result.exit_code == 0, (arguments, result.stderr)
    return result.stdout


def without_lag(answer: Any) -> Any:
    """What is answered, but for lag: a command asks the brokers for it, this agent does not."""
    match answer:
        case dict():
            return {key: without_lag(value) for key, value in answer.items() if key not in NO_LAG}
        case list():
            return [without_lag(it) for it in answer]
    return answer


def the_group(cluster: Cluster) -> dict[str, Any]:
    """A group of the agent's that has members and offsets."""
    rows: list[Any] = cluster.agent.queries.groups()
    return max(rows, key=lambda row: (row["members"], row["committed_partitions"]))


@ONCE
def test_metrics_and_api(cluster: Cluster, performance: object, tmp_path: Path) -> None:
    # Lag is a matter of when one looks; `tests/unit/kafka/lag` holds it to the brokers.
    with running(cluster, tmp_path, "--no-lag") as it:
        it.await_ready()
        cluster.compare()
        metrics = it.metrics()
        assert metrics.keys() >= GROUP_METRICS | OTHER_METRICS
        assert all(name.startswith(("kshadow_", "process_", "python_")) for name in metrics)
        own = (samples for name, samples in metrics.items() if name.startswith("kshadow_"))
        labels = {name for samples in own for sample in samples for name in sample.labels}
        known = {"group", "group_type", "state", "cause", "type", "partition", "reason", "version", "topic"}
        assert labels <= known | {"analyzer", "severity", "field", "sink", "outcome", "library"}
        rows = json.loads(it.get("/api/v1/groups")[1])
        assert rows == cluster.agent.queries.groups()
        states = {
            (sample.labels["group"], sample.labels["group_type"], sample.labels["state"])
            for sample in metrics["kshadow_group_state"]
            if sample.value == 1
        }
        assert states == {(row["group"], row["group_type"], row["state"]) for row in rows}
        members = {sample.labels["group"]: sample.value for sample in metrics["kshadow_group_members"]}
        assert members == {row["group"]: row["members"] for row in rows}
        partitions = {sample.labels["partition"] for sample in metrics["kshadow_caught_up"]}
        assert partitions == {str(number) for number in range(8)}
        assert it.get("/api/v1/groups/no/such%20group")[0] == 404
        assert it.get("/healthz")[0] == 200

        # The same from the command line, of the agent and of the broker.
        agent, broker = ("--agent", it.url), ("--bootstrap-server", cluster.broker.bootstrap_servers)
        assert json.loads(kshadow("groups", *agent, "-o", "json")) == rows
        assert json.loads(kshadow("groups", *broker, "-o", "json")) == rows
        row = the_group(cluster)
        group = row["group"]
        for command in ("describe", "members"):
            answers = [json.loads(printed(command, group, *source, "-o", "json")) for source in (agent, broker)]
            assert without_lag(answers[0]) == without_lag(answers[1])
        assert len(answers[0]) == row["members"]
        told = [printed("timeline", group, *source, "-o", "ndjson") for source in (agent, broker)]
        assert told[0] == told[1]
        assert '"type":"rebalance"' in told[0]
        stories = [json.loads(printed("explain", group, *source, "-o", "json")) for source in (agent, broker)]
        assert [it["numbers"]["rebalances"] for it in stories] == [told[0].count('"type":"rebalance"')] * 2
        assert stories[0]["state"] == row["state"]
        printed("findings", *agent, "--since", "1h")
        assert it.get("/")[0] == 200
        owner = json.loads(printed("coordinator", group, *broker, "-o", "json"))
        assert owner["partition"] == row["coordinator_partition"] == partition_for_group(group, 8)
        missing = "no-such-group"
        assert missing in kshadow("describe", missing, *broker, code=1)
        assert missing in kshadow("describe", missing, *agent, code=1)
        assert it.end() < 5


@ONCE
def test_one_group(cluster: Cluster, performance: object, tmp_path: Path) -> None:
    row = the_group(cluster)
    with running(cluster, tmp_path, "--group", row["group"]) as it:
        it.await_ready()
        metrics = it.metrics()
        assert [sample.labels for sample in metrics["kshadow_caught_up"]] == [
            {"partition": str(row["coordinator_partition"])}
        ]
        for name in metrics.keys() & GROUP_METRICS:
            assert {sample.labels["group"] for sample in metrics[name]} == {row["group"]}, name
        assert [it["group"] for it in json.loads(it.get("/api/v1/groups")[1])] == [row["group"]]
        others = [it["group"] for it in cluster.agent.queries.groups() if it["group"] != row["group"]]
        assert it.get(f"/api/v1/groups/{urllib.request.quote(others[0], safe='')}")[0] == 404
        assert it.end() < 5


def test_nobody_there() -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    commands = (["run"], ["describe", "orders"], ["coordinator", "orders"])
    with ThreadPoolExecutor() as pool:  # each waits for as long as a broker may need
        answers = list(pool.map(lambda command: kshadow(*command, "--bootstrap-server", nobody, code=3), commands))
    for said in answers:
        assert re.search(r"^Error: .*", said), said
        assert nobody in said, said
        assert "Traceback" not in said
        assert len(said.splitlines()) == 1, said
    said = kshadow("groups", "--agent", f"http://{nobody}", code=3)
    assert nobody in said


@ONCE
def test_ends_while_the_broker_is_away(cluster: Cluster, performance: object, tmp_path: Path) -> None:
    with running(cluster, tmp_path) as it:
        it.await_ready()
        cluster.broker.pause()
        try:
            assert it.end() < 5
        finally:
            cluster.broker.resume()
            cluster.yardstick.renew()


@ONCE
def test_the_broker_goes_and_comes_back(cluster: Cluster, performance: object, tmp_path: Path) -> None:
    """And says afterwards, having loaded the log itself, what the mirror says."""
    with running(cluster, tmp_path) as it:
        it.await_ready()
        cluster.broker.kill()
        assert it.await_ready(503) == [200, 503]
        assert "has stopped: " in it.get("/readyz")[1]
        assert it.get("/healthz")[0] == 200
        assert it.get("/api/v1/groups")[0] == 200, "what is known can still be asked for"
        assert it.get("/metrics")[0] == 200
        cluster.broker.restart()
        cluster.yardstick.renew()
        assert it.await_ready(200)[-1] == 200
        assert it.end() < 5
    comparison = cluster.compare()
    assert not comparison.differences, "\n".join(comparison.all_differences())
