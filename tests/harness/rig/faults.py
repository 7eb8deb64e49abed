"""Plays of classic groups in which something goes wrong: members die, freeze, or stay away from poll.

A play is a function of a `Stage`: a group that lives for half a minute and has one fault. Members left at its end
are closed by the rig. What a play does is named in the ledger in the words of `ledger`; what follows from it is the
broker's business.
"""

from __future__ import annotations

from tests.harness.rig.fleet import Client
from tests.harness.rig.stage import Stage


def crash(stage: Stage) -> None:
    """kill -9 of one or two members; sometimes they come back, once they are gone."""
    stage.begin()
    members = stage.gather(stage.dice.randint(2, 4))
    stage.work()
    dead = stage.dice.sample(members, stage.dice.choice((1, 1, min(2, len(members) - 1))))
    for client in dead:
        stage.kill(client)
        stage.sleep(stage.dice.choice((0, 0, 1.5)))
    stage.settle(len(stage.clients))
    stage.work()
    if stage.dice.random() < 0.5:
        stage.join()
        stage.settle(len(stage.clients))
        stage.work()


def freeze(stage: Stage) -> None:
    """SIGSTOP for longer than the session timeout, then SIGCONT: the member is thrown out and comes back."""
    stage.begin()
    members = stage.gather(stage.dice.randint(2, 3))
    stage.work(3)
    client = stage.dice.choice(members)
    stage.freeze(client)
    stage.settle(len(members) - 1)
    stage.sleep(stage.dice.uniform(0.5, 6))
    stage.thaw(client)
    stage.settle(len(members))
    stage.work(3)


def stall(stage: Stage) -> None:
    """A member stays away from poll for longer than `max.poll.interval.ms`, then goes on under the same client id."""
    settings = stage.begin(session_ms=6000, poll_ms=stage.dice.randrange(8000, 14_001, 500))
    members = stage.gather(stage.dice.randint(2, 3))
    stage.work(2)
    for client in stage.dice.sample(members, stage.dice.choice((1, 1, 2))):
        stage.stall(client, settings.poll_ms / 1000 + stage.dice.uniform(2, 6))
        stage.sleep(stage.dice.choice((0, 2)))
    stage.until(lambda: stage.world.watch.size(stage.group)[1] < len(members), 30)
    stage.settle(len(members))
    stage.work(2)


def stall_like_crash(stage: Stage) -> None:
    """The hard case: `max.poll.interval.ms` equals the session timeout; one member stalls, another is killed."""
    same = stage.dice.randrange(8000, 10_001, 500)
    stage.begin(session_ms=same, poll_ms=same)
    members = stage.gather(3)
    stage.work(2)
    first, second = stage.dice.sample(members, 2)
    if stage.dice.random() < 0.5:
        stage.kill(first)
        stage.settle(2)
        stage.work(2)
    stage.stall(second, same / 1000 + stage.dice.uniform(2, 5))
    size = len(stage.clients)
    stage.until(lambda: stage.world.watch.size(stage.group)[1] < size, 30)
    stage.settle(size)
    stage.work()


def slow(stage: Stage) -> None:
    """A member is slow to poll, within the limit, while another joins: a long join phase, and nobody goes."""
    settings = stage.begin(work_s=0)
    members = stage.gather(2)
    stage.work(1, 4)
    stage.stall(members[0], settings.poll_ms / 1000 * stage.dice.uniform(0.4, 0.7))
    stage.sleep(1)
    stage.join()
    stage.settle(3)
    stage.work(2)
    stage.close(stage.dice.choice(stage.clients))
    stage.settle(2)


def crash_loop(stage: Stage) -> None:
    """One member is killed soon after each start and restarted by its supervisor."""
    stage.begin(session_ms=6000)
    stage.gather(stage.dice.randint(1, 2))
    name = f"{stage.group}-loop"
    for _ in range(stage.dice.randint(3, 4)):
        client = stage.join(name=name)
        stage.sleep(stage.dice.uniform(3, 9))
        stage.kill(client)
        stage.sleep(stage.dice.uniform(0.5, 4))
    stage.settle(len(stage.clients))
    stage.work()


def crash_and_join(stage: Stage) -> None:
    """A member dies, and before its session ends another joins: the join phase waits for the dead one."""
    settings = stage.begin()
    members = stage.gather(stage.dice.randint(2, 3))
    stage.work(2)
    stage.kill(stage.dice.choice(members))
    stage.sleep(stage.dice.uniform(0, settings.session_ms / 1000 * 0.7))
    stage.join()
    stage.settle(len(members))
    stage.work(2)


def mixed(stage: Stage) -> None:
    """Several things within one rebalance: one is killed, one closes, one joins, in random order."""
    stage.begin(poll_ms=20_000)
    stage.gather(4)
    stage.work(2)

    def join(_: Client) -> None:
        stage.join()

    deeds = [stage.kill, stage.close, join]
    stage.dice.shuffle(deeds)
    for deed in deeds[: stage.dice.randint(2, 3)]:
        deed(stage.dice.choice(stage.clients))
        stage.sleep(stage.dice.uniform(0, 2))
    stage.settle(len(stage.clients))
    stage.work(2)


def idle(stage: Stage) -> None:
    """More members than partitions: some hold nothing, and leave no trace when they go."""
    stage.begin(topics=("lone-a", "lone-b"), assignor="range", session_ms=6000)
    stage.gather(3)
    stage.work(2, 6)
    for _ in range(2):
        stage.dice.choice((stage.kill, stage.close))(stage.dice.choice(stage.clients))
        stage.settle(len(stage.clients))
        stage.work(1, 4)
