"""One Kafka process: its files, its life, and its last words.

Owns a directory with `server.properties`, `data` and `server.log`, and the process that runs on them. Knows neither
which ports to take nor what else the cluster is made of.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from agent.tools.embedded.errors import BrokerFailedError
from agent.tools.embedded.jars import Jars, fetch_tools
from agent.tools.embedded.java import find_java, jvm_options, run_class
from agent.tools.embedded.process_reaper import ProcessReaper
from agent.tools.embedded.settings import logging_configuration, render_properties

FORMATTED = "formatted"
"""Beside jars, if somebody has made it: for each `process.roles` a directory as Kafka's own tool formats it for a new
node. Copying it takes no JVM, whose start is a quarter of a broker's."""

_CLUSTER_ID = "a3NoYWRvdy1lbWJlZGRlZA"  # sixteen bytes in URL-safe base64, as Kafka wants it


class Node:
    """A broker, a controller, or both in one, on data that `format` makes."""

    def __init__(
        self,
        jars: Jars,
        directory: Path | None,
        reaper: ProcessReaper | None,
        *,
        heap: str,
        start_timeout_s: float,
    ) -> None:
        self.jars = jars
        self.admin_servers: str | None = None
        """Where a broker speaks without TLS and credentials, so that `wait` can ask; None for a controller."""
        self._directory, self._reaper = directory, reaper
        self._heap, self._start_timeout_s = heap, start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def directory(self) -> Path:
        """Where everything of it is. Only while started."""
        assert self._directory is not None, "it was not started"
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

    def run_tool(self, main_class: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run one of Kafka's command line tools, of the broker's version if it is published; its standard output.

        For example `org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`. Raises an `EmbeddedError`.
        """
        return run_class(fetch_tools(self.jars.version).classpath, main_class, *arguments, timeout_s=timeout_s)

    def format(self, properties: Mapping[str, str]) -> None:
        """Write the properties and make the data anew. Raises `ToolFailedError`, unless it was made before."""
        data = self.directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "server.properties"
        file.write_text(render_properties({**properties, "log.dirs": str(data)}))
        made = self.jars.directory / FORMATTED / properties["process.roles"]
        if made.is_dir():
            shutil.copytree(made, data)
            # All that differs between nodes; a controller refuses two that give the same directory.
            identity = {"node.id": properties["node.id"], "directory.id": secrets.token_urlsafe(16)}
            identity |= {"version": "1", "cluster.id": _CLUSTER_ID}
            (data / "meta.properties").write_text(render_properties(identity))
        else:
            format_data = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(file))
            run_class(self.jars.classpath, *format_data)

    def launch(self) -> None:
        """Start the process, and do not wait for its answer."""
        assert self.pid is None, "the node is already started"
        assert self._reaper is not None, "nothing would end it"
        logging_property, logging_text = logging_configuration(self.jars.major)
        logging_file = self.directory / "logging.properties"
        logging_file.write_text(logging_text)
        options = [
            *jvm_options(self.jars.classpath),
            f"-Xmx{self._heap}",
            f"-D{logging_property}={logging_file.as_uri()}",
        ]
        command = [str(find_java()), *options, "-cp", self.jars.classpath, "kafka.Kafka"]
        self._log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        # It is still there while clients leave in order.
        self._process = self._reaper.start(
            [*command, str(self.directory / "server.properties")], self.log_file, cwd=self.directory
        )

    def wait(self) -> None:
        """Until the broker answers; at once for a controller. Raises `BrokerFailedError` and ends the process."""
        assert self._process is not None, "the node was not started"
        try:
            self._await_answer(self._process)
        except BaseException:
            self.kill()
            raise

    def start(self) -> None:
        """Start on the data that is there, and wait until it answers."""
        self.launch()
        self.wait()

    def restart(self) -> None:
        """End the process if it runs, then start it on the same data and ports."""
        self._end(signal.SIGTERM)
        self.launch()
        self.wait()

    def stop(self) -> None:
        """SIGTERM: a broker hands its leaderships over first. The data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a power cut is to a broker. The data stays for a `restart`."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, from the return of this on."""
        if self._process:
            self._process.send_signal(signal.SIGSTOP)
            # Its threads stop one by one: one that had yet to stop answered. One that has ended is not waited for.
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT, after a `pause`."""
        if self._process:
            self._process.send_signal(signal.SIGCONT)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        servers = self.admin_servers
        while servers is not None and not (_listens(servers) and self._has_started() and _answers(servers)):
            if (code := process.poll()) is not None:
                raise BrokerFailedError(f"the broker ended with exit code {code}:\n{self._log_end()}")
            if time.monotonic() > deadline:
                waited = f"within {self._start_timeout_s:g} seconds"
                raise BrokerFailedError(f"no answer from the broker {waited}:\n{self._log_end()}")
            time.sleep(0.05)

    def _has_started(self) -> bool:
        """Whether it is this one that listens: another may have taken the port since that was free."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return b"Kafka Server started" in log.read()

    def _log_end(self) -> str:
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
        return "\n".join((errors or lines)[-15:])

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and self._reaper is not None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)  # a paused process would keep SIGTERM waiting
            self._reaper.await_end(process, 10.0)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port))) == 0


def _answers(bootstrap_servers: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False
