"""The process of `kshadow run`: an agent for each cluster, the web server, and what a changed file changes of them.

Owns their order: the address first, then agents, and while they wait for brokers the web server is imported.
`factory` says what each is made of.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from agent.common.logs import configure, set_level
from agent.common.threads import daemon_thread, take_quick_turns
from agent.config.reload import Changes, Reloader, reloading
from agent.config.settings import ClusterSettings, GroupSource, HttpSettings, KubernetesSettings, RunSettings
from agent.config.values import OtlpEndpoint
from agent.kafka.source.brokers import require_topic
from agent.kafka.source.errors import TopicMissing
from agent.runtime.agent import Agent
from agent.runtime.factory import compat_of, make_agent, make_watcher
from agent.runtime.first_look import FirstLook
from agent.runtime.shutdown import SIGNALS, Shutdown, ShutdownStep
from agent.runtime.supervisor import JOINED_S, ClusterSupervisor, SupervisedClusters
from agent.serving.metrics.limits import Limits
from agent.serving.web.config_file import WebConfigFile
from agent.serving.web.listener import PacedListener, listening_socket

if TYPE_CHECKING:
    from agent.kubernetes.watcher import KubernetesWatcher
    from agent.serving.metrics.exporter import Exporter
    from agent.serving.metrics.otlp import OtlpMetrics
    from agent.serving.queries import ServedQueries
    from agent.serving.server import WebServer

log = logging.getLogger("kshadow")

FIRST_LOOK_S = 10.0
"""For so long reading waits at most for what Kubernetes has now."""

LOOK_S = 0.05
"""How often it is looked whether a stop is asked for while Kubernetes and brokers are waited for."""

ReadSettings = Callable[[], RunSettings]


def run_process(read: ReadSettings, file: tuple[Path, ReadSettings] | None) -> int:
    """Run until a signal ends it; the exit code. `read` gives the settings; `file`: the one in which they may change,
    and what reads them anew, which raises `InvalidSettings`.

    Raises what `make_agent`, `make_watcher` and `Agent.start` raise, and before these `SourceMisconfigured` where it
    cannot listen, or not with that web-config file.
    """
    take_quick_turns()
    settings = read()
    configure(settings.log.format, settings.log.level)
    for warning in settings.warnings:
        log.warning("%s", warning)
    servers: list[WebServer] = []

    def drain() -> None:
        for server in servers:
            server.drain()

    threading.Thread(target=import_module, args=("agent.serving.server",), name="importing").start()
    # Without a file to read again SIGHUP says that the terminal is gone: what is known is saved then, too.
    signals = SIGNALS if file is not None else (*SIGNALS, signal.SIGHUP)
    http = settings.http
    # Before signals are kept: of a pipe this waits for whoever writes into it.
    web_config = None if http.web_config is None else WebConfigFile(Path(http.web_config))
    with ExitStack() as stack, Shutdown(on_request=drain, signals=signals) as stopping:
        # Before anything is read: else a port that is in use is found after minutes.
        listener = stack.enter_context(listening_socket(http.listen.host, http.listen.port))
        clusters = _Clusters(settings)
        reloader = None if file is None else Reloader(*file, settings, clusters.change)
        if reloader is not None:
            # Before brokers are waited for: a SIGHUP that came meanwhile waits for it.
            stack.enter_context(reloading(reloader))
        clusters.start(stopping)
        exporter = clusters.exporter(reloader)
        senders = _otlp_metrics(settings, exporter)
        servers.append(_server(http, listener, web_config, clusters.running.queries, exporter))
        servers[0].start()
        for sender in senders:
            sender.start()
        exporter.warm(lambda: clusters.running.queries.ready().ready)
        FirstLook(clusters.running.queries, servers[0].url).start()
        stopping.wait()
        for sender in senders:
            sender.request_stop()
        # The web server last: until all is safe it says how that goes, and a slow client holds nothing up.
        code = stopping.stop(
            [ShutdownStep("agents", clusters.stop, 14), ShutdownStep("web server", servers[0].stop, 6)]
        )
        return code or int(not clusters.are_saved)


class _Clusters:
    """The clusters that the settings name: what answers for all of them, and what of each can change."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._in_force = {it.name: it for it in settings.clusters}
        """By cluster what a reload may have changed since: an agent that is made later, begins with that."""
        self._agents: dict[str | None, Agent] = {}
        """Those that were made by now."""
        self._changing = threading.Lock()
        """Held while one is added to them, and while all are changed."""
        self._limits = {
            it.name: Limits(it.metrics.max_series, it.metrics.expire_after_ms) for it in settings.clusters
        }
        self.running: Agent | ClusterSupervisor | SupervisedClusters
        self.watchers: dict[KubernetesSettings, KubernetesWatcher] = {}
        """Clusters whose members' pods are in the same place share what watches them, as do an agent and the next."""
        for it in settings.clusters:
            if it.kubernetes not in self.watchers and (watcher := make_watcher(it.kubernetes)) is not None:
                self.watchers[it.kubernetes] = watcher

    def start(self, stopping: Shutdown) -> None:
        """Start watching and reading. Of one cluster that is not to be tried again raises what `Agent.start` raises,
        and `SystemExit` where a stop is asked for meanwhile; a topic that is yet to come is waited for."""
        for watcher in self.watchers.values():
            watcher.start()
        # What the topic tells of the past is asked about while it is read, once.
        deadline = time.monotonic() + FIRST_LOOK_S
        for watcher in self.watchers.values():
            while not watcher.await_first_look(LOOK_S) and time.monotonic() < deadline:
                if stopping.is_requested:
                    raise _stopped_early(stopping)
        if len(self._settings.clusters) > 1:
            self.running = SupervisedClusters(self._supervised(str(it.name), it) for it in self._settings.clusters)
            self.running.start()
            return
        (settings,) = self._settings.clusters
        if not self._settings.process.keep_trying:
            try:
                self._start_only(settings, stopping)
                return
            except TopicMissing:
                # Not an error: a cluster on which no group ever committed. A pod that ended would be in a crash loop.
                if (agent := self._agents.get(settings.name)) is not None:
                    agent.stop()
        self.running = self._supervised(None, settings)
        self.running.start()

    def _supervised(self, name: str | None, settings: ClusterSettings) -> ClusterSupervisor:
        return ClusterSupervisor(
            name, partial(self._make, settings.name), joins_group=settings.read.share_group is not None
        )

    def _start_only(self, settings: ClusterSettings, stopping: Shutdown) -> None:
        """Start the agent of the only cluster, unless a stop is asked for while it connects: nothing is known yet
        that could be saved."""
        failed: list[BaseException] = []

        def start() -> None:
            try:
                self.running = agent = self._make(settings.name)
                agent.start()
            except BaseException as error:  # noqa: BLE001  # whatever it is, the main thread raises it
                failed.append(error)

        thread = daemon_thread("connecting", start)
        thread.start()
        while thread.is_alive() and not stopping.is_requested:
            thread.join(LOOK_S)
        if settings.read.share_group is not None:
            # So that it leaves the group that it has joined.
            thread.join(JOINED_S)
        if failed:
            raise failed[0]
        if thread.is_alive():
            raise _stopped_early(stopping)

    def _make(self, name: str | None) -> Agent:
        settings = self._in_force[name]
        if settings.read.source is GroupSource.TOPIC:
            require_topic(settings.conf)
        made = make_agent(settings, self.watchers.get(settings.kubernetes))
        with self._changing:
            self._agents[name] = made
            # The file may have changed while it was made.
            made.change(self._in_force[name])
        return made

    def stop(self) -> None:
        """Stop reading, then watching: what was read last is asked about."""
        self.running.stop()
        for watcher in self.watchers.values():
            watcher.stop()

    @property
    def are_saved(self) -> bool:
        """Whether the stop saved what every agent knew; each said what it did not."""
        return all(it.is_saved for it in self._agents.values())

    def exporter(self, reloader: Reloader | None) -> Exporter:
        """What answers scrapes."""
        from agent.serving.metrics.exporter import Exporter, MetricsSource
        from agent.serving.metrics.readings import ReloadReading

        sources = []
        for it in self._settings.clusters:
            one = self.running.of_cluster(str(it.name)) if isinstance(self.running, SupervisedClusters) else None
            label, queries = (None, self.running.queries) if one is None else (it.name, one)
            sources.append(MetricsSource(label, queries.readings, self._limits[it.name], compat_of(it)))
        return Exporter(
            sources, reload=lambda: None if reloader is None else ReloadReading(*astuple(reloader.status()))
        )

    def change(self, running: RunSettings, changes: Changes) -> None:
        """Take what can change while they run."""
        set_level(running.log.level)
        with self._changing:
            for it in running.clusters:
                self._in_force[it.name] = it
                self._limits[it.name].change(it.metrics.max_series, it.metrics.expire_after_ms)
                if it.name in self._agents:
                    self._agents[it.name].change(it)


def _stopped_early(stopping: Shutdown) -> SystemExit:
    return SystemExit(128 + (stopping.asked_by or signal.SIGTERM))


def _otlp_metrics(settings: RunSettings, exporter: Exporter) -> list[OtlpMetrics]:
    """One for each endpoint, with the clusters that name it. Raises `ExportMisconfigured`."""
    found: dict[OtlpEndpoint, list[ClusterSettings]] = {}
    for it in settings.clusters:
        if it.history.otlp is not None:
            found.setdefault(it.history.otlp, []).append(it)
    if not found:
        return []
    from agent.serving.metrics.otlp import OtlpMetrics

    return [
        OtlpMetrics(
            endpoint,
            exporter.render,
            min(it.history.otlp_interval_ms for it in clusters) / 1000,
            None if len(clusters) == len(settings.clusters) else {str(it.name) for it in clusters},
        )
        for endpoint, clusters in found.items()
    ]


def _server(
    settings: HttpSettings,
    listener: PacedListener,
    web_config: WebConfigFile | None,
    queries: ServedQueries,
    exporter: Exporter,
) -> WebServer:
    from agent.serving.server import WebServer

    return WebServer(
        queries,
        settings.listen.host,
        settings.listen.port,
        listener=listener,
        web_config=web_config,
        exporter=exporter,
        allowed_hosts=settings.allowed_hosts,
    )
