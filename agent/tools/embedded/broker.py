"""A cluster of one broker: start, pause, kill, restart, stop.

Owns the ports and the directory. Knows nothing of groups or of what tests do with it.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from agent.common.interrupts import deferred_interrupts
from agent.tools.embedded.errors import BrokerFailedError
from agent.tools.embedded.jars import Jars
from agent.tools.embedded.java import find_java
from agent.tools.embedded.node import Node
from agent.tools.embedded.ports import free_ports
from agent.tools.embedded.process_reaper import ProcessReaper
from agent.tools.embedded.settings import LOOPBACK, server_properties

START_ATTEMPTS = 3
"""Between our look at the ports and a broker's bind somebody else may take one."""


class EmbeddedBroker(Node):
    """A broker and controller in one, on free loopback ports; a context manager that starts and stops it.

    `directory` keeps its data and log afterwards; without one they live in a temporary directory that `stop`
    removes. `properties` are server settings that win over `settings.server_properties`; `heap` is the JVM's
    -Xmx. `host` is the address that it listens on for clients and gives them. It ends when this process ends,
    however that comes about.
    """

    def __init__(
        self,
        jars: Jars,
        *,
        directory: Path | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        host: str = LOOPBACK,
    ) -> None:
        kept = None if directory is None else directory.absolute()
        super().__init__(jars, kept, None, heap=heap, start_timeout_s=60.0)
        self._keep = kept is not None
        self._properties = dict(properties or {})
        self._host, self._port = host, 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to; the same after a `restart`."""
        return f"{self._host}:{self._port}"

    def start(self) -> None:
        """Make the data, start, and wait until it answers. Raises an `EmbeddedError`."""
        assert self._reaper is None, "the broker is already started"
        find_java()
        try:
            with deferred_interrupts():
                if self._directory is None:
                    self._directory = Path(tempfile.mkdtemp(prefix="kshadow-broker-"))
            self._reaper = ProcessReaper(None if self._keep else self._directory)
            for attempt in range(1, START_ATTEMPTS + 1):
                self._format_on_free_ports()
                try:
                    super().start()
                    return
                except BrokerFailedError as error:
                    if attempt == START_ATTEMPTS or "Address already in use" not in str(error):
                        raise
                    self._end(signal.SIGTERM)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it for good, in order if it can within ten seconds; remove a temporary directory."""
        super().stop()
        if self._reaper:
            self._reaper.close()
            self._reaper = None
        if self._directory and not self._keep:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _format_on_free_ports(self) -> None:
        self._port, controller_port = free_ports(2)
        self.admin_servers = self.bootstrap_servers
        ours = server_properties(client_port=self._port, controller_port=controller_port, host=self._host)
        self.format({**ours, **self._properties})
