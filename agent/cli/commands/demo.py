"""`kshadow demo`: a real broker, real clients with real faults, the agent on it, and what it saw."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NoReturn

import click

from agent.cli.browser import is_opened, open_in_browser
from agent.cli.demo_story import READ_WITHIN_S, Story, Teller
from agent.cli.options import bootstrap_option, librdkafka_config, option
from agent.cli.output import EXIT_UNREACHABLE, echo, print_table, warn
from agent.cli.program import program_name
from agent.common.interrupts import ENDING

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
@option("--open/--no-open", "open_page", default=None, help="Open the page [on a terminal with a desktop].")
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
    open_page: bool | None,
    with_stack: bool,
    prometheus: str | None,
    alertmanager: str | None,
) -> None:
    """Watch the agent diagnose a real embedded broker under real faults.

    Starts Kafka in a temporary directory (its jars are downloaded once; KAFKA_HOME or --bootstrap-server saves that),
    then for a minute real consumers crash, leave, stall, restart and have uneven assignments, while the agent reads
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
    from agent.tools.embedded.jars import DEFAULT_VERSION, VERSION

    try:
        at = parse_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    if kafka_version is not None and not VERSION.fullmatch(kafka_version):
        raise click.UsageError(f"--kafka-version: expected one such as {DEFAULT_VERSION}, got {kafka_version!r}")
    chosen = find_programs(prometheus, alertmanager) if with_stack else None
    teller = Teller()
    saw: SimpleQueue[list[DiagnosisOutput]] = SimpleQueue()
    with ExitStack() as stack:
        stack.callback(teller.clear)
        stack.enter_context(_ended_by_sigterm())
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kshadow-demo-")))
        stack.enter_context(source_errors_reported())
        try:
            servers = bootstrap_server or stack.enter_context(_broker(kafka_version, teller))
            agent, url = _start_agent(stack, servers, saw, at.host, at.port)
            teller.say(f"The page: {url}/  (the broker: {servers})")
            if is_opened(open_page):
                stack.callback(open_in_browser(f"{url}/"))
            watch = AlertWatch() if chosen is None else start_monitoring(stack, chosen, workdir, url, teller.say)
        except (EmbeddedError, MonitoringError) as error:
            teller.clear()
            warn(f"Error: {error}")
            ctx.exit(EXIT_UNREACHABLE)
        failures = _play(stack, servers, workdir, saw, watch, teller, lives_on=bootstrap_server is not None)
        _summary(agent)
        watch.summary()
        for scenario, reason in failures.items():
            warn(f"scenario {scenario} could not be played to its end: {reason}")
        if keep:
            up = ", ".join(filter(None, [f"broker {servers}", f"agent {url}/metrics", watch.where]))
            echo(f"\nStill up: {up}. Ctrl-C ends everything.")
            _until_interrupted()
        _hold_signals()
        teller.step("ending everything")
    _next_steps()
    if failures:
        ctx.exit(1)


@contextmanager
def _broker(version: str | None, teller: Teller) -> Iterator[str]:
    from agent.tools.embedded import EmbeddedBroker, fetch_jars
    from agent.tools.embedded.java import find_java

    find_java()  # before a download that would be for nothing
    teller.step("looking for Kafka's jars, which are downloaded once")
    jars = fetch_jars(version, progress=teller.passing)
    teller.step(f"starting Kafka {jars.version}")
    # Modules that the agent needs are loaded while the JVM starts.
    threading.Thread(target=_import_agent, name="imports", daemon=True).start()
    # A moment for all members of a group to come makes one generation of a start.
    with EmbeddedBroker(jars, properties={"group.initial.rebalance.delay.ms": "1000"}) as broker:
        teller.step(f"Kafka {jars.version} is up at {broker.bootstrap_servers}; starting the agent")
        yield broker.bootstrap_servers


def _import_agent() -> None:
    for name in ("agent.runtime.agent", "agent.serving.server", "analyzers.registry"):
        import_module(name)


def _start_agent(
    stack: ExitStack, servers: str, saw: SimpleQueue[list[DiagnosisOutput]], host: str, port: int
) -> tuple[Agent, str]:
    from agent.config.settings import PLAIN_CLUSTER, LagSettings
    from agent.kafka.writer.errors import SinkError
    from agent.kafka.writer.topic import partition_count
    from agent.runtime.agent import Agent
    from agent.runtime.parts import AgentOptions
    from agent.serving.server import serving
    from analyzers.registry import select_analyzers

    conf = librdkafka_config(servers, ())
    options = AgentOptions(
        conf=conf,
        observe=saw.put,
        analyzers=select_analyzers(tuning=DEMO_TUNING),
        settings=replace(PLAIN_CLUSTER, lag=LagSettings(interval_ms=LAG_INTERVAL_MS)),
    )
    agent = Agent(options)
    deadline = time.monotonic() + 30
    # Whether the topic is there now is what the agent finds out, and says better.
    with suppress(SinkError):
        partition_count(conf, create=True, timeout_s=20)
    agent.start()
    stack.callback(agent.stop)
    while not agent.queries.ready().ready and time.monotonic() < deadline:
        time.sleep(0.05)
    return agent, stack.enter_context(serving(agent.queries, host, port))


def _play(
    stack: ExitStack,
    servers: str,
    workdir: Path,
    saw: SimpleQueue[list[DiagnosisOutput]],
    watch: AlertWatch,
    teller: Teller,
    *,
    lives_on: bool,
) -> dict[str, str]:
    from confluent_kafka import KafkaException

    from agent.tools.demo import SCENARIOS, Scenarios, playable_scenarios

    played = playable_scenarios(servers)
    scenarios = Scenarios(servers, workdir, scenarios=played)
    if lives_on:
        stack.callback(_remove_traces, scenarios)
    stack.callback(scenarios.stop)
    story = Story(teller, played)
    for scenario in SCENARIOS:
        if scenario not in played:
            teller.say(f"{scenario.group} is left out: KIP-848 came with Kafka 4, and this cluster has none of it.")
    teller.say(f"{len(played)} groups of real consumers meet real faults, for about a minute. Each story")
    teller.say("follows when it is over: what was done, and => what kshadow read about it.\n")
    teller.passing("starting the consumers")
    try:
        scenarios.start()
    except KafkaException as error:
        warn(f"Error: the demo's topics could not be made at {servers}: {error.args[0].str()}")
        raise click.exceptions.Exit(EXIT_UNREACHABLE) from None
    while not scenarios.wait(0.2):
        _show(scenarios, saw, story)
        story.tell()
        watch.show(teller.say)
    time.sleep(READ_WITHIN_S)
    _show(scenarios, saw, story)
    story.tell(all_of_it=True)
    watch.last(teller.say)
    return scenarios.failures


def _remove_traces(scenarios: Scenarios) -> None:
    for what in scenarios.remove_traces():
        warn(f"could not remove {what}")


def _show(scenarios: Scenarios, saw: SimpleQueue[list[DiagnosisOutput]], story: Story) -> None:
    for entry in scenarios.new_steps():
        story.done(entry)
    while True:
        try:
            outputs = saw.get_nowait()
        except Empty:
            return
        for output in outputs:
            story.read(output)


def _summary(agent: Agent) -> None:
    rebalances, departures = agent.queries.event_totals()
    found: dict[str, list[str]] = {}
    for finding in agent.queries.findings():
        found.setdefault(str(finding["group"]), []).append(str(finding["analyzer"]))
    rows = []
    for form in agent.queries.groups():
        group = str(form["group"])
        names = ", ".join(found.get(group, ())) or None
        rows.append([group, form["state"], rebalances.get(group, 0), departures.get(group, 0), names])
    print_table(rows, ["GROUP", "STATE", "REBALANCES", "DEPARTURES", "OPEN FINDINGS"], empty="no groups")


def _next_steps() -> None:
    """What to try on a cluster of one's own: three lines."""
    name = program_name()
    echo("\nOn a cluster of your own (TLS and logins: --command-config FILE):")
    echo(f"  {name} doctor --bootstrap-server HOST:9092  # checks what it needs")
    echo(f"  {name} run --bootstrap-server HOST:9092     # the agent, its page")
    echo(f"  {name} explain GROUP --bootstrap-server HOST:9092 --since 2h")


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends everything and removes what was made, as Ctrl-C does; while that goes on a second one waits."""

    def end(number: int, _: object) -> NoReturn:
        _hold_signals()
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hold_signals() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        echo("")
