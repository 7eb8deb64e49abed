"""Each siege in turn, of a new agent on one embedded broker; fails where somebody with a right does not get in."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import bcrypt
import click

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.harness.siege.measuring import Answers, besieged, probes, rightful

PASSWORD = "right horse"
SIEGES: dict[str, list[tuple[str, int, int]]] = {
    "300 idle": [("idle", 300, 1)],
    "2,000 idle": [("idle", 2000, 1)],
    "2,000 idle of 200 addresses": [("idle", 2000, 200)],
    "idle, silent and slow": [("idle", 700, 1), ("silent", 700, 1), ("slow", 700, 1)],
    "100 slow readers of metrics": [("scraping", 100, 1)],
    "200 that ask for everything": [("asking", 200, 1)],
    "40 guessers, one address": [("guessing", 40, 1)],
    "40 guessers, 40 addresses": [("guessing", 40, 40)],
}


@click.command()
@click.option("--seconds", default=20.0, help="How long each lasts.")
@click.option("--only", multiple=True, help="Only the sieges whose name holds this.")
def main(seconds: float, only: tuple[str, ...]) -> None:
    """A probe every half second, a scrape every two, and a password every second, under each siege."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="siege-") as scratch, ExitStack() as stack:
        users = Path(scratch, "web.yml")
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
        users.write_text(f"basic_auth_users: {{prometheus: '{hashed}'}}\n")
        broker = stack.enter_context(EmbeddedBroker(fetch_jars()))
        history = (
            "--create-topic",
            "--groups",
            "200",
            "--records",
            "20000",
            "--bootstrap-server",
            broker.bootstrap_servers,
        )
        subprocess.run([sys.executable, "-m", "agent.cli.main", "generate", *history], check=True)
        for name, attacks in SIEGES.items():
            if only and not any(it in name for it in only):
                continue
            guarded = any(kind == "guessing" for kind, _, _ in attacks)
            agent = AgentProcess(
                Path(scratch),
                *("--bootstrap-server", broker.bootstrap_servers),
                *(("--web-config", str(users)) if guarded else ()),
            )
            agent.start()
            try:
                agent.wait_ready()
                with besieged(agent.port, attacks):
                    if guarded:
                        found = rightful(agent.port, "prometheus", PASSWORD, seconds)
                    else:
                        found = probes(agent.port, seconds)
            finally:
                agent.kill()
            for path, answers in found.items():
                failed |= not _tell(name, path, answers)
    sys.exit(failed)


def _tell(siege: str, what: str, answers: Answers) -> bool:
    good = answers.good
    load = os.getloadavg()[0]
    print(
        f"{siege:30} {what:20} {good}/{len(answers.taken_s)} answered 200, "
        f"median {answers.median_s * 1000:.0f} ms, slowest {max(answers.taken_s) * 1000:.0f} ms; "
        f"others: {dict(answers.others)}; load {load:.1f}",
        flush=True,
    )
    return good == len(answers.taken_s)


if __name__ == "__main__":
    main()
