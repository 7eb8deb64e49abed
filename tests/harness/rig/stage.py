"""One play: a group under a random name, its clients, and the waiting for what the broker's log shows.

Owns what scenarios have to work with. Every deed is noted in the ledger before it is done, so that no line of the
broker's log about it is earlier.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from agent.tools.embedded import Jars
from tests.harness.rig.brokerlog import parse_line
from tests.harness.rig.fleet import Client, Fleet
from tests.harness.rig.ledger import Ledger
from tests.harness.rig.libraries import LIBRARIES, member_command
from tests.harness.rig.settings import LIBRDKAFKA, GroupSettings, draw, draw_of

_WORDS = ("ads", "audit", "billing", "cart", "emails", "feeds", "fraud", "geo", "pricing", "risk", "ship", "stock")


class PlayOverError(Exception):
    """The rig's time is up."""


class LogWatch(threading.Thread):
    """Follows the broker's log: the size of each classic group in its latest assigned generation."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._sizes: dict[str, tuple[int, int]] = {}
        self.completed = 0
        self.stopped = threading.Event()

    def size(self, group: str) -> tuple[int, int]:
        """(generation, members) as last assigned; (0, 0) for a new or empty group."""
        return self._sizes.get(group, (0, 0))

    def run(self) -> None:
        """Until `stopped` is set."""
        rest = ""
        with self._path.open(errors="replace") as log:
            while not self.stopped.wait(0.1):
                *lines, rest = (rest + log.read()).split("\n")
                for line in lines:
                    event = parse_line(line)
                    if event is None:
                        continue
                    if event.kind == "assigned":
                        self._sizes[event.group] = (event.generation, event.members)
                    elif event.kind == "empty":
                        self._sizes[event.group] = (event.generation, 0)
                    self.completed += event.kind in ("stabilized", "empty")


@dataclass
class World:
    """What all plays share."""

    fleet: Fleet
    ledger: Ledger
    admin: AdminClient
    watch: LogWatch
    jars: Jars
    over: threading.Event = field(default_factory=threading.Event)
    java_slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(1))


class Stage:
    """A play's group, of members of one library. `dice` decides everything random in it."""

    def __init__(self, world: World, kind: str, dice: random.Random, library: str = LIBRDKAFKA) -> None:
        self.world, self.kind, self.dice, self.library = world, kind, dice, library
        self.group = f"{dice.choice(_WORDS)}-{kind}-{dice.randrange(16**4):04x}"
        self.settings: GroupSettings = draw(dice)
        self.clients: list[Client] = []
        self._count = 0

    def begin(self, **fixed: Any) -> GroupSettings:
        """Draw the group's settings, and say so in the ledger."""
        if self.library != LIBRDKAFKA:
            fixed |= draw_of(self.library, LIBRARIES[self.library].assignors, self.dice)
        self.settings = draw(self.dice, **fixed)
        self.note("scenario", kind=self.kind, **self.settings.form())
        return self.settings

    def note(self, what: str, client: Client | None = None, **more: Any) -> None:
        """An entry of the ledger about this group."""
        self.world.ledger.note(what, self.group, client.name if client else None, **more)

    def join(self, *, instance: str | None = None, name: str | None = None, **changes: Any) -> Client:
        """Start a member; `changes` to the group's settings are its alone."""
        settings = self.settings.with_(**changes)
        name = name or f"{self.group}-{self.letter()}"
        self.world.ledger.note("join", self.group, name, instance=instance)
        fleet = self.world.fleet
        if settings.library != LIBRDKAFKA:
            command = member_command(settings.library, fleet.bootstrap, self.group, name, settings)
            client = fleet.talking(name, self.group, command)
        else:
            conf = {**settings.conf(), "group.id": self.group}
            if instance:
                conf["group.instance.id"] = instance
            client = fleet.python(
                "consumer",
                name,
                self.group,
                conf=conf,
                topics=list(settings.topics),
                commit=settings.commit_plan(),
                work_s=settings.work_s,
            )
        self.clients.append(client)
        return client

    def join_share(self) -> Client:
        """Start a member of a share group."""
        name = f"{self.group}-{self.letter()}"
        self.world.ledger.note("join", self.group, name)
        conf = {"group.id": self.group}
        client = self.world.fleet.python("share", name, self.group, conf=conf, topics=list(self.settings.topics))
        self.clients.append(client)
        return client

    def gather(self, count: int, **changes: Any) -> list[Client]:
        """Start members, together or one by one, and wait until all are in."""
        spread = self.dice.choice((0.0, 0.3, 2.0))
        members = []
        for _ in range(count):
            members.append(self.join(**changes))
            self.sleep(self.dice.uniform(0, spread))
        self.settle(count)
        return members

    def letter(self) -> str:
        """A suffix nobody has in this group."""
        self._count += 1
        return f"{self.dice.choice('abcdefgh')}{self._count}"

    def settle(self, members: int, timeout_s: float | None = None) -> bool:
        """Wait until the group has an assignment for so many members (0: is empty); whether it came to that."""
        default = (self.settings.session_ms + self.settings.poll_ms) / 1000 + 15
        return self.until(lambda: self.world.watch.size(self.group)[1] == members, timeout_s or default)

    @property
    def generation(self) -> int:
        """The latest that was assigned."""
        return self.world.watch.size(self.group)[0]

    def outgrow(self, generation: int) -> None:
        """Wait until a later generation was assigned."""
        self.until(lambda: self.generation > generation, 20)

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition, but not for ever."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                self.note("gave_up_waiting")
                return False
            self.sleep(0.1)
        return True

    def sleep(self, seconds: float) -> None:
        """Sleep; raises `PlayOverError` when the rig's time is up."""
        if self.world.over.wait(seconds):
            raise PlayOverError

    def work(self, least: float = 1.0, most: float = 8.0) -> None:
        """Let members read and commit for a while."""
        self.sleep(self.dice.uniform(least, most))

    def kill(self, client: Client) -> None:
        """kill -9."""
        self.note("kill", client)
        client.kill()
        self._forget(client)

    def close(self, client: Client) -> None:
        """Proper shutdown; not waited for."""
        # A client of ours says by itself when it closes.
        self.note("close" if client.java else "ask_close", client)
        client.close()
        self._forget(client)

    def freeze(self, client: Client) -> None:
        """SIGSTOP."""
        self.note("freeze", client)
        client.signal(signal.SIGSTOP)

    def thaw(self, client: Client) -> None:
        """SIGCONT."""
        self.note("thaw", client)
        client.signal(signal.SIGCONT)

    def stall(self, client: Client, seconds: float) -> None:
        """The member spends so long on one record."""
        exceeds = seconds * 1000 > self.settings.poll_ms
        self.note("poll_exceed" if exceeds else "slow_poll", client, seconds=round(seconds, 1))
        client.tell("stall", seconds=seconds)

    def finish(self) -> None:
        """Close everything, one by one or at once; sometimes all die."""
        if not self.world.over.is_set() and self.dice.random() < 0.15:
            for client in list(self.clients):
                self.kill(client)
            self.settle(0)
        gap = self.dice.choice((0.0, 0.0, 1.0, 4.0))
        leaving = list(self.clients)
        for client in leaving:
            self.close(client)
            if gap and not self.world.over.is_set():
                self.world.over.wait(gap)
        for client in leaving:
            client.signal(signal.SIGCONT)
            if not client.wait(12):
                self.note("kill", client, why="did not close")
                client.kill()
        self.note("end")

    def _forget(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)
