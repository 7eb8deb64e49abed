"""A real Prometheus that scrapes agents under the project's rules, and an Alertmanager that it tells.

Owns their processes, their configuration and what is read back from them. All they write is in a directory that is
handed in; they listen on the loopback address alone, and end with this process, however it ends.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import yaml

from agent.tools.demo import rules
from agent.tools.embedded import ProcessReaper
from agent.tools.embedded.ports import free_ports

EVERY = "1s"
"""How often metrics are scraped and rules evaluated: a demo has no time for the usual half minute."""

_START_S, _END_S, _ASK_S = 30.0, 5.0, 10.0
_LOOK_EVERY_S = 0.1


class MonitoringError(Exception):
    """Prometheus or Alertmanager did not start or did not answer: which, and what it said."""


class Programs(NamedTuple):
    """What is started. Without Alertmanager alerts are seen in Prometheus alone."""

    prometheus: Path
    alertmanager: Path | None = None


class Alert(NamedTuple):
    """An alert as Prometheus holds it. `state`: pending or firing. `group` is empty where it is about an agent."""

    name: str
    severity: str
    group: str
    state: str
    summary: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others."""
        return self.name, self.group, self.severity


class Monitoring:
    """A context manager that starts both, waits until they are ready, and ends them."""

    def __init__(
        self,
        programs: Programs,
        directory: Path,
        targets: Sequence[str],
        *,
        waits_s: int | None = None,
        webhook: str | None = None,
    ) -> None:
        """`targets` are agents, `HOST:PORT`. With `waits_s` no alert waits longer than that until it fires. `webhook`
        is a URL that Alertmanager sends its notifications to."""
        self._programs, self._directory, self._targets = programs, directory, tuple(targets)
        self._waits_s, self._webhook = waits_s, webhook
        ports = free_ports(2)
        self.prometheus = f"http://127.0.0.1:{ports[0]}"
        self.alertmanager = None if programs.alertmanager is None else f"http://127.0.0.1:{ports[1]}"
        self._reaper = ProcessReaper()
        self._running: list[subprocess.Popen[bytes]] = []
        # A proxy of the environment has no business between two ends of this machine.
        self._opener = build_opener(ProxyHandler({}))

    def __enter__(self) -> Monitoring:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End both. May be called more than once."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            self._reaper.await_end(process, _END_S)
        self._running.clear()
        self._reaper.close()

    @property
    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [process.pid for process in self._running]

    def alerts(self) -> list[Alert]:
        """Those that wait to fire or fire now."""
        return [_alert(it) for it in self.ask(f"{self.prometheus}/api/v1/alerts")["data"]["alerts"]]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """An instant query: `[{"metric": labels, "value": [time, "number"]}]`."""
        answer = self.ask(f"{self.prometheus}/api/v1/query?{urlencode({'query': expression})}")
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def ask(self, url: str) -> Any:
        """What one of their APIs answers. Raises `MonitoringError`."""
        try:
            with self._opener.open(url, timeout=_ASK_S) as response:
                return json.load(response)
        except (OSError, ValueError) as error:
            raise MonitoringError(f"{url}: {error}") from error

    def _start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in (rules.ALERTS, rules.RECORDED):
            content = rules.load(name)
            if self._waits_s is not None:
                content = rules.with_shorter_durations(content, self._waits_s)
            self._write(name, content)
        if self._programs.alertmanager is not None and self.alertmanager is not None:
            self._write("alertmanager.yml", alertmanager_config(self._webhook))
            self._run(
                self._programs.alertmanager,
                self.alertmanager,
                f"--config.file={self._directory / 'alertmanager.yml'}",
                f"--storage.path={self._directory / 'alertmanager'}",
                "--cluster.listen-address=",  # alone
            )
        self._write("prometheus.yml", prometheus_config(self._targets, self.alertmanager))
        self._run(
            self._programs.prometheus,
            self.prometheus,
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'prometheus'}",
        )

    def _write(self, name: str, content: Any) -> None:
        (self._directory / name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def _run(self, program: Path, url: str, *arguments: str) -> None:
        """Start one, and wait until it is ready."""
        name = program.name
        listen = f"--web.listen-address={url.removeprefix('http://')}"
        output = self._directory / f"{name}.log"
        try:
            process = self._reaper.start([program, listen, *arguments], output, cwd=self._directory)
        except OSError as error:
            raise MonitoringError(f"{name} could not be started: {error}") from error
        self._running.append(process)
        deadline = time.monotonic() + _START_S
        while not self._is_ready(url):
            said = output.read_text(encoding="utf-8", errors="replace")[-1000:].strip()
            if process.poll() is not None:
                raise MonitoringError(f"{name} ended with exit code {process.returncode}: {said}")
            if time.monotonic() > deadline:
                raise MonitoringError(f"{name} was not ready within {_START_S:g} s: {said}")
            time.sleep(_LOOK_EVERY_S)

    def _is_ready(self, url: str) -> bool:
        try:
            with self._opener.open(f"{url}/-/ready", timeout=_ASK_S):
                return True
        except (URLError, OSError):
            return False


def prometheus_config(targets: Sequence[str], alertmanager: str | None) -> dict[str, Any]:
    """Prometheus' configuration, beside the rule files."""
    config: dict[str, Any] = {
        "global": {"scrape_interval": EVERY, "evaluation_interval": EVERY},
        "rule_files": [rules.ALERTS, rules.RECORDED],
        "scrape_configs": [{"job_name": "kshadow", "static_configs": [{"targets": list(targets)}]}],
    }
    if alertmanager is not None:
        tells = [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
        config["alerting"] = {"alertmanagers": tells}
    return config


def alertmanager_config(webhook: str | None) -> dict[str, Any]:
    """Alertmanager's: what is critical hides the warning of the same thing."""
    receiver: dict[str, Any] = {"name": "demo"}
    if webhook is not None:
        receiver["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    return {
        "route": {
            "receiver": "demo",
            "group_by": ["alertname", "cluster", "group"],
            "group_wait": EVERY,
            "group_interval": EVERY,
        },
        "inhibit_rules": [
            {
                "source_matchers": ["severity = critical"],
                "target_matchers": ["severity = warning"],
                "equal": ["alertname", "cluster", "group"],
            }
        ],
        "receivers": [receiver],
    }


def _alert(it: Any) -> Alert:
    labels, annotations = it["labels"], it["annotations"]
    return Alert(
        labels["alertname"],
        labels["severity"],
        labels.get("group", ""),
        it["state"],
        annotations["summary"],
    )
