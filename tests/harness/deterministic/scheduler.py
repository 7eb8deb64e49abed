"""One seeded scheduler in place of threads and clocks.

Owns virtual time and which task goes on next. A task runs until it waits; when all wait, time passes to the next
deadline. Locks are the only thing that has a simulated form: Python's own `Condition` and `Event` are built on them.
Refuses to know what tasks do.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from typing import Any
from unittest.mock import patch

from greenlet import GreenletExit, getcurrent, greenlet

from agent.common import clock

STEADY_S = 5_000.0
"""What `time.monotonic` shows as a run begins."""


class Deadlock(AssertionError):
    """No task can go on, and no time is waited for."""


class Livelock(AssertionError):
    """So many steps were made that something must turn in a circle."""


class Task(greenlet):  # type: ignore[misc]  # greenlet has no types
    """Something that runs by itself. `owner` is what it dies with."""

    def __init__(self, run: Callable[[], None], name: str, owner: object, hub: greenlet) -> None:
        def guarded() -> None:
            try:
                run()
            except BaseException:
                # Of one that was killed nothing that its clean-up runs into is of account.
                if not self.is_killed:
                    raise

        super().__init__(guarded, hub)
        self.name, self.owner = name, owner
        self.waits = 0
        """Counts its waits: a deadline of an earlier one is of no account."""
        self.is_waiting = self.is_killed = False
        self.is_due = False
        """Whether its deadline, not another task, ended the latest wait."""


class Scheduler:
    """Runs tasks in an order that the seed alone decides."""

    def __init__(self, seed: str, *, start_s: float, most_steps: int = 2_000_000) -> None:
        """`start_s`: what the clock on the wall shows at first, epoch seconds."""
        self.random = random.Random(seed)
        self.now_s = STEADY_S
        self.wall_offset_s = start_s - STEADY_S
        """What the wall shows beyond the steady clock; changes where somebody sets it."""
        self.preempted = 0.05
        """How often a task is made to wait though it could go on: where it takes a free lock, for one."""
        self.steps = 0
        self._most_steps = most_steps
        self._hub = getcurrent()
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Task, int]] = []
        self._number = 0
        self._trace = blake2b(digest_size=16)
        self.on_wait: Callable[[str], None] | None = None
        """Called in a task wherever it may come to wait, with what for: raises, or never returns, to crash there."""
        self.after_step: list[Callable[[], None]] = []
        """What is to be done once the task at work waits: what it cannot do to itself."""
        self.say: Callable[[str], None] | None = None
        """Where steps are told, for people."""

    # For whoever drives.

    def spawn(self, run: Callable[[], None], name: str, owner: object = None) -> Task:
        """A task that begins some time from now."""
        task = Task(run, name, owner, self._hub)
        self._ready.append(task)
        return task

    def run(self, until: Callable[[], bool]) -> None:
        """Let tasks go on until that holds. Raises `Deadlock`, `Livelock`."""
        while not until():
            if not self._ready:
                self._pass_time()
                continue
            self.steps += 1
            if self.steps > self._most_steps:
                raise Livelock(f"{self.steps} steps, the next in {self._ready[0].name}")
            ready = self._ready
            number = int(self.random.random() * len(ready)) if len(ready) > 1 else 0
            task = ready[number]
            ready[number] = ready[-1]
            ready.pop()
            self._trace.update(b"%a %f\n" % (task.name, self.now_s))
            task.switch()
            while self.after_step:
                self.after_step.pop()()

    def kill(self, owner: object, tasks: list[Task]) -> None:
        """End these at once, wherever they are; called from no task of them."""
        self._ready = [it for it in self._ready if it.owner is not owner]
        self._timers = [it for it in self._timers if it[2].owner is not owner]
        heapq.heapify(self._timers)
        for task in tasks:
            task.is_killed = True
            while not task.dead:
                # `finally` runs, and may wait again: that ends as well.
                task.throw(GreenletExit)

    def note(self, what: str) -> None:
        """A step for the trace."""
        self._trace.update(what.encode("utf-8", "backslashreplace"))
        if self.say is not None:
            self.say(f"{self.now_s - STEADY_S:9.3f} {what}")

    @property
    def trace(self) -> str:
        """What happened so far, in 32 hexadecimal digits."""
        return self._trace.hexdigest()

    def _pass_time(self) -> None:
        while self._timers:
            at_s, _, task, waits = heapq.heappop(self._timers)
            if task.waits == waits and task.is_waiting:
                self.now_s = max(self.now_s, at_s)
                task.is_due = True
                self.wake(task)
                return
        raise Deadlock("every task waits, and none for a time")

    # For tasks.

    @property
    def current(self) -> Task | None:
        """The task that asks; None for who drives."""
        task = getcurrent()
        return task if isinstance(task, Task) else None

    def wait(self, until_s: float | None = None) -> bool:
        """Wait to be woken, or until then (None: for as long as it takes); whether it was woken."""
        task = self.current
        assert task is not None, "only tasks can wait"
        if task.is_killed:
            raise GreenletExit
        task.is_due, task.is_waiting = False, True
        if until_s is not None:
            self._number += 1
            heapq.heappush(self._timers, (until_s, self._number, task, task.waits))
        self._hub.switch()
        return not task.is_due

    def wake(self, task: Task) -> None:
        """Let one that waits go on."""
        task.waits += 1
        task.is_waiting = False
        self._ready.append(task)

    def let_others(self, what: str) -> None:
        """Where another may come first, or a crash."""
        task = self.current
        if task is None or task.is_killed:
            return
        if self.on_wait is not None:
            self.on_wait(what)
        if self.random.random() < self.preempted:
            self._ready.append(task)
            self._hub.switch()

    def sleep(self, seconds: float) -> None:
        """As `time.sleep`."""
        if self.current is None:
            self.now_s += seconds
            return
        if self.on_wait is not None:
            self.on_wait("sleep")
        self.wait(self.now_s + max(seconds, 0.0))

    # In place of Python's.

    def monotonic(self) -> float:
        """As `time.monotonic`."""
        return self.now_s

    def wall_s(self) -> float:
        """As `time.time`."""
        return self.now_s + self.wall_offset_s

    def wall_ns(self) -> int:
        """As `time.time_ns`."""
        return round(self.wall_s() * 1_000_000) * 1_000

    @contextmanager
    def in_place_of_threads(self, owner: Callable[[], Any]) -> Iterator[None]:
        """Within it Python's clocks, locks and threads are this scheduler's. `owner`: whose a new thread is."""
        scheduler = self

        class SimulatedThread:
            """As `threading.Thread`, as far as the agent uses it."""

            def __init__(
                self,
                group: None = None,
                target: Callable[..., object] | None = None,
                name: str | None = None,
                args: tuple[object, ...] = (),
                kwargs: Mapping[str, object] | None = None,
                *,
                daemon: bool | None = None,
            ) -> None:
                assert target is not None, "the agent's threads are told what to do"
                self._run: Callable[[], object] = partial(target, *args, **(kwargs or {}))
                self.name, self.daemon = name or "thread", daemon
                self._task: Task | None = None
                self._joining: list[Task] = []

            def start(self) -> None:
                self._task = scheduler.spawn(self._work, self.name, owner())
                owner().tasks.append(self._task)

            def _work(self) -> None:
                try:
                    self._run()
                finally:
                    for it in self._joining:
                        if it.is_waiting:
                            scheduler.wake(it)
                    self._joining.clear()

            def is_alive(self) -> bool:
                return self._task is not None and not self._task.dead

            def join(self, timeout: float | None = None) -> None:
                me = scheduler.current
                if not self.is_alive() or me is None:
                    return
                if scheduler.on_wait is not None:
                    scheduler.on_wait("join")
                self._joining.append(me)
                if not scheduler.wait(None if timeout is None else scheduler.now_s + timeout):
                    self._joining.remove(me)

        def lock() -> SimulatedLock:
            return SimulatedLock(scheduler)

        def reentrant_lock() -> SimulatedLock:
            return SimulatedLock(scheduler, is_reentrant=True)

        with ExitStack() as stack:
            for module, replaced in (
                (threading, {"Lock": lock, "RLock": reentrant_lock, "_allocate_lock": lock}),
                (threading, {"Thread": SimulatedThread, "_time": self.monotonic}),
                (time, {"monotonic": self.monotonic, "perf_counter": self.monotonic, "time": self.wall_s}),
                (time, {"time_ns": self.wall_ns, "sleep": self.sleep}),
                (clock, {"_BEGAN_NS": round(self.wall_offset_s * 1e9)}),
            ):
                stack.enter_context(patch.multiple(module, **replaced))
            yield


class SimulatedLock:
    """As `threading.Lock`, or `RLock`. Whoever waits may be passed by whoever comes later, as with Python's."""

    __slots__ = ("_count", "_holder", "_is_reentrant", "_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler, *, is_reentrant: bool = False) -> None:
        self._scheduler, self._is_reentrant = scheduler, is_reentrant
        self._holder: object = None
        self._count = 0
        self._waiting: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, or wait for it."""
        scheduler = self._scheduler
        me = scheduler.current
        if self._is_reentrant and self._count and self._holder is me:
            self._count += 1
            return True
        if blocking and me is not None:
            scheduler.let_others("lock")
        until_s = None if timeout < 0 else scheduler.now_s + timeout
        while self._count:
            if not blocking:
                return False
            if me is None:
                raise Deadlock("who drives waits for a lock")
            self._waiting.append(me)
            if not scheduler.wait(until_s):
                if me in self._waiting:
                    self._waiting.remove(me)
                return False
        self._count, self._holder = 1, me
        return True

    def release(self) -> None:
        """Give it back."""
        if not self._count:
            raise RuntimeError("release of a lock that nobody has")
        self._count -= 1
        if self._count:
            return
        self._holder = None
        while self._waiting:
            task = self._waiting.popleft()
            if task.is_waiting and not task.is_killed:
                self._scheduler.wake(task)
                return

    def locked(self) -> bool:
        """Whether somebody has it."""
        return bool(self._count)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return bool(self._count) and (not self._is_reentrant or self._holder is self._scheduler.current)

    # What `threading.Condition` asks of a lock that is reentrant.

    def _release_save(self) -> int:
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count

    def _at_fork_reinit(self) -> None:
        self._count, self._holder = 0, None
