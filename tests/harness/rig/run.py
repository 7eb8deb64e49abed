"""One run: a broker, a producer, and plays drawn by weight, so many at a time, until the time is up.

Leaves in its directory: `run.json`, `ledger.ndjson`, `server.log`, `segments/` (the broker's own
`__consumer_offsets-N`, copied after the broker has stopped) and `clients/` (their standard error).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import cycle
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.rig.fleet import Fleet
from tests.harness.rig.ledger import Ledger
from tests.harness.rig.libraries import LIBRARIES, built
from tests.harness.rig.plays import PLAYS
from tests.harness.rig.settings import BROKER_CONFIG, LIBRDKAFKA, QUIET, TOPICS
from tests.harness.rig.stage import LogWatch, PlayOverError, Stage, World

_MORE_S = 100.0
"""How long plays that have begun may go on after the time is up."""


def run(
    directory: Path,
    version: str,
    seed: int,
    seconds: float,
    names: Sequence[str],
    parallel: int,
    *,
    libraries: Sequence[str] = (LIBRDKAFKA,),
    say: Callable[[str], None],
) -> None:
    """Run plays by name, all if none is named; where any library will do, with members of `libraries` in turn.

    Every random decision follows from `seed`; the interleaving of plays does not.
    """
    directory.mkdir(parents=True, exist_ok=True)
    jars = fetch_jars(version)
    for library in LIBRARIES.keys() & set(libraries):
        built(library)
    names = [name for name in names or PLAYS if PLAYS[name].since <= jars.major]
    if not names:
        raise ValueError(f"none of these scenarios is for Kafka {version}")
    about = {
        "kafka": version,
        "seed": seed,
        "seconds": seconds,
        "plays": names,
        "parallel": parallel,
        "libraries": [*libraries],
    }
    (directory / "run.json").write_text(json.dumps(about))
    ledger = Ledger(directory / "ledger.ndjson")
    home = directory / "broker"
    shutil.rmtree(home, ignore_errors=True)
    try:
        with ExitStack() as stack:
            with _utc():
                broker = stack.enter_context(EmbeddedBroker(jars, directory=home, properties=BROKER_CONFIG))
            fleet = Fleet(broker.bootstrap_servers, ledger, directory / "clients")
            watch = LogWatch(broker.log_file)
            over = threading.Event()
            try:
                admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
                _create_topics(admin)
                rates = {name: list(rate) for name, rate in TOPICS.items()}
                fleet.python("producer", "rig-producer", rates=rates)
                watch.start()
                world = World(fleet, ledger, admin, watch, jars, over)
                _play(world, random.Random(seed), seconds, names, libraries, parallel, say)
            finally:
                over.set()
                fleet.close()
                watch.stopped.set()
                if watch.is_alive():
                    watch.join()
        shutil.copy(broker.log_file, directory / "server.log")
        segments = directory / "segments"
        shutil.rmtree(segments, ignore_errors=True)
        for partition in broker.log_dirs[0].glob("__consumer_offsets-*"):
            shutil.copytree(partition, segments / partition.name)
    finally:
        ledger.close()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _utc() -> Iterator[None]:
    """What starts inside writes its log in UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before


def _play(
    world: World,
    dice: random.Random,
    seconds: float,
    names: Sequence[str],
    libraries: Sequence[str],
    parallel: int,
    say: Callable[[str], None],
) -> None:
    began = time.monotonic()
    lock = threading.Lock()
    weights = [PLAYS[name].weight for name in names]
    turns = cycle(libraries)
    # Each scenario once, then by weight.
    first = list(names)
    dice.shuffle(first)

    def draw() -> tuple[str, random.Random, str] | None:
        with lock:
            if time.monotonic() - began > seconds:
                return None
            name = first.pop() if first else dice.choices(names, weights)[0]
            library = next(turns) if PLAYS[name].any_library else LIBRDKAFKA
            return name, random.Random(dice.random()), library

    def actor() -> None:
        while (drawn := draw()) is not None:
            _perform(Stage(world, *drawn))

    actors = [threading.Thread(target=actor, daemon=True) for _ in range(parallel)]
    for thread in actors:
        thread.start()
        time.sleep(0.3)
    next_word = began + 30
    while any(thread.is_alive() for thread in actors):
        time.sleep(0.2)
        elapsed = time.monotonic() - began
        if elapsed > seconds + _MORE_S:
            world.over.set()
        if time.monotonic() > next_word:
            next_word += 30
            say(f"{elapsed:4.0f} s: {world.watch.completed} classic rebalances so far")


def _perform(stage: Stage) -> None:
    # JVMs take much of the machine: the group of one play at a time has them.
    slot = stage.world.java_slots if stage.library == "java" else nullcontext()
    try:
        with slot:
            PLAYS[stage.kind].act(stage)
    except PlayOverError:
        stage.note("cut_short")
    except Exception:  # noqa: BLE001 - other plays go on; the ledger says what failed
        stage.note("play_failed", text=traceback.format_exc())
    finally:
        stage.finish()


def _create_topics(admin: AdminClient) -> None:
    topics = {name: partitions for name, (partitions, _) in TOPICS.items()} | QUIET
    for created in admin.create_topics([NewTopic(name, count) for name, count in topics.items()]).values():
        created.result(30)
