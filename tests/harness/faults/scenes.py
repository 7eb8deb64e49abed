"""The faults. Each is a scene with something that breaks, and gives a verdict."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from pathlib import Path

from agent.core.protocol.hashing import partition_for_group
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.scene import HISTORY, PARTITIONS, Scale, Scene, pause, scene
from tests.harness.faults.stage import fault
from tests.harness.faults.truth import Verdict, history, judge, log_of, snapshots_in_topic
from tests.live.scenarios.faults import TOPIC
from tests.waiting import until

KEPT, REPLICAS = "kshadow-snapshots", "kshadow-replicas"


@fault
def nothing(directory: Path, scale: Scale) -> Verdict:
    """No fault: the yardstick of the others."""
    with scene("nothing broken", directory, scale) as it:
        it.agent.start()
        return it.finish()


@fault
def killed(directory: Path, scale: Scale) -> Verdict:
    """kill -9 at random moments: while it starts, restores, catches up, keeps snapshots, sends events."""
    dice = random.Random(scale.seed)
    with scene(f"agent killed -9 {scale.times} times", directory, scale) as it:
        for _ in range(scale.times):
            it.agent.start()
            pause(dice.uniform(0.2, 1.5) if dice.random() < 0.3 else dice.uniform(1.5, 9))
            it.agent.kill()
        it.agent.start()
        verdict = it.finish()
        resumed = it.agent.log.read_text().count("go on from their snapshots")
        verdict.said += f"; {resumed} starts went on from snapshots"
        return verdict


@fault
def broker_restarted(directory: Path, scale: Scale) -> Verdict:
    """The broker is stopped and started: in good order, and by kill -9."""
    with scene(f"broker restarted {scale.times} times", directory, scale) as it:
        it.agent.come_up()
        for number in range(scale.times):
            pause(6)
            if number % 2:
                it.kafka.kill()
            it.kafka.restart()
        return it.finish()


@fault
def leaders_moved(directory: Path, scale: Scale) -> Verdict:
    """Every partition's leader moves from one broker to the other and back."""
    with scene(f"leaders moved {scale.times} times", directory, scale, nodes=2) as it:
        it.agent.come_up()
        for number in range(scale.times):
            pause(5)
            it.kafka.move_leaders(TOPIC, dict.fromkeys(range(PARTITIONS), 1 + number % 2))
        return it.finish()


@fault
def broker_lost(directory: Path, scale: Scale) -> Verdict:
    """One of two brokers is killed, and comes back."""
    with scene("one of two brokers killed", directory, scale, nodes=2) as it:
        it.agent.come_up()
        pause(5)
        it.kafka.brokers[1].kill()
        pause(10)
        it.kafka.brokers[1].restart()
        return it.finish()


@fault
def network_paused(directory: Path, scale: Scale) -> Verdict:
    """The broker is silent (SIGSTOP) for a while, more than once."""
    with scene(f"broker silent {scale.times} times 12 s", directory, scale) as it:
        it.agent.come_up()
        for _ in range(scale.times):
            pause(4)
            it.kafka.pause()
            pause(12)
            it.kafka.resume()
        return it.finish()


@fault
def agent_paused(directory: Path, scale: Scale) -> Verdict:
    """The agent itself stands still (SIGSTOP) for a while: as on a host that swaps, or a machine that is moved."""
    with scene(f"agent stopped {scale.times} times 10 s", directory, scale) as it:
        it.agent.come_up()
        for _ in range(scale.times):
            pause(4)
            it.agent.signal(signal.SIGSTOP)
            pause(10)
            it.agent.signal(signal.SIGCONT)
        return it.finish()


@fault
def sink_down(directory: Path, scale: Scale) -> Verdict:
    """The broker that has the history topic is away for most of the time, the one with the offsets topic is not; the
    agent is killed meanwhile, while events wait on disk.
    """
    with scene("history topic down", directory, scale, nodes=2) as it:
        away = it.history_apart()
        it.agent.come_up()
        it.wait_events(1)
        away.kill()
        pause(scale.seconds / 2)
        ready = it.agent.get("/readyz")
        it.note(f"{it.total('kshadow_history_buffered_events'):.0f} events waited after {scale.seconds / 2:.0f} s")
        it.note(f"/readyz {ready[0]} {ready[1].decode().strip()[:160]}")
        it.agent.kill()
        it.agent.come_up()
        pause(5)
        it.note(f"{it.total('kshadow_history_buffered_events'):.0f} after a kill -9")
        away.restart()
        return it.finish()


@fault
def disk_full(directory: Path, scale: Scale) -> Verdict:
    """The state directory is full for a while and the history topic away, so that neither snapshots nor spool can be
    written; the agent is killed meanwhile.
    """
    state = directory / "state"
    state.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(state)], check=True)
    try:
        with scene("disk full", directory, scale, nodes=2) as it:
            away = it.history_apart()
            it.agent.come_up()
            pause(8)
            ballast = state / "ballast"
            away.kill()
            for _ in range(4):
                # What the agent gives up in between is taken, too.
                _fill(ballast)
                pause(2)
            it.note(f"failed writes {it.total('kshadow_snapshot_writes_total', 'failed'):.0f}")
            it.note(f"{it.total('kshadow_history_buffered_events'):.0f} events waited")
            it.agent.kill()
            it.agent.come_up()
            pause(5)
            ballast.unlink()
            away.restart()
            return it.finish()
    finally:
        subprocess.run(["umount", "-l", str(state)], check=False)


@fault
def clock_jumped(directory: Path, scale: Scale) -> Verdict:
    """The clock on the wall is set an hour ahead, a day back, and right again, while the steady one runs on.

    Of Python only: what sets it for the C library as well, libfaketime 0.9.10, breaks Python's `time.sleep`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    clock = directory / "clock"
    clock.write_text("0")
    with scene(f"clock jumped {4 * scale.times} times", directory, scale) as it:
        it.agent.module = "tests.harness.faults.skewed"
        it.agent.come_up(KSHADOW_TEST_CLOCK=str(clock))
        for number in range(scale.times):
            for ahead_s in (3600, -86_400, -90, 0):
                pause(3)
                clock.write_text(str(ahead_s))
            pause(2)
            if number % 2:
                it.agent.kill()
                it.agent.start(KSHADOW_TEST_CLOCK=str(clock))
                clock.write_text("7200")
        return it.finish()


@fault
def fenced(directory: Path, scale: Scale) -> Verdict:
    """Another agent comes with this one's instance id, as when a node is cut off and its pod is made anew."""
    spared = partition_for_group(REPLICAS, PARTITIONS)
    with scene(f"consumer fenced {scale.times} times", directory, scale, state=False, spared=spared) as it:
        agents = [_replica(it, directory, name, "the-same") for name in ("one", "two")]
        codes = []
        try:
            agents[0].come_up()
            for number in range(scale.times):
                pause(5)
                old, new = agents[number % 2], agents[1 - number % 2]
                new.come_up()
                # It says that it is blind and shows nothing; whoever runs it ends it.
                until(lambda old=old: old.get("/healthz")[0] == 503, 60, old.tail)  # type: ignore[misc]
                assert not old.groups(10)
                codes.append(old.stop())
                until(lambda new=new: new.owned() == PARTITIONS, 60, new.tail)  # type: ignore[misc]
            assert it.playing.wait(600) == 0
            new.wait_level()
        finally:
            codes += [agent.stop() for agent in agents if agent.is_running]
        it.note(f"exit codes {codes}")
        return _shared_verdict(it)


@fault
def replicas(directory: Path, scale: Scale) -> Verdict:
    """Two agents share the partitions; one is killed and comes back, the other stands still longer than a session.

    All the while both are scraped: no group may be shown by both twice in a row.
    """
    spared = partition_for_group(REPLICAS, PARTITIONS)
    with scene("two replicas, one killed, one stopped", directory, scale, state=False, spared=spared) as it:
        both = [_replica(it, directory, name, name) for name in ("one", "two")]
        one, two = both
        scrapes = Scrapes(both)
        try:
            one.come_up()
            two.come_up()
            scrapes.start()
            until(lambda: all(0 < it.owned() < PARTITIONS for it in both), 60, one.tail)
            pause(5)
            one.kill()
            until(lambda: two.owned() == PARTITIONS, 60, two.tail)
            one.come_up()
            until(lambda: one.owned() > 0, 60, one.tail)
            two.signal(signal.SIGSTOP)
            until(lambda: one.owned() == PARTITIONS, 60, one.tail)
            two.signal(signal.SIGCONT)
            until(lambda: two.owned() > 0, 60, two.tail)
            assert it.playing.wait(600) == 0
            until(lambda: sum(it.behind() for it in both) == 0, 60, one.tail)
            pause(2)
        finally:
            scrapes.stop()
            codes = [it.stop() for it in both if it.is_running]
        it.note(f"exit codes {codes}")
        it.note(
            f"{scrapes.made} scrapes of both, {scrapes.overlaps} with a group in both, {scrapes.longest} in a row"
        )
        verdict = _shared_verdict(it)
        if scrapes.longest > 1:
            verdict.different.append(-1)
        return verdict


def _replica(it: Scene, directory: Path, name: str, instance_id: str) -> AgentProcess:
    return AgentProcess(
        directory,
        *("--bootstrap-server", it.servers, "--no-admin", "--no-lag", "--history-topic", HISTORY),
        *("--share-group", REPLICAS, "--share-instance-id", instance_id, "--snapshots", f"kafka:{KEPT}"),
        *("--snapshot-interval", "2s", "--state-dir", str(directory / name)),
        name=name,
    )


def _shared_verdict(it: Scene) -> Verdict:
    log = log_of(it.servers)
    blobs = snapshots_in_topic(it.servers, KEPT, log[0].cluster_id, PARTITIONS)
    verdict = judge(it.name, it.servers, blobs, history(it.servers, HISTORY), log=log)
    verdict.said = "; ".join(it.notes)
    return verdict


class Scrapes(threading.Thread):
    """Scrapes agents at once, again and again, and looks for groups that two of them show."""

    def __init__(self, agents: list[AgentProcess]) -> None:
        super().__init__(daemon=True)
        self._agents, self._ending = agents, threading.Event()
        self.made = self.overlaps = self.longest = 0

    def run(self) -> None:
        row = 0
        while not self._ending.wait(0.5):
            seen = [agent.groups(2.0) for agent in self._agents]
            self.made += 1
            row = row + 1 if set.intersection(*seen) else 0
            self.overlaps += row > 0
            self.longest = max(self.longest, row)

    def stop(self) -> None:
        self._ending.set()
        self.join(20)


def _fill(file: Path) -> None:
    try:
        with file.open("ab", buffering=0) as it:
            while True:
                it.write(b"\0" * 4096)
    except OSError:
        pass
