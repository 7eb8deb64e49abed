"""`kshadow run`: the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from agent.cli.run_options import run_options

if TYPE_CHECKING:
    from agent.config.reload import Changes, Reloader
    from agent.config.settings import ClusterSettings, RunSettings
    from agent.runtime.factory import AnyAgent
    from agent.runtime.supervisor import ClusterSupervisor, SupervisedClusters
    from agent.serving.metrics.exporter import Exporter
    from agent.serving.metrics.limits import Limits
    from agent.serving.server import WebServer

    AllLimits = dict[str | None, Limits]


@click.command()
@run_options
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Run the agent: follow the topic and serve metrics and the API.

    Serves /metrics, /healthz, /readyz (503 until caught up, and again when reading has stopped), /api/v1/groups,
    /api/v1/findings, /api/v1/status, and a page for people at /. Needs Read and Describe on the topic
    __consumer_offsets; kshadow doctor says which rights what else needs. With --state-dir it goes on after a restart
    where it was; SIGHUP reads the --config file again.

    \b
    Examples:
      kshadow run --bootstrap-server localhost:9092
      kshadow run --bootstrap-server localhost:9092 --group payments
      kshadow run --bootstrap-server localhost:9092 --broker-log /opt/kafka/logs/server.log
      kshadow run --bootstrap-server localhost:9092 --state-dir /var/lib/kshadow --history-topic kshadow-history
    """
    import logging

    from agent.cli.run_settings import run_settings
    from agent.common.logs import configure

    settings = run_settings(ctx)
    configure(settings.log.format, settings.log.level)
    for warning in settings.warnings:
        logging.getLogger("kshadow").warning("%s", warning)
    with _reaching():
        code = _run(ctx, settings)
    ctx.exit(code)


def _run(ctx: click.Context, settings: RunSettings) -> int:
    from agent.config.reload import reloading
    from agent.runtime.factory import limits_of
    from agent.runtime.shutdown import Shutdown, ShutdownStep

    servers: list[WebServer] = []

    def drain() -> None:
        for server in servers:
            server.drain()

    with ExitStack() as stack, Shutdown(on_request=drain) as stopping:
        agents: dict[str | None, AnyAgent] = {}
        answering = _answering(settings, agents)
        answering.start()
        # The web server takes longest to import; by now the topic is being read.
        limits = {it.name: limits_of(it.metrics) for it in settings.clusters}
        reloader = _reloader(ctx, settings, agents, limits)
        exporter = _exporter(answering, limits, settings, reloader)
        servers.append(_server(settings, answering, exporter))
        servers[0].start()
        exporter.warm(lambda: answering.queries.ready().ready)
        if reloader is not None:
            stack.enter_context(reloading(reloader))
        stopping.wait()
        # The web server last: until all is safe it says how that goes, and a slow client holds nothing up.
        return stopping.stop(
            [ShutdownStep("agents", answering.stop, 14), ShutdownStep("web server", servers[0].stop, 6)]
        )


def _answering(
    settings: RunSettings, agents: dict[str | None, AnyAgent]
) -> AnyAgent | ClusterSupervisor | SupervisedClusters:
    """The agent, or all of them; each is in `agents` from when it is made on."""
    from agent.runtime.factory import make_agent
    from agent.runtime.supervisor import ClusterSupervisor, SupervisedClusters

    def make(it: ClusterSettings) -> AnyAgent:
        made = agents[it.name] = make_agent(it)
        return made

    if len(settings.clusters) == 1:
        (only,) = settings.clusters
        return ClusterSupervisor(None, partial(make, only)) if settings.process.keep_trying else make(only)
    return SupervisedClusters([ClusterSupervisor(str(it.name), partial(make, it)) for it in settings.clusters])


def _exporter(
    answering: AnyAgent | ClusterSupervisor | SupervisedClusters,
    limits: AllLimits,
    settings: RunSettings,
    reloader: Reloader | None,
) -> Exporter:
    from agent.runtime.factory import compat_of
    from agent.runtime.supervisor import SupervisedClusters
    from agent.serving.metrics.exporter import Exporter, MetricsSource
    from agent.serving.metrics.readings import ReloadReading

    def reloaded() -> ReloadReading | None:
        return None if reloader is None else ReloadReading(*astuple(reloader.status()))

    compat = {it.name: compat_of(it) for it in settings.clusters}
    if isinstance(answering, SupervisedClusters):
        clusters = [(name, answering.of_cluster(name)) for name in answering.capabilities.clusters]
        sources = [
            MetricsSource(name, it.readings, limits[name], compat[name]) for name, it in clusters if it is not None
        ]
    else:
        (only,) = limits
        sources = [MetricsSource(None, answering.queries.readings, limits[only], compat[only])]
    return Exporter(sources, reload=reloaded)


def _server(
    settings: RunSettings, answering: AnyAgent | ClusterSupervisor | SupervisedClusters, exporter: Exporter
) -> WebServer:
    from pathlib import Path

    from agent.serving.server import WebServer

    return WebServer(
        answering.queries,
        settings.http.listen.host,
        settings.http.listen.port,
        web_config=None if settings.http.web_config is None else Path(settings.http.web_config),
        exporter=exporter,
    )


def _reloader(
    ctx: click.Context, settings: RunSettings, agents: dict[str | None, AnyAgent], limits: AllLimits
) -> Reloader | None:
    """What takes changes of the file, if there is one."""
    from agent.cli.run_settings import rereader
    from agent.common.logs import set_level
    from agent.config.reload import Reloader

    def apply(running: RunSettings, changes: Changes) -> None:
        set_level(running.log.level)
        for wanted in running.clusters:
            limits[wanted.name].change(wanted.metrics.max_series, wanted.metrics.expire_after_ms)
            if wanted.name in agents:
                agents[wanted.name].change(wanted)

    found = rereader(ctx)
    return None if found is None else Reloader(*found, settings, apply)


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn what cannot be read or written into a message and the exit code of the contract."""
    from agent.cli.answers import exit_unreachable
    from agent.cli.data_source import source_errors_reported
    from agent.cli.output import printable
    from agent.persistence.export.errors import ExportError
    from agent.persistence.snapshot.store import StoreError

    try:
        with source_errors_reported():
            yield
    except StoreError as error:
        exit_unreachable(str(error))
    except ExportError as error:
        raise click.UsageError(printable(str(error))) from None
