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
    from agent.assembly import AnyAgent
    from agent.clusters import Cluster, Clusters
    from agent.config.changes import Changes
    from agent.config.reload import Reloader
    from agent.config.settings import ClusterSettings, RunSettings
    from agent.metrics.exporter import Exporter
    from agent.metrics.limits import Limits
    from agent.serve import WebServer

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

    from agent.cli.effective import run_settings
    from agent.logs import configure

    settings = run_settings(ctx)
    configure(settings.log.format, settings.log.level)
    for warning in settings.warnings:
        logging.getLogger("kshadow").warning("%s", warning)
    with _reaching():
        code = _run(ctx, settings)
    ctx.exit(code)


def _run(ctx: click.Context, settings: RunSettings) -> int:
    from agent.assembly import limits_of
    from agent.config.reload import reloading
    from agent.stopping import Step, Stopping

    servers: list[WebServer] = []

    def drain() -> None:
        for server in servers:
            server.drain()

    with ExitStack() as stack, Stopping(on_ask=drain) as stopping:
        agents: dict[str | None, AnyAgent] = {}
        answering = _answering(settings, agents)
        answering.start()
        # The web server takes longest to import; by now the topic is being read.
        limits = {it.name: limits_of(it.metrics) for it in settings.clusters}
        reloader = _reloader(ctx, settings, agents, limits)
        exporter = _exporter(answering, limits, settings, reloader)
        servers.append(_server(settings, answering, exporter))
        servers[0].start()
        exporter.warm(lambda: answering.ready().ready)
        if reloader is not None:
            stack.enter_context(reloading(reloader))
        stopping.wait()
        # The web server last: until all is safe it says how that goes, and a slow client holds nothing up.
        return stopping.stop([Step("agents", answering.stop, 14), Step("web server", servers[0].stop, 6)])


def _answering(settings: RunSettings, agents: dict[str | None, AnyAgent]) -> AnyAgent | Cluster | Clusters:
    """The agent, or all of them; each is in `agents` from when it is made on."""
    from agent.assembly import agent_of
    from agent.clusters import Cluster, Clusters

    def make(it: ClusterSettings) -> AnyAgent:
        made = agents[it.name] = agent_of(it)
        return made

    if len(settings.clusters) == 1:
        (only,) = settings.clusters
        return Cluster(None, partial(make, only)) if settings.process.keeps_trying else make(only)
    return Clusters([Cluster(str(it.name), partial(make, it)) for it in settings.clusters])


def _exporter(
    answering: AnyAgent | Cluster | Clusters, limits: AllLimits, settings: RunSettings, reloader: Reloader | None
) -> Exporter:
    from agent.assembly import compat_of
    from agent.clusters import Clusters
    from agent.metrics.exporter import Exporter, Source
    from agent.metrics.readings import ReloadReading

    def reloaded() -> ReloadReading | None:
        return None if reloader is None else ReloadReading(*astuple(reloader.status()))

    compat = {it.name: compat_of(it) for it in settings.clusters}
    if isinstance(answering, Clusters):
        clusters = [(name, answering.of(name)) for name in answering.names()]
        sources = [Source(name, it.readings, limits[name], compat[name]) for name, it in clusters if it is not None]
    else:
        (only,) = limits
        sources = [Source(None, answering.readings, limits[only], compat[only])]
    return Exporter(sources, reload=reloaded)


def _server(settings: RunSettings, answering: AnyAgent | Cluster | Clusters, exporter: Exporter) -> WebServer:
    from pathlib import Path

    from agent.serve import WebServer

    return WebServer(
        answering,
        settings.http.listen.host,
        settings.http.listen.port,
        web_config=None if settings.http.web_config is None else Path(settings.http.web_config),
        exporter=exporter,
    )


def _reloader(
    ctx: click.Context, settings: RunSettings, agents: dict[str | None, AnyAgent], limits: AllLimits
) -> Reloader | None:
    """What takes changes of the file, if there is one."""
    from agent.cli.effective import rereading
    from agent.config.reload import Reloader
    from agent.logs import set_level

    def apply(running: RunSettings, changes: Changes) -> None:
        set_level(running.log.level)
        for wanted in running.clusters:
            limits[wanted.name].change(wanted.metrics.max_series, wanted.metrics.expire_after_ms)
            if wanted.name in agents:
                agents[wanted.name].change(wanted)

    found = rereading(ctx)
    return None if found is None else Reloader(*found, settings, apply)


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn what cannot be read or written into a message and the exit code of the contract."""
    from agent.cli.access import fail, reaching
    from agent.cli.output import printable
    from agent.export.errors import ExportError
    from agent.snapshot.store import StoreError

    try:
        with reaching():
            yield
    except StoreError as error:
        fail(str(error))
    except ExportError as error:
        raise click.UsageError(printable(str(error))) from None
