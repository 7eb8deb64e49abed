"""Plays of KIP-848 and share groups, and of Java clients (console consumer, Streams), whose manners differ."""

from __future__ import annotations

from collections.abc import Mapping

from agent.tools.embedded import fetch_tools
from tests.harness.rig.fleet import Client
from tests.harness.rig.settings import GroupSettings
from tests.harness.rig.stage import Stage

_WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
_EXTRA = tuple(f"org.apache.kafka:{name}" for name in ("kafka-streams-examples", "connect-runtime", "connect-file"))
"""One of these is what is wanted; these three are what the integration tests have in the cache already."""

_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def consumer_protocol(stage: Stage) -> None:
    """A KIP-848 group: members join, leave, are killed, stall."""
    settings = stage.begin(protocol="consumer", assignor="", poll_ms=8000, session_ms=6000)
    for _ in range(3):
        stage.join()
        stage.sleep(stage.dice.uniform(0, 2))
    stage.work(5, 8)
    for deed in stage.dice.sample(("kill", "close", "join", "stall"), 2):
        client = stage.dice.choice(stage.clients)
        match deed:
            case "kill":
                stage.kill(client)
                stage.sleep(7)
            case "close":
                stage.close(client)
            case "join":
                stage.join()
            case _:
                stage.stall(client, settings.poll_ms / 1000 + 4)
                stage.sleep(settings.poll_ms / 1000 + 5)
        stage.work(4, 8)


def consumer_protocol_static(stage: Stage) -> None:
    """A KIP-848 group of static members: one is bounced, one is killed, one stays away."""
    stage.begin(protocol="consumer", assignor="", session_ms=6000)
    holders = [stage.join(instance=f"{stage.group}-i{number}") for number in range(3)]
    stage.work(6, 9)
    stage.note("static_bounce", holders[0], instance=f"{stage.group}-i0")
    stage.close(holders[0])
    holders[0].wait(10)
    stage.sleep(stage.dice.uniform(0, 3))
    stage.join(instance=f"{stage.group}-i0")
    stage.work(4, 6)
    stage.dice.choice((stage.kill, stage.close))(holders[1])
    stage.sleep(8)


def java_console(stage: Stage) -> None:
    """Three Java console consumers: one is killed, one is stopped properly."""
    jars = fetch_tools(stage.world.jars.version)
    with stage.world.java_slots:
        settings = stage.begin(
            assignor="", topics=("busy-six",), commit="auto", commit_s=stage.dice.choice((0.5, 2, 5))
        )
        properties = {
            "session.timeout.ms": settings.session_ms,
            "heartbeat.interval.ms": settings.heartbeat_ms,
            "max.poll.interval.ms": settings.poll_ms,
            "auto.commit.interval.ms": round(settings.commit_s * 1000),
        }
        members = []
        for number in range(3):
            name = f"{stage.group}-j{number}"
            # 4.2 renamed the option and keeps the old name until 5.0.
            arguments = [
                "--bootstrap-server",
                stage.world.fleet.bootstrap,
                "--topic",
                "busy-six",
                "--group",
                stage.group,
            ]
            for key, value in {**properties, "client.id": name}.items():
                arguments += ["--consumer-property", f"{key}={value}"]
            stage.world.ledger.note("join", stage.group, name, java=True)
            client = stage.world.fleet.java(name, stage.group, jars, _CONSOLE, arguments)
            members.append(client)
            stage.clients.append(client)
        stage.settle(3, 60)
        stage.work(3)
        victim, leaver, last = stage.dice.sample(members, 3)
        stage.kill(victim)
        stage.settle(2)
        stage.work(2)
        for client in (leaver, last):
            stage.close(client)
            client.wait(10)
            stage.work(2, 4)


def migrate(stage: Stage) -> None:
    """A classic group becomes a KIP-848 group when a member of the new protocol joins, and sometimes goes back."""
    stage.begin(assignor="range", poll_ms=20_000, session_ms=6000)
    old = stage.gather(stage.dice.randint(1, 2))
    stage.work(3, 6)
    stage.note("upgrade")
    new = stage.join(protocol="consumer")
    stage.sleep(8)
    stage.work(2, 5)
    for client in [new] if stage.dice.random() < 0.5 else old:
        stage.close(client)
        stage.work(2, 5)
    stage.work(4, 8)


def share(stage: Stage) -> None:
    """A share group: members join, one leaves, one is killed."""
    stage.begin(protocol="share", topics=("busy-six",))
    members = [stage.join_share() for _ in range(3)]
    stage.work(6, 9)
    first, second = stage.dice.sample(members, 2)
    stage.close(first)
    stage.work(2, 4)
    stage.kill(second)
    stage.sleep(9)


def streams(stage: Stage) -> None:
    """Two instances of a Kafka Streams application (classic protocol): one is killed, one is stopped properly."""
    with stage.world.java_slots:
        settings = stage.begin(
            assignor="", topics=("streams-plaintext-input",), commit="auto", commit_s=2, poll_ms=15_000
        )
        members = []
        for number in range(2):
            timeouts = {"session.timeout.ms": settings.session_ms, "heartbeat.interval.ms": settings.heartbeat_ms}
            members.append(_word_count(stage, settings, timeouts))
            stage.settle(number + 1, 60)
        stage.work(6)
        victim, last = stage.dice.sample(members, 2)
        stage.kill(victim)
        stage.settle(1)
        stage.work(4)
        stage.close(last)
        last.wait(10)
        stage.settle(0)


def streams_protocol(stage: Stage) -> None:
    """Three instances of one (KIP-1071): one is killed, one is stopped properly, one is frozen for long."""
    with stage.world.java_slots:
        settings = stage.begin(
            protocol="streams", assignor="", topics=("streams-plaintext-input",), commit="auto", commit_s=2
        )
        members = [_word_count(stage, settings, {"group.protocol": "streams"}) for _ in range(3)]
        stage.sleep(25)
        victim, last, frozen = stage.dice.sample(members, 3)
        stage.kill(victim)
        stage.sleep(15)
        stage.freeze(frozen)
        stage.sleep(12)
        stage.thaw(frozen)
        stage.sleep(20)
        stage.close(last)
        last.wait(10)
        stage.sleep(12)


def _word_count(stage: Stage, settings: GroupSettings, more: Mapping[str, object]) -> Client:
    """Start an instance of Kafka's own example."""
    jars = fetch_tools(stage.world.jars.version, extra=_EXTRA)
    name = f"{stage.group}-{stage.letter()}"
    home = stage.world.fleet.directory / name
    home.mkdir()
    properties = {
        "application.id": stage.group,
        "client.id": name,
        "bootstrap.servers": stage.world.fleet.bootstrap,
        "state.dir": str(home),
        "commit.interval.ms": round(settings.commit_s * 1000),
        "max.poll.interval.ms": settings.poll_ms,
        **more,
    }
    file = home / "streams.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    stage.world.ledger.note("join", stage.group, name, java=True)
    client = stage.world.fleet.java(name, stage.group, jars, _WORD_COUNT, [str(file)])
    stage.clients.append(client)
    return client
