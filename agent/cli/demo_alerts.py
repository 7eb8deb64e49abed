"""`kshadow demo --stack`: what a real Prometheus makes of the demo, told as it happens and at the end."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli.output import echo, print_table, printable, warn

if TYPE_CHECKING:
    from agent.tools.demo.monitoring import Alert, Monitoring, Programs

ALERT_WAIT_S = 5
"""A demo takes a minute: alerts about groups wait for seconds, not minutes, until they fire."""

FINAL_WAIT_S = 15.0
"""For how long alerts are waited for at the end that are about to fire."""

Tell = Callable[[str], None]


def find_programs(prometheus: str | None, alertmanager: str | None) -> Programs:
    """What was named, else what is on PATH. A usage error says what is missing; Alertmanager may be."""
    from agent.tools.demo.monitoring import Programs

    found = prometheus or shutil.which("prometheus")
    if found is None:
        raise click.UsageError(
            "--stack needs Prometheus, and no prometheus is on PATH: install it, or name it by --prometheus PATH"
        )
    other = alertmanager or shutil.which("alertmanager")
    if other is None:
        warn("There is no alertmanager on PATH (--alertmanager PATH names one): alerts are seen in Prometheus alone.")
    # They are started in a directory of their own.
    return Programs(Path(found).absolute(), None if other is None else Path(other).absolute())


class AlertWatch:
    """Tells of the alerts in Prometheus. Without Prometheus it says nothing."""

    def __init__(self, monitoring: Monitoring | None = None) -> None:
        self._monitoring = monitoring
        self._firing: set[tuple[str, str, str]] = set()
        self._fired: dict[tuple[str, str, str], Alert] = {}
        self._has_failed = False

    def show(self, tell: Tell) -> None:
        """Tell of alerts that began to fire, or do no more, since this was called last."""
        now = {it.key: it for it in self._alerts() if it.state == "firing"}
        for key in now.keys() - self._firing:
            self._fired[key] = now[key]
            tell(printable(f"!! {now[key].group:<24}{now[key].name} fires, {now[key].severity}: {now[key].summary}"))
        for key in self._firing - now.keys():
            tell(printable(f"!! {self._fired[key].group:<24}{self._fired[key].name} is resolved"))
        self._firing = set(now)

    def last(self, tell: Tell) -> None:
        """Wait for what is about to fire, and tell of it."""
        from agent.tools.demo.rules import GROUPS, load

        ours = {
            rule["alert"]
            for group in load("alerts.yaml")["groups"]
            if group["name"] == GROUPS
            for rule in group["rules"]
        }
        deadline = time.monotonic() + FINAL_WAIT_S
        while any(it.state == "pending" and it.name in ours for it in self._alerts()) and time.monotonic() < deadline:
            self.show(tell)
            time.sleep(0.2)
        self.show(tell)

    def summary(self) -> None:
        """Which alerts fired."""
        if self._monitoring is None:
            return
        echo("\nThe alerts that fired in Prometheus:\n")
        print_table(
            [
                [it.name, it.severity, it.group or None, "firing" if key in self._firing else "resolved", it.summary]
                for key, it in sorted(self._fired.items())
            ],
            ["ALERT", "SEVERITY", "GROUP", "NOW", "SUMMARY"],
            empty="none",
        )
        echo(f"\n{self.where}")

    @property
    def where(self) -> str:
        """The addresses, for people; empty without Prometheus."""
        it = self._monitoring
        if it is None:
            return ""
        other = "" if it.alertmanager is None else f", Alertmanager {it.alertmanager}"
        return f"Prometheus {it.prometheus} ({it.prometheus}/alerts){other}"

    def _alerts(self) -> list[Alert]:
        from agent.tools.demo.monitoring import MonitoringError

        if self._monitoring is None or self._has_failed:
            return []
        try:
            return self._monitoring.alerts()
        except MonitoringError as error:
            self._has_failed = True
            warn(f"Prometheus does not answer any more: {error}")
            return []


def start_monitoring(stack: ExitStack, chosen: Programs, workdir: Path, url: str, tell: Tell) -> AlertWatch:
    """Start both on the agent at `url`, until the block ends. Raises `MonitoringError`."""
    from agent.tools.demo.monitoring import Monitoring

    target = url.removeprefix("http://")
    watch = AlertWatch(
        stack.enter_context(Monitoring(chosen, workdir / "monitoring", [target], waits_s=ALERT_WAIT_S))
    )
    tell(f"Up with kshadow's alerts, which wait {ALERT_WAIT_S} s here instead of minutes: {watch.where}")
    return watch
