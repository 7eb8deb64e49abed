"""A cluster of one broker: start, pause, kill, restart, stop.

Owns the ports and the directory. Knows nothing of groups or of what tests do with it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from agent.embedded.errors import BrokerFailedError
from agent.embedded.jars import Jars
from agent.embedded.java import find_java, run_class
from agent.embedded.leash import Leash
from agent.embedded.node import Node
from agent.embedded.ports import free_ports
from agent.embedded.settings import Security, server_properties

START_ATTEMPTS = 3
"""Between our look at the ports and the broker's bind somebody else may take one."""


class EmbeddedBroker:
    """A broker and controller in one, on free loopback ports; a context manager that starts and stops it.

    `directory` keeps its data and log afterwards; without one they live in a temporary directory that
    `stop` removes. `properties` are server settings that win over `settings.server_properties`; `heap` is
    the JVM's -Xmx. With `security` clients come by SASL_SSL, and `admin_servers` is for who may do all.
    """

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
        self.jars = jars
        self._keep = directory is not None
        self._directory = directory.absolute() if directory else None
        self._properties = dict(properties or {})
        self._security = security
        self._heap = heap
        self._start_timeout_s = start_timeout_s
        self._leash: Leash | None = None
        self._node: Node | None = None
        self._port = self._admin_port = 0

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to; the same after a `restart`."""
        return f"127.0.0.1:{self._port}"

    @property
    def admin_servers(self) -> str:
        """Where there is neither TLS nor a user, and every right; without `security` the same as for clients."""
        return f"127.0.0.1:{self._admin_port}"

    @property
    def directory(self) -> Path:
        """Where everything of the broker's is. Only while started."""
        assert self._directory is not None, "the broker was not started"
        return self._directory

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

    def start(self) -> None:
        """Format, start, and wait until the broker answers. Raises an `EmbeddedError`."""
        assert self._node is None, "the broker is already started"
        find_java()
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="kshadow-broker-"))
        try:
            self._leash = Leash(None if self._keep else self._directory)
            heap, timeout_s = self._heap, self._start_timeout_s
            self._node = Node(self.jars, self._directory, self._leash, heap=heap, start_timeout_s=timeout_s)
            for attempt in range(1, START_ATTEMPTS + 1):
                self._format(self._node)
                try:
                    self._node.start()
                    return
                except BrokerFailedError as error:
                    if attempt == START_ATTEMPTS or "Address already in use" not in str(error):
                        raise
        except BaseException:
            self.stop()
            raise

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

    def stop(self) -> None:
        """End the process for good, in order if it can within ten seconds; remove a temporary directory."""
        if self._node:
            self._node.stop()
            self._node = None
        if self._leash:
            self._leash.close()
            self._leash = None
        if self._directory and not self._keep:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def run_tool(self, main_class: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run one of Kafka's command line classes with the broker's own jars; its standard output.

        For example `org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`. Raises `ToolFailedError`.
        """
        return run_class(self.jars.classpath, main_class, *arguments, timeout_s=timeout_s)

    def _format(self, node: Node) -> None:
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
        node.format(properties, answers_at=self.admin_servers)
