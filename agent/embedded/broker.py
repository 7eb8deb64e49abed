"""One Kafka broker in a process of its own, and its life: start, pause, kill, restart, stop.

Owns the process, its directory and its ports. Knows nothing of groups or of what tests do with it.

The JVM runs in a session of its own, so that Ctrl-C in the terminal reaches only us and the broker is
still there while clients leave in order. A `Leash` ends it when we die without cleaning up.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from agent.embedded.errors import BrokerFailedError
from agent.embedded.jars import Jars
from agent.embedded.java import FAST_START_OPTIONS, find_java, run_class
from agent.embedded.leash import Leash
from agent.embedded.settings import logging_configuration, render_properties, server_properties

_CLUSTER_ID = "a3NoYWRvdy1lbWJlZGRlZA"  # sixteen bytes in URL-safe base64, as Kafka wants it
_START_ATTEMPTS = 3


class EmbeddedBroker:
    """A broker and controller in one, on free loopback ports; a context manager that starts and stops it.

    `directory` keeps its data and log afterwards; without one they live in a temporary directory that
    `stop` removes. `properties` are server settings that win over `settings.server_properties`; `heap` is
    the JVM's -Xmx.
    """

    def __init__(
        self,
        jars: Jars,
        *,
        directory: Path | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        start_timeout_s: float = 60.0,
    ) -> None:
        self.jars = jars
        self._keep = directory is not None
        self._directory = directory.absolute() if directory else None
        self._properties = dict(properties or {})
        self._heap = heap
        self._start_timeout_s = start_timeout_s
        self._leash: Leash | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

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
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Format, start, and wait until the broker answers. Raises an `EmbeddedError`."""
        assert self._process is None, "the broker is already started"
        java = find_java()
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="kshadow-broker-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._leash = Leash(None if self._keep else self._directory)
            for attempt in range(1, _START_ATTEMPTS + 1):
                self._format()
                try:
                    self._run(java)
                    return
                except BrokerFailedError as error:
                    # Between our look at the ports and the broker's bind somebody else may take one.
                    if attempt == _START_ATTEMPTS or "Address already in use" not in str(error):
                        raise
        except BaseException:
            self.stop()
            raise

    def restart(self) -> None:
        """End the process if it runs, then start it on the same data and ports."""
        assert self._leash is not None, "the broker was not started"
        self._end(signal.SIGTERM)
        self._run(find_java())

    def kill(self) -> None:
        """SIGKILL: what a power cut is to a broker. The data stays for a `restart`."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        if self._process:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, after a `pause`."""
        if self._process:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the process for good, in order if it can within ten seconds; remove a temporary directory."""
        self._end(signal.SIGTERM)
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

    def _format(self) -> None:
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._port, controller_port = _free_ports(2)
        properties = server_properties(
            client_port=self._port,
            controller_port=controller_port,
            log_dir=str(self.directory / "data"),
            overrides=self._properties,
        )
        file = self.directory / "server.properties"
        file.write_text(render_properties(properties))
        (self.directory / "logging.properties").write_text(logging_configuration(self.jars.major)[1])
        self.run_tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(file))

    def _run(self, java: Path) -> None:
        assert self._leash is not None
        logging_property, _ = logging_configuration(self.jars.major)
        logging_file = self.directory / "logging.properties"
        options = [*FAST_START_OPTIONS, f"-Xmx{self._heap}", f"-D{logging_property}={logging_file.as_uri()}"]
        command = [str(java), *options, "-cp", self.jars.classpath, "kafka.Kafka"]
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self.directory / "server.properties")],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._leash.hold(self._process.pid)
        try:
            self._await_answer(self._process, log_start)
        except BaseException:
            self._end(signal.SIGKILL)
            raise

    def _await_answer(self, process: subprocess.Popen[bytes], log_start: int) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not (_listens(self._port) and _answers(self.bootstrap_servers)):
            if (code := process.poll()) is not None:
                raise BrokerFailedError(f"the broker ended with exit code {code}:\n{self._log_end(log_start)}")
            if time.monotonic() > deadline:
                waited = f"within {self._start_timeout_s:g} seconds"
                raise BrokerFailedError(f"no answer from the broker {waited}:\n{self._log_end(log_start)}")
            time.sleep(0.05)

    def _log_end(self, log_start: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(log_start)
            lines = log.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
        return "\n".join((errors or lines)[-15:])

    def _end(self, how: signal.Signals, timeout_s: float = 10.0) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # a paused process would keep SIGTERM waiting
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._leash:
            self._leash.release(process.pid)


def _free_ports(count: int) -> list[int]:
    # Below the range from which Linux takes ports for outgoing connections (32768 and up): otherwise some
    # client's connection can take the broker's port while it is down for a restart.
    chosen: list[int] = []
    for port in random.SystemRandom().sample(range(20000, 32000), 200):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise BrokerFailedError(f"no {count} free ports among 200 tried on 127.0.0.1, from 20000 to 32000")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(bootstrap_servers: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False
