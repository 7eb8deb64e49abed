"""Plays the demo's script on a broker: every scenario in its own thread, at the same time.

Owns the ledger of what was done when, the truth that kshadow's diagnosis can be held against, and the end of
everything. What is done is in `script`, how a scenario is played in `player`, processes in `fleet`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from agent.tools.demo.fleet import ClientProcesses
from agent.tools.demo.player import LedgerEntry, ScenarioPlayer
from agent.tools.demo.script import KIP_848, SCENARIOS, Scenario
from agent.tools.doctor.connection import addresses, probe_endpoints

_log = logging.getLogger("kshadow.demo")

_PRODUCER = "producer"
_ANSWER_S = 5.0
_FORGET_S = 30.0  # several session timeouts


def playable_scenarios(bootstrap_servers: str) -> tuple[Scenario, ...]:
    """The script, without groups of KIP-848 where the cluster says that it has none, as before Kafka 4."""
    told = [it.versions for it in probe_endpoints(addresses(bootstrap_servers), {}, _ANSWER_S)]
    levels = [it.features.get("group.version", 0) for it in told if it is not None]
    return tuple(it for it in SCENARIOS if it.settings is not KIP_848 or not levels or max(levels) > 0)


class Scenarios:
    """The demo's groups and their fates; a context manager that ends every client.

        with Scenarios(bootstrap_servers, workdir) as scenarios:
            scenarios.start()
            while not scenarios.wait(0.2):
                for entry in scenarios.new_steps(): …

    When the script is over the clients that are left go on, until `stop`. Logs are in `workdir`, one for
    each client id.
    """

    def __init__(self, bootstrap_servers: str, workdir: Path, *, scenarios: Sequence[Scenario] = SCENARIOS) -> None:
        self.scenarios = tuple(scenarios)
        self.workdir = workdir
        self._bootstrap_servers = bootstrap_servers
        self._fleet: ClientProcesses | None = None
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ledger: list[LedgerEntry] = []
        self._shown = 0
        self._creating: dict[str, Future[None]] = {}
        self._admin: AdminClient | None = None

    def __enter__(self) -> Scenarios:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Everything so far, in order of time."""
        with self._lock:
            return tuple(self._ledger)

    @property
    def failures(self) -> dict[str, str]:
        """By name of scenario, why it could not be played to its end."""
        return {entry.scenario: entry.sentence for entry in self.ledger if entry.act == "failed"}

    @property
    def done(self) -> bool:
        """Whether every scenario has been played, or has failed. Not before `start`."""
        return bool(self._threads) and not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Create the topics, start the producer and all scenarios. Raises `KafkaException`."""
        assert self._fleet is None, "the scenarios were already started"
        self.workdir.mkdir(parents=True, exist_ok=True)
        topics = {topic: count for scenario in self.scenarios for topic, count in scenario.topics.items()}
        admin = AdminClient(
            {"bootstrap.servers": self._bootstrap_servers, "client.id": "kshadow-demo", "log_level": 0}
        )
        wanted = [NewTopic(topic, num_partitions=count, replication_factor=1) for topic, count in topics.items()]
        self._admin = admin
        self._creating = admin.create_topics(wanted, request_timeout=30)
        for created in self._creating.values():
            created.result()
        self._fleet = ClientProcesses(self._bootstrap_servers, self.workdir)
        self._fleet.start("producer", _PRODUCER, settings={"linger.ms": "50"}, topics=topics)
        for scenario in self.scenarios:
            player = ScenarioPlayer(scenario, self._fleet, admin, self._stop, self._write)
            # Daemons: an interpreter that exits without `stop` must not wait for the script.
            thread = threading.Thread(target=player.play, name=f"demo-{scenario.name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def new_steps(self) -> list[LedgerEntry]:
        """What has been added to the ledger since the last call."""
        with self._lock:
            new, self._shown = self._ledger[self._shown :], len(self._ledger)
        return new

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the script, at most so long. Whether it has ended."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return self.done

    def stop(self) -> None:
        """End the script where it is, and every client. May be called more than once."""
        self._stop.set()
        self.wait(10.0)
        if self._fleet is not None:
            self._fleet.close()

    def remove_traces(self) -> list[str]:
        """After `stop`, on a broker that lives on: delete the groups and topics. Tells what could not be deleted.

        A group whose members were killed can only be deleted once the broker has missed them.
        """
        left: list[str] = []
        if self._admin is None:
            return left
        deadline = time.monotonic() + _FORGET_S
        for scenario in self.scenarios:
            group = scenario.group
            while (error := self._admin.delete_consumer_groups([group])[group].exception()) is not None:
                if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                    break
                if time.monotonic() > deadline:
                    left.append(f"group {group}: {error.args[0].str()}")
                    break
                time.sleep(0.5)
        # Also those whose making Ctrl-C came in between; not those that were there before.
        ours = [topic for topic, created in self._creating.items() if created.exception() is None]
        for topic, deleted in self._admin.delete_topics(ours).items() if ours else ():
            if (error := deleted.exception()) is not None:
                left.append(f"topic {topic}: {error.args[0].str()}")
        return left

    def _write(self, entry: LedgerEntry) -> None:
        _log.debug("%s: %s", entry.group, entry.sentence)
        with self._lock:
            self._ledger.append(entry)
