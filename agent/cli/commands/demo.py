"""`kshadow demo`: a real broker, real clients with real faults, the agent on it, and what it saw."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import bootstrap_option, librdkafka_config, option
from agent.cli.output import EXIT_UNREACHABLE, echo, print_table, printable, warn

if TYPE_CHECKING:
    from agent.cli.demo_alerts import AlertWatch
    from agent.core.diagnosis.engine import DiagnosisOutput
    from agent.runtime.agent import Agent
    from agent.tools.demo import Scenarios

EXECUTABLE = click.Path(exists=True, dir_okay=False, executable=True)

LAG_INTERVAL_MS = 2_000
DEMO_TUNING = {"unbalanced_assignment.open_after_s": "15", "idle_members.open_after_s": "15"}
"""A demo takes a minute: what must hold for that long elsewhere must hold for a quarter of it here."""


@click.command()
@bootstrap_option
@option("--kafka-version", help="Kafka of the embedded broker [4.4.0, or what KAFKA_HOME holds].")
@option("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="Where the agent serves HTTP.")
@option("--keep", is_flag=True, help="Leave everything up at the end, until Ctrl-C.")
@option(
    "--stack", "with_stack", is_flag=True, help="Start a real Prometheus with kshadow's alerts, and Alertmanager."
)
@option("--prometheus", type=EXECUTABLE, metavar="PATH", help="Prometheus, for --stack [on PATH].")
@option("--alertmanager", type=EXECUTABLE, metavar="PATH", help="Alertmanager, for --stack [on PATH].")
@click.pass_context
def demo(
    ctx: click.Context,
    bootstrap_server: str | None,
    kafka_version: str | None,
    listen: str,
    keep: bool,
    with_stack: bool,
    prometheus: str | None,
    alertmanager: str | None,
) -> None:
    """Watch the agent diagnose a real embedded broker under real faults.

    Starts Kafka in a temporary directory (its jars are downloaded once; KAFKA_HOME or --bootstrap-server saves that),
    then for a minute real consumers crash, leave, stall, are deployed and share work badly, while the agent reads
    what the broker writes about them. Everything is removed at the end, also after Ctrl-C.

    With --stack a Prometheus scrapes the agent, and it is told which alerts fire.

    \b
    Examples:
      kshadow demo
      kshadow demo --keep
      kshadow demo --stack --keep
      kshadow demo --bootstrap-server localhost:9092
    """
    from agent.cli.data_source import source_errors_reported
    from agent.cli.demo_alerts import AlertWatch, find_programs, start_monitoring
    from agent.config.values import parse_address
    from agent.tools.demo.monitoring import MonitoringError
    from agent.tools.embedded import EmbeddedError

    try:
        at = parse_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    chosen = find_programs(prometheus, alertmanager) if with_stack else None
    began = time.monotonic()

    def tell(text: str) -> None:
        echo(f"{time.monotonic() - began:6.1f}s  {text}")

    with ExitStack() as stack:
        stack.enter_context(_ended_by_sigterm())
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kshadow-demo-")))
        stack.enter_context(source_errors_reported())
        try:
            servers = bootstrap_server or stack.enter_context(_broker(kafka_version, tell))
        except EmbeddedError as error:
            warn(f"Error: {error}")
            ctx.exit(EXIT_UNREACHABLE)
        saw: SimpleQueue[list[DiagnosisOutput]] = SimpleQueue()
        agent, url = _start_agent(stack, servers, saw, at.host, at.port)
        tell(f"the agent reads {servers} and serves {url}/metrics")
        try:
            watch = AlertWatch() if chosen is None else start_monitoring(stack, chosen, workdir, url, tell)
        except MonitoringError as error:
            warn(f"Error: {error}")
            ctx.exit(EXIT_UNREACHABLE)
        failures = _play(stack, servers, workdir, saw, watch, tell, lives_on=bootstrap_server is not None)
        _summary(agent, url)
        watch.summary()
        for scenario, reason in failures.items():
            warn(f"scenario {scenario} could not be played to its end: {reason}")
        if keep:
            up = ", ".join(filter(None, [f"broker {servers}", f"agent {url}/metrics", watch.where]))
            echo(f"\nStill up: {up}. Ctrl-C ends everything.")
            _until_interrupted()
        tell("cleaning up")
    if failures:
        ctx.exit(1)


@contextmanager
def _broker(version: str | None, tell: Any) -> Iterator[str]:
    from agent.tools.embedded import EmbeddedBroker, fetch_jars

    jars = fetch_jars(version, progress=tell)
    tell(f"starting Kafka {jars.version}")
    # A moment for all members of a group to come makes one generation of a start.
    with EmbeddedBroker(jars, properties={"group.initial.rebalance.delay.ms": "1000"}) as broker:
        tell(f"Kafka {jars.version} is up at {broker.bootstrap_servers}")
        yield broker.bootstrap_servers


def _start_agent(
    stack: ExitStack, servers: str, saw: SimpleQueue[list[DiagnosisOutput]], host: str, port: int
) -> tuple[Agent, str]:
    from agent.config.settings import PLAIN_CLUSTER, LagSettings
    from agent.runtime.agent import Agent
    from agent.runtime.parts import AgentOptions
    from agent.serving.server import serving
    from analyzers.registry import select_analyzers

    options = AgentOptions(
        conf=librdkafka_config(servers, ()),
        observe=saw.put,
        analyzers=select_analyzers(tuning=DEMO_TUNING),
        settings=replace(PLAIN_CLUSTER, lag=LagSettings(interval_ms=LAG_INTERVAL_MS)),
    )
    agent = Agent(options)
    # A broker that is asked for its offsets topic for the first time makes it.
    deadline = time.monotonic() + 30
    _make_offsets_topic(servers)
    agent.start()
    stack.callback(agent.stop)
    while not agent.queries.ready().ready and time.monotonic() < deadline:
        time.sleep(0.05)
    return agent, stack.enter_context(serving(agent.queries, host, port))


def _make_offsets_topic(servers: str) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    # Asking for a group's committed offsets asks for its coordinator, and that makes the topic. No group is made.
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "kshadow-demo", "log_level": 2})
    try:
        consumer.committed([TopicPartition("kshadow-demo", 0)], timeout=20)
    except KafkaException:
        # Whether the topic is there now is what the agent finds out, and says better.
        pass
    finally:
        consumer.close()


def _play(
    stack: ExitStack,
    servers: str,
    workdir: Path,
    saw: SimpleQueue[list[DiagnosisOutput]],
    watch: AlertWatch,
    tell: Any,
    *,
    lives_on: bool,
) -> dict[str, str]:
    from confluent_kafka import KafkaException

    from agent.tools.demo import SCENARIOS, Scenarios

    scenarios = Scenarios(servers, workdir)
    if lives_on:
        stack.callback(_remove_traces, scenarios)
    stack.callback(scenarios.stop)
    echo("\nThe script, all at once, for about a minute:")
    for scenario in SCENARIOS:
        echo(f"  {scenario.group:<24}{scenario.story}")
    echo("\nWhat is done to the clients, and => what kshadow reads about it in __consumer_offsets:\n")
    try:
        scenarios.start()
    except KafkaException as error:
        warn(f"Error: the demo's topics could not be made at {servers}: {error.args[0].str()}")
        raise click.exceptions.Exit(EXIT_UNREACHABLE) from None
    while not scenarios.wait(0.2):
        _show(scenarios, saw, tell)
        watch.show(tell)
    # What happened last takes a moment to be written and read.
    time.sleep(1)
    _show(scenarios, saw, tell)
    watch.last(tell)
    return scenarios.failures


def _remove_traces(scenarios: Scenarios) -> None:
    for what in scenarios.remove_traces():
        warn(f"could not remove {what}")


def _show(scenarios: Scenarios, saw: SimpleQueue[list[DiagnosisOutput]], tell: Any) -> None:
    for entry in scenarios.new_steps():
        if entry.act not in ("settle", "finished"):
            tell(printable(f"   {entry.group:<24}{entry.sentence}"))
    while True:
        try:
            transitions = saw.get_nowait()
        except Empty:
            return
        for transition in transitions:
            text = _sentence(transition)
            if text is not None:
                tell(printable(f"=> {transition.group:<24}{text}"))


def _sentence(transition: DiagnosisOutput) -> str | None:
    from agent.core.diagnosis.api import Finding, FindingState
    from agent.core.shadow.transitions import AssignmentChanged, GroupEmptied, Rebalanced
    from agent.presentation.narrative.words import count

    match transition:
        case Rebalanced():
            word = "generation" if transition.group_type in ("classic", "connect") else "epoch"
            departures = transition.inferred.departures
            who = [f"+{member.client_id}" for member in transition.joined]
            who += [f"-{it.client_id} ({departures[it.member_id].cause})" for it in transition.left]
            why = transition.inferred
            sure = "" if not why.confidence else f", {why.confidence:.0%} sure"
            members = count(transition.members, "member")
            told = [f"{word} {transition.generation}, {members}", f"{why.cause}{sure}", " ".join(who)]
            return ": ".join(filter(None, told))
        case AssignmentChanged(gained=gained, lost=lost) if gained or lost:
            parts = [f"{gained} of {transition.assigned} partitions have a new owner"] if gained else []
            parts += [f"{lost} have none"] if lost else []
            return ", ".join(parts)
        case GroupEmptied():
            return "the last member is gone"
        case Finding(state=FindingState.FIRING):
            return f"finding, {transition.severity}: {transition.analyzer}: {transition.summary}"
        case _:
            return None


def _summary(agent: Agent, url: str) -> None:
    rebalances, departures = agent.queries.event_totals()
    rows = []
    for form in agent.queries.groups():
        group = str(form["group"])
        details = agent.queries.describe(group)
        assert details is not None, "the group was listed"
        members = details["members"]
        assert isinstance(members, list), "a list of members"
        shares = sorted((sum(map(len, member["assignment"].values())) for member in members), reverse=True)
        rows.append(
            [
                group,
                form["group_type"],
                form["state"],
                form["generation"],
                rebalances.get(group, 0),
                departures.get(group, 0),
                form["members"],
                "/".join(map(str, shares)) or None,
            ]
        )
    echo("\nThe groups as kshadow mirrors them:\n")
    print_table(
        rows,
        ["GROUP", "TYPE", "STATE", "GENERATION", "REBALANCES", "DEPARTURES", "MEMBERS", "PARTITIONS OF EACH"],
        empty="no groups",
    )
    echo("\nWhat the analyzers found:\n")
    found = agent.queries.findings()
    print_table(
        [[it["group"], it["severity"], it["analyzer"], it["summary"]] for it in found],
        ["GROUP", "SEVERITY", "ANALYZER", "SUMMARY"],
        empty="nothing",
    )
    echo(f"\nIn sentences: kshadow explain GROUP --agent {url}. A page: {url}/")
    echo(f"As metrics: {url}/metrics, as JSON: {url}/api/v1/groups and {url}/api/v1/findings")


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends everything and removes what was made, as Ctrl-C does."""

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        echo("")
