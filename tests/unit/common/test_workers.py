"""How many processes a machine, or what is left of it for a container, has room for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.common import workers
from agent.common.workers import Workers, affordable_processes, usable_cores


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 4), ("", 4)],
)
def test_cores_of_a_container(quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(workers, "_CGROUP", tmp_path)
    if quota:
        (tmp_path / "cpu.max").write_text(quota + "\n")
    assert usable_cores() == cores


def test_half_of_a_container_is_for_the_first_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_CGROUP", tmp_path)
    of_machine = affordable_processes(1 << 20)
    assert of_machine > 50
    (tmp_path / "memory.max").write_text("max\n")
    assert affordable_processes(1 << 20) > 50
    (tmp_path / "memory.max").write_text(f"{100 << 20}\n")
    assert affordable_processes(1 << 20) == 50
    assert affordable_processes(51 << 20) == 0


MORE_THAN_A_PIPE_HOLDS = 4 << 20


def _grown(task: bytes) -> bytes:
    return task + b"!"


@pytest.mark.timeout(60)
def test_tasks_and_results_larger_than_a_pipe() -> None:
    tasks = [bytes([number]) * MORE_THAN_A_PIPE_HOLDS for number in range(6)]
    with Workers(2, _grown) as workers:
        assert list(workers.results(tasks, [1] * len(tasks))) == [task + b"!" for task in tasks]
