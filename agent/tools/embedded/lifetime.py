"""What every embedded Kafka has: a directory, processes that die with this one, a start that may be tried again.

Knows nothing of how many processes there are, and of how they are configured.
"""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from agent.tools.embedded.errors import BrokerFailedError
from agent.tools.embedded.jars import Jars
from agent.tools.embedded.java import find_java, run_class
from agent.tools.embedded.process_reaper import ProcessReaper
from agent.tools.embedded.settings import Security

START_ATTEMPTS = 3
"""Between our look at the ports and a broker's bind somebody else may take one."""


class EmbeddedKafka(ABC):
    """A context manager that starts it and stops it."""

    kind: ClassVar[str]
    """What it is called in errors, and in the name of its temporary directory."""

    def __init__(
        self,
        jars: Jars,
        *,
        directory: Path | None,
        properties: Mapping[str, str] | None,
        security: Security | None,
        heap: str,
        start_timeout_s: float,
    ) -> None:
        self.jars = jars
        self._keep = directory is not None
        self._directory = directory.absolute() if directory else None
        self._properties = dict(properties or {})
        self._security = security
        self._heap, self._start_timeout_s = heap, start_timeout_s
        self._leash: ProcessReaper | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """Where everything of it is. Only while started."""
        assert self._directory is not None, f"the {self.kind} was not started"
        return self._directory

    def start(self) -> None:
        """Format, start, and wait until every broker answers. Raises an `EmbeddedError`."""
        assert self._leash is None, f"the {self.kind} is already started"
        find_java()
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix=f"kshadow-{self.kind}-"))
        try:
            self._leash = ProcessReaper(None if self._keep else self._directory)
            self._make(self._leash)
            for attempt in range(1, START_ATTEMPTS + 1):
                self._format()
                try:
                    self._run()
                    return
                except BrokerFailedError as error:
                    if attempt == START_ATTEMPTS or "Address already in use" not in str(error):
                        raise
                    self._end()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process for good, in order if it can within ten seconds; remove a temporary directory."""
        self._end()
        self._drop()
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

    @abstractmethod
    def _make(self, leash: ProcessReaper) -> None:
        """Make the nodes."""

    @abstractmethod
    def _format(self) -> None:
        """Take ports, write the configuration and make the data anew."""

    @abstractmethod
    def _run(self) -> None:
        """Start every process, and wait until it answers."""

    @abstractmethod
    def _end(self) -> None:
        """End what runs."""

    @abstractmethod
    def _drop(self) -> None:
        """Forget the nodes."""
