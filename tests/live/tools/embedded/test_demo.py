"""The demo's script: that it makes sense on paper, and that a real broker sees what it tells."""

import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from agent.cli.demo_alerts import find_programs
from agent.cli.main import cli
from agent.presentation.rollouts.parameters import PARAMETERS
from agent.tools.demo import SCENARIOS, Act, Scenario, Scenarios, Step, playable_scenarios
from agent.tools.demo.script import CLASSIC, CONSUMER_SETTINGS
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.tools import need
from tests.live.versions import CLASSIC as CLASSIC_VERSION
from tests.waiting import until

# How each group is when the script is over: client ids with their numbers of partitions.
ENDINGS = {
    "payments-crash": {"payments-1": 2, "payments-3": 2, "payments-4": 2},
    "checkout-crash-loop": {"checkout-1": 2, "checkout-2": 2},
    "orders-scale-down": {"orders-1": 3, "orders-2": 3},
    "invoices-slow-batch": {"invoices-1": 2, "invoices-2": 2},
    "shipping-rolling-deploy": {f"shipping-{number}": 2 for number in range(1, 5)},
    "search-lopsided": {"search-1": 6, "search-2": 0, "search-3": 0},
    "telemetry-kip848": None,  # the broker's assignor decides who of the three has two of eight
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_script_on_paper(scenario):
    alive: set[str] = set()
    for step in scenario.steps:
        match step.act:
            case Act.START:
                assert not alive & set(step.members), "started twice"
                alive |= set(step.members)
            case Act.KILL | Act.LEAVE:
                assert set(step.members) <= alive
                alive -= set(step.members)
            case Act.STALL:
                assert set(step.members) <= alive
                assert step.seconds * 1000 > float(CONSUMER_SETTINGS["max.poll.interval.ms"])
            case Act.SETTLE:
                assert 0 < step.count <= len(alive)
    if ending := ENDINGS[scenario.group]:
        assert alive == set(ending)
        assert sum(ending.values()) == scenario.partitions
    waits = sum(step.seconds for step in scenario.steps if step.act in (Act.RUN, Act.STALL))
    assert waits < 45, "the demo is to take about a minute"


def test_a_crash_and_a_stall_can_be_told_apart():
    session_s, poll_s = (
        int(settings[name]) / 1000
        for settings, name in ((CLASSIC, "session.timeout.ms"), (CONSUMER_SETTINGS, "max.poll.interval.ms"))
    )
    assert poll_s - session_s > 2 * int(CONSUMER_SETTINGS["auto.commit.interval.ms"]) / 1000


def test_the_deploy_can_be_told_as_a_rollout():
    """`kshadow verdict shipping-rolling-deploy` had none: the group had just begun."""
    (deploy,) = (it for it in SCENARIOS if it.name == "rolling-deploy")
    acts = [step.act for step in deploy.steps]
    waits = [step.seconds for step in deploy.steps[: acts.index(Act.LEAVE)] if step.act is Act.RUN]
    assert sum(waits) * 1000 > PARAMETERS.begin_ms


def test_names_are_used_once():
    members = [
        member
        for scenario in SCENARIOS
        for step in scenario.steps
        if step.act is Act.START
        for member in step.members
    ]
    twice = {member for member in members if members.count(member) > 1}
    restarted = {f"shipping-{number}" for number in range(1, 5)} | {"checkout-2"}
    assert twice == restarted, "only the rolling deploy and the crash loop start clients again"
    topics = [topic for scenario in SCENARIOS for topic in scenario.topics]
    assert len(topics) == len(set(topics))


def clients_of(bootstrap: str) -> list[int]:
    return processes_of(f"--set=bootstrap.servers={bootstrap}")


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(fetch_jars()) as broker:
        yield broker


def processes_of(*words: str) -> list[int]:
    """Those whose command lines have all of these in them."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if all(word.encode() in (process / "cmdline").read_bytes() for word in words):
                pids.append(int(process.name))
        except OSError:
            continue
    return pids


def arguments_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_a_stack_without_prometheus_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = CliRunner().invoke(cli, ["demo", "--stack"])
    assert refused.exit_code == 2
    assert "--stack needs Prometheus, and no prometheus is on PATH" in refused.stderr


def test_what_is_no_version_is_wrong_usage():
    refused = CliRunner().invoke(cli, ["demo", "--kafka-version", "4"])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--kafka-version: expected one such as 4.4.0, got '4'" in refused.stderr


def test_alertmanager_may_be_missing(tmp_path, monkeypatch, capsys):
    program = tmp_path / "prometheus"
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_programs(None, None) == (program, None)
    assert "There is no alertmanager on PATH" in capsys.readouterr().err
    assert find_programs("/opt/p", "/opt/a") == (Path("/opt/p"), Path("/opt/a"))


@pytest.fixture
def new_broker(kafka):
    """One of its own: the demo's topics must not be there, and are when it was stopped."""
    with EmbeddedBroker(fetch_jars()) as it:
        yield it


@pytest.mark.thorough
def test_sigterm_ends_the_stack_too(new_broker):
    """As Ctrl-C does."""
    paths = [f"--{name}={need(name)}" for name in ("prometheus", "alertmanager")]
    command = [sys.executable, "-m", "agent.cli.main", "demo", "--stack", *paths]
    command += ["--bootstrap-server", new_broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            said = next(line for line in demo.stdout if "kshadow's alerts" in line)
            ports = sorted(set(re.findall(r"http://(127\.0\.0\.1:\d+)", said)))
            assert len(ports) == 2
            assert [len(processes_of(f"--web.listen-address={port}")) for port in ports] == [1, 1]
            [directory] = set(re.findall(r"/\S*kshadow-demo-[^/]+", arguments_of(processes_of(ports[0])[0])))
            assert Path(directory).exists()
            demo.send_signal(signal.SIGTERM)
            _, errors = demo.communicate(timeout=120)
        finally:
            demo.kill()
    assert demo.returncode == 143, errors
    assert "Traceback" not in errors
    assert [processes_of(port) for port in ports] == [[], []]
    assert not Path(directory).exists()


@pytest.mark.usefixtures("kafka")
def test_the_broker_sees_what_the_script_tells(broker, tmp_path):
    with Scenarios(broker.bootstrap_servers, tmp_path) as scenarios:
        assert not scenarios.done
        scenarios.start()
        seen = []
        deadline = time.monotonic() + 150
        while not scenarios.wait(0.5) and time.monotonic() < deadline:
            seen += scenarios.new_steps()
        assert scenarios.done
        assert scenarios.failures == {}
        seen += scenarios.new_steps()
        assert tuple(seen) == scenarios.ledger

        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for group, future in admin.describe_consumer_groups(list(ENDINGS), request_timeout=20).items():
            described = future.result(30)
            shares = {member.client_id: len(member.assignment.topic_partitions) for member in described.members}
            assert described.state == ConsumerGroupState.STABLE, group
            assert shares == (ENDINGS[group] or shares)
            if group == "telemetry-kip848":
                assert described.type == ConsumerGroupType.CONSUMER
                assert sorted(shares.values()) == [2, 3, 3]
                assert set(shares) == {"telemetry-2", "telemetry-3", "telemetry-4"}
        assert len(clients_of(broker.bootstrap_servers)) == 1 + 3 + 2 + 2 + 2 + 4 + 3 + 3
    assert clients_of(broker.bootstrap_servers) == []

    def after(scenario: str, act: str) -> list[float]:
        """Seconds from each such act to the settling that follows it."""
        entries = [entry for entry in seen if entry.scenario == scenario]
        pairs = pairwise(entries)
        return [(later.at_ms - entry.at_ms) / 1000 for entry, later in pairs if entry.act == act]

    assert 4 < after("crash", "kill")[0] < 20, "the group waited for the session timeout"
    assert [4 < seconds < 20 for seconds in after("crash-loop", "kill")] == [True] * 3
    assert after("leave", "leave")[0] < 6, "and here for nothing"
    assert [9 < seconds < 25 for seconds in after("stall", "stall")] == [True, True]
    for scenario in SCENARIOS:
        entries = [entry for entry in seen if entry.scenario == scenario.name]
        assert (entries[0].act, entries[-1].act) == ("start", "finished")
        assert {entry.group for entry in entries} == {scenario.group}
    log = (tmp_path / "invoices-1.log").read_text()
    assert log.count("takes 13.0 s") == 2
    assert "MAXPOLL" in log or "max.poll.interval.ms" in log
    assert "closing" not in (tmp_path / "payments-2.log").read_text(), "killed, not closed"


@pytest.mark.usefixtures("kafka")
def test_no_kip_848_before_kafka_4(broker):
    """Its story ended after 45 s with "dead, no members", and the demo with exit code 1."""
    assert playable_scenarios(broker.bootstrap_servers) == SCENARIOS
    with EmbeddedBroker(fetch_jars(CLASSIC_VERSION)) as older:
        names = [it.name for it in playable_scenarios(older.bootstrap_servers)]
    assert names == [it.name for it in SCENARIOS if it.name != "kip-848"]
    assert playable_scenarios("127.0.0.1:1") == SCENARIOS, "whoever cannot be asked says so when played"


@pytest.mark.usefixtures("kafka")
def test_what_cannot_be_played_is_said(broker, tmp_path):
    broken = Scenario(
        name="broken",
        group="broken",
        story="A consumer that cannot start.",
        topics={"broken": 1},
        steps=(Step(Act.START, ("broken-1",)), Step(Act.SETTLE, count=1)),
        settings={"session.timeout.ms": "none"},
    )
    with Scenarios(broker.bootstrap_servers, tmp_path, scenarios=[broken]) as scenarios:
        scenarios.start()
        assert scenarios.wait(30)
    log = tmp_path / "broken-1.log"
    assert scenarios.failures == {"broken": f"broken-1 ended by itself with exit code 1; its log is {log}"}
    assert "session.timeout.ms" in log.read_text()


@pytest.mark.usefixtures("kafka")
def test_ctrl_c_ends_everything(tmp_path):
    program = """if True:
        import pathlib, sys
        from agent.tools.demo import Scenarios
        from agent.tools.embedded import EmbeddedBroker, fetch_jars
        logs = pathlib.Path(sys.argv[1])
        with EmbeddedBroker(fetch_jars()) as broker, Scenarios(broker.bootstrap_servers, logs) as s:
            s.start()
            print(broker.bootstrap_servers, broker.directory, flush=True)
            s.wait(60)
    """
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            bootstrap, directory = demo.stdout.readline().split()
            until(lambda: len(clients_of(bootstrap)) >= 10)
            demo.send_signal(signal.SIGINT)
            _, errors = demo.communicate(timeout=60)
        finally:
            demo.kill()
    assert re.search(r"^KeyboardInterrupt$", errors, re.MULTILINE)
    assert errors.count("Traceback") == 1, errors
    assert clients_of(bootstrap) == []
    assert not Path(directory).exists()
