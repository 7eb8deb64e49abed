"""Plays of Connect clusters in the world of virtual time, with what the workers ran at every moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.simulation.groups.connect import Task, WorkerAssignment
from agent.simulation.groups.connect_worker import ConnectWorker, WorkerSettings
from agent.simulation.groups.messages import RecordAppended
from agent.simulation.groups.protocol_models import AnyEffect
from agent.simulation.groups.script import BrokerSettings, Script, Start, Step
from agent.simulation.groups.simulation import Simulation

MINUTE = 60_000
AT_ONCE = BrokerSettings(initial_rebalance_delay_ms=0)


@dataclass(frozen=True)
class Round:
    """One generation's assignment, by worker's name."""

    at_ms: int
    delay_ms: int
    assigned: dict[str, tuple[Task, ...]]
    revoked: dict[str, tuple[Task, ...]]


class ConnectPlay:
    """A script of workers, played. `runs` are the spans in which a worker's life ran a task."""

    def __init__(self, tasks: dict[str, int], *steps: Step, until_ms: int) -> None:
        self.rounds: list[Round] = []
        self.runs: list[tuple[Task, str, int, int]] = []
        self.tasks = tasks
        self.until_ms = until_ms
        self._open: dict[tuple[Task, str], int] = {}
        script = Script("connect-cluster", tasks, steps, until_ms, broker=AT_ONCE)
        self.world = Simulation(script, self.watch)
        self.world.run()
        self._spans(until_ms, {})

    def watch(self, world: Simulation, now: int, effects: list[AnyEffect]) -> None:
        for effect in effects:
            if isinstance(effect, RecordAppended):
                self.note_round(effect.image)
        running = {
            (task, name): now for name, client in world.clients.items() if client.is_running for task in client.owned
        }
        self._spans(now, running)

    def _spans(self, now: int, running: dict[tuple[Task, str], int]) -> None:
        for ended in self._open.keys() - running.keys():
            since = self._open.pop(ended)
            if since < now:
                self.runs.append((*ended, since, now))
        self._open = {**running, **self._open}

    def note_round(self, image: Any) -> None:
        given: dict[str, WorkerAssignment] = {
            self.world.client_names[it.member_id]: it.assignment for it in image.members if it.assignment
        }
        if given:
            self.rounds.append(
                Round(
                    image.at_ms,
                    max(it.delay_ms for it in given.values()),
                    {name: it.assigned.tasks for name, it in given.items() if it.assigned.tasks},
                    {name: it.revoked.tasks for name, it in given.items() if it.revoked.tasks},
                )
            )

    def worker(self, name: str) -> ConnectWorker:
        worker = self.world.clients[name]
        assert isinstance(worker, ConnectWorker)
        return worker

    def held(self, at_ms: int | None = None) -> dict[str, list[Task]]:
        """What each worker ran at that time, or at the end."""
        at_ms = self.until_ms - 1 if at_ms is None else at_ms
        out: dict[str, list[Task]] = {}
        for task, name, since, until in self.runs:
            if since <= at_ms < until:
                out.setdefault(name, []).append(task)
        return {name: sorted(tasks) for name, tasks in sorted(out.items())}

    def stopped(self, task: Task) -> list[tuple[int, int]]:
        """When nobody ran the task, from its first start on."""
        spans = sorted((since, until) for it, _, since, until in self.runs if it == task)
        gaps = []
        behind = spans[0][0]
        for since, until in [*spans, (self.until_ms, self.until_ms)]:
            if since > behind:
                gaps.append((behind, since))
            behind = max(behind, until)
        return gaps

    def stopped_task_ms(self) -> int:
        return sum(
            until - since
            for name, count in self.tasks.items()
            for number in range(count)
            for since, until in self.stopped((name, number))
        )


def start(at_ms: int, name: str, **settings: Any) -> Start:
    return Start(at_ms, name, WorkerSettings(client_id=name, url=f"http://{name}:8083", **settings))
