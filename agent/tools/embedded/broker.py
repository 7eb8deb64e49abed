"""A cluster of one broker: start, pause, kill, restart, stop.

Owns the ports and the directory. Knows nothing of groups or of what tests do with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.tools.embedded.jars import Jars
from agent.tools.embedded.lifetime import EmbeddedKafka
from agent.tools.embedded.node import Node
from agent.tools.embedded.ports import free_ports
from agent.tools.embedded.process_reaper import ProcessReaper
from agent.tools.embedded.settings import Security, server_properties


class EmbeddedBroker(EmbeddedKafka):
    """A broker and controller in one, on free loopback ports; a context manager that starts and stops it.

    `directory` keeps its data and log afterwards; without one they live in a temporary directory that
    `stop` removes. `properties` are server settings that win over `settings.server_properties`; `heap` is
    the JVM's -Xmx. With `security` clients come by SASL_SSL, and `admin_servers` is for who may do all.
    """

    kind = "broker"

    def __init__(
        self,
        jars: Jars,
        *,
        directory: Path | None = None,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        heap: str = "512m",
        start_timeout_s: float = 60.0,
    ) -> None:
        super().__init__(
            jars,
            directory=directory,
            properties=properties,
            security=security,
            heap=heap,
            start_timeout_s=start_timeout_s,
        )
        self._node: Node | None = None
        self._port = self._admin_port = 0

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to; the same after a `restart`."""
        return f"127.0.0.1:{self._port}"

    @property
    def admin_servers(self) -> str:
        """Where there is neither TLS nor a user, and every right; without `security` the same as for clients."""
        return f"127.0.0.1:{self._admin_port}"

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        """Directories with one directory for each partition, `__consumer_offsets-0` and so on."""
        return (self.directory / "data",)

    @property
    def log_file(self) -> Path:
        """The server's log at level INFO, with the group coordinator's lines; appended to by restarts."""
        return self.directory / "server.log"

    @property
    def pid(self) -> int | None:
        """The JVM's process id, None while there is none."""
        return self._node.pid if self._node else None

    def restart(self) -> None:
        """End the process if it runs, then start it on the same data and ports."""
        assert self._node is not None, "the broker was not started"
        self._node.restart()

    def kill(self) -> None:
        """SIGKILL: what a power cut is to a broker. The data stays for a `restart`."""
        if self._node:
            self._node.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        if self._node:
            self._node.pause()

    def resume(self) -> None:
        """SIGCONT, after a `pause`."""
        if self._node:
            self._node.resume()

    def _make(self, leash: ProcessReaper) -> None:
        heap, timeout_s = self._heap, self._start_timeout_s
        self._node = Node(self.jars, self.directory, leash, heap=heap, start_timeout_s=timeout_s)

    def _run(self) -> None:
        assert self._node is not None
        self._node.start()

    def _end(self) -> None:
        if self._node:
            self._node.stop()

    def _drop(self) -> None:
        self._node = None

    def _format(self) -> None:
        assert self._node is not None
        self._port, controller_port, self._admin_port = free_ports(3)
        if self._security is None:
            self._admin_port = self._port
        properties = server_properties(
            client_port=self._port,
            admin_port=self._admin_port,
            controller_port=controller_port,
            security=self._security,
            overrides=self._properties,
        )
        self._node.format(properties, answers_at=self.admin_servers)
