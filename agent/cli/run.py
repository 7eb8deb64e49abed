"""`kshadow run`: the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from agent.cli.run_options import run_options

if TYPE_CHECKING:
    from agent.assembly import AnyAgent
    from agent.clusters import Clusters
    from agent.config.changes import Changes
    from agent.config.settings import ClusterSettings, RunSettings
    from agent.serve import WebServer


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
        servers.append(_server(settings, answering))
        servers[0].start()
        _reload(ctx, settings, agents, stack)
        stopping.wait()
        # The web server last: until all is safe it says how that goes, and a slow client holds nothing up.
        return stopping.stop([Step("agents", answering.stop, 14), Step("web server", servers[0].stop, 6)])


def _answering(settings: RunSettings, agents: dict[str | None, AnyAgent]) -> AnyAgent | Clusters:
    """The agent, or all of them; each is in `agents` from when it is made on."""
    from agent.assembly import agent_of
    from agent.clusters import Cluster, Clusters

    def make(it: ClusterSettings) -> AnyAgent:
        made = agents[it.name] = agent_of(it)
        return made

    if len(settings.clusters) == 1:
        return make(settings.clusters[0])
    return Clusters([Cluster(str(it.name), partial(make, it)) for it in settings.clusters])


def _server(settings: RunSettings, answering: AnyAgent | Clusters) -> WebServer:
    from pathlib import Path

    from agent.serve import WebServer

    listen, web_config = settings.http.listen, settings.http.web_config
    return WebServer(answering, listen.host, listen.port, web_config=None if web_config is None else Path(web_config))


def _reload(ctx: click.Context, settings: RunSettings, agents: dict[str | None, AnyAgent], stack: ExitStack) -> None:
    """Take changes of the file from now on."""
    from agent.cli.effective import rereading
    from agent.config.reload import Reloader, reloading
    from agent.logs import set_level

    def apply(running: RunSettings, changes: Changes) -> None:
        set_level(running.log.level)
        for wanted in running.clusters:
            if wanted.name in agents:
                agents[wanted.name].change(wanted)

    found = rereading(ctx)
    if found is not None:
        path, read = found
        stack.enter_context(reloading(Reloader(path, read, settings, apply)))


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
