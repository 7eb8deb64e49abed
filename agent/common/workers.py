"""Processes that compute beside this one: their start, their end, and what is said where one dies.

Each is a fork where this process has one thread, as a command does that reads files: that takes milliseconds. Threads
must not be forked, so beside others each is a fresh interpreter, which imports everything anew. Must not know what is
computed.
"""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import re
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, cast

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkContext, SpawnContext
    from multiprocessing.process import BaseProcess

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 2
"""Tasks that a process has at once: the one under way, and the next, so that it need not wait for this process."""


class WorkerDied(Exception):
    """A process ended before its work was done, or could not be started."""


_CGROUP = Path("/sys/fs/cgroup")
"""Of a container that is its own: version 2."""


def usable_cores() -> int:
    """Processors that this process may run on, and no more than it may use of them at once."""
    cores = len(os.sched_getaffinity(0))
    quota, _, period = _content(_CGROUP / "cpu.max").partition(" ")
    return min(cores, max(1, int(quota) // int(period))) if quota.isdecimal() and period.isdecimal() else cores


def affordable_processes(size_bytes: int) -> int:
    """How many processes that take so much memory may be started beside this one."""
    found = re.search(r"MemAvailable: *(\d+) kB", _content(Path("/proc/meminfo")))
    available = 0 if found is None else int(found[1]) << 10
    most = _content(_CGROUP / "memory.max")
    # Half of what is allowed is for this one, and for what the kernel keeps of files.
    return (min(available, int(most) // 2) if most.isdecimal() else available) // size_bytes


def _has_one_thread() -> bool:
    """Whether this process has no other thread, of libraries in C either."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class WorkFailed(RuntimeError):
    """The function that a process calls has raised: its traceback."""


class _Worker(NamedTuple):
    """A process, the pipe to it, and the numbers of the tasks that it has."""

    process: BaseProcess
    pipe: Connection
    has: deque[int]


class Workers(Generic[Task, Result]):
    """So many processes, each of which calls one function, task by task; a context manager that ends them.

    The function, the tasks and what comes of them must be picklable. The processes take no Ctrl-C, which is for this
    one, and end when this one is gone.
    """

    def __init__(self, count: int, work: Callable[[Task], Result]) -> None:
        self._count, self._work = count, work
        self._workers: list[_Worker] = []
        self._numbers = itertools.count()
        self._waiting: dict[int, Task] = {}

    def __enter__(self) -> Workers[Task, Result]:
        # Every command knows this module; few start processes.
        from multiprocessing import get_context, resource_tracker

        context: ForkContext | SpawnContext
        if _has_one_thread():
            context = get_context("fork")
        else:
            context = get_context("spawn")
            # It starts a process of its own with the first of these, and unblocks the signal then.
            resource_tracker.ensure_running()
        # A child inherits what is blocked: from its first moment it is deaf to the terminal.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for number in range(self._count):
                pipe, its_pipe = context.Pipe()
                process = context.Process(target=_serve, args=(its_pipe, self._work), name=f"worker-{number}")
                process.daemon = True
                self._workers.append(_Worker(process, pipe, deque()))
                process.start()
                its_pipe.close()
        except BaseException as error:
            self._end()
            if isinstance(error, OSError):
                raise WorkerDied(f"cannot start another process: {error.strerror}") from error
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def results(self, tasks: Sequence[Task], sizes: Sequence[int]) -> Iterator[Result]:
        """What comes of each task, in their order. By `sizes` the largest are begun first: then all end together.

        Raises `WorkerDied`, and `WorkFailed` where the function raises.
        """
        numbers = {self.put(tasks[it]): it for it in sorted(range(len(tasks)), key=lambda it: -sizes[it])}
        done: dict[int, Result] = {}
        for number in range(len(tasks)):
            while number not in done:
                done |= {numbers[it]: result for it, result in self.take(None)}
            yield done.pop(number)

    def put(self, task: Task) -> int:
        """Have one more task done, once those before it are begun: its number. Raises `WorkerDied`."""
        number = next(self._numbers)
        self._waiting[number] = task
        self._give()
        return number

    def take(self, timeout_s: float | None) -> list[tuple[int, Result]]:
        """What has come of tasks, with their numbers; nothing after that time. Raises as `results` does."""
        from multiprocessing.connection import wait

        by_pipe = {it.pipe: it for it in self._workers if it.has}
        if not by_pipe:
            return []
        found = [self._receive(by_pipe[cast("Connection", it)]) for it in wait(list(by_pipe), timeout_s)]
        self._give()
        return found

    def take_back(self) -> int | None:
        """The number of the last task that no process has got yet, and that none gets now; None where all have been
        given."""
        return self._waiting.popitem()[0] if self._waiting else None

    def _give(self) -> None:
        while self._waiting and len((worker := min(self._workers, key=lambda it: len(it.has))).has) < _AHEAD:
            number = next(iter(self._waiting))
            try:
                worker.pipe.send(self._waiting[number])
            except OSError:
                raise _died(worker) from None
            del self._waiting[number]
            worker.has.append(number)

    def _receive(self, worker: _Worker) -> tuple[int, Result]:
        try:
            result, failure = worker.pipe.recv()
        except (EOFError, OSError):
            raise _died(worker) from None
        if failure is not None:
            raise WorkFailed(f"in {worker.process.name}: {failure}")
        return worker.has.popleft(), result

    def _end(self) -> None:
        """At once: there is nothing that they would have to write down."""
        for worker in self._workers:
            if worker.process.pid is not None:
                worker.process.kill()
        for worker in self._workers:
            if worker.process.pid is not None:
                worker.process.join()
            worker.pipe.close()
        self._workers.clear()


def _died(worker: _Worker) -> WorkerDied:
    worker.process.join()
    code = worker.process.exitcode or 0
    if code < 0:
        how = f"was ended by {signal.Signals(-code).name}"
        if -code == signal.SIGKILL:
            how += ", as Linux does where memory runs out"
    else:
        how = f"ended with {code}"
    return WorkerDied(f"{worker.process.name}, one of the processes that share the work, {how}")


def _serve(pipe: Connection, work: Callable[[Task], Result]) -> None:
    """The life of a process: until nobody is there any more who would ask."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tasks: SimpleQueue[bytes | None] = SimpleQueue()
    answers: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, tasks), daemon=True).start()
    sending = threading.Thread(target=_send, args=(pipe, answers), daemon=True)
    sending.start()
    # To look for cycles among what tasks leave took a quarter of their time.
    gc.disable()
    while (pickled := tasks.get()) is not None:
        task = pickle.loads(pickled)
        try:
            answer = work(task), None
        except Exception:  # noqa: BLE001  # whatever it is, the other process raises it
            answers.put(pickle.dumps((None, traceback.format_exc())))
        else:
            answers.put(pickle.dumps(answer))
    answers.put(None)
    sending.join()


def _receive(pipe: Connection, tasks: SimpleQueue[bytes | None]) -> None:
    """Take tasks as they come; None at the end. A pipe has little room: a task that waited in it until the one before
    is done would hold up who sends it, who then takes no result, so that none could be sent either."""
    try:
        while True:
            tasks.put(pipe.recv_bytes())
    except (EOFError, OSError):
        tasks.put(None)


def _send(pipe: Connection, answers: SimpleQueue[bytes | None]) -> None:
    """Give answers as they come, until None. A pipe has no room for one: who waited until it is taken would do
    nothing meanwhile."""
    with suppress(OSError):  # nobody asks any more
        while (pickled := answers.get()) is not None:
            pipe.send_bytes(pickled)


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None, "this is a child"
    parent.join()
    os._exit(1)
