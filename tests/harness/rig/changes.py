"""Plays of classic groups in which somebody changes something: members, subscriptions, topics, the group itself."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

from tests.harness.rig.fleet import Client
from tests.harness.rig.settings import COOPERATIVE, EAGER
from tests.harness.rig.stage import Stage
from tests.harness.rig.wire import member_ids, remove_members


def scale(stage: Stage) -> None:
    """Members join and leave properly, one or two at a time."""
    stage.begin()
    stage.gather(stage.dice.randint(1, 3))
    for _ in range(stage.dice.randint(2, 4)):
        stage.work(1, 6)
        if len(stage.clients) > 1 and stage.dice.random() < 0.55:
            for client in stage.dice.sample(stage.clients, stage.dice.choice((1, 1, 2))):
                stage.close(client)
        else:
            for _ in range(stage.dice.choice((1, 1, 2))):
                stage.join()
        stage.settle(len(stage.clients))


def cooperative(stage: Stage) -> None:
    """Cooperative-sticky groups grow and shrink: second rounds follow the first."""
    stage.begin(assignor=COOPERATIVE)
    stage.gather(stage.dice.randint(1, 2))
    for change in stage.dice.choice((("join", "join", "close"), ("join", "kill", "join"), ("join", "close", "join"))):
        stage.work(3, 8)
        if change == "join":
            stage.join()
        elif change == "close":
            stage.close(stage.dice.choice(stage.clients))
        else:
            stage.kill(stage.dice.choice(stage.clients))
        stage.settle(len(stage.clients))
    stage.work(3)


def cooperative_pair(stage: Stage) -> None:
    """A cooperative member joins, and just as the second round that follows is due another joins or leaves."""
    settings = stage.begin(assignor=COOPERATIVE)
    members = stage.gather(stage.dice.randint(4, 5))
    away: list[Client] = []

    def leave() -> None:
        client = stage.dice.choice([it for it in members if it not in away])
        stage.note("unsubscribe", client)
        client.tell("unsubscribe")
        away.append(client)

    def join() -> None:
        client = away.pop(stage.dice.randrange(len(away)))
        stage.note("subscribe", client)
        client.tell("subscribe", topics=list(settings.topics))

    for _ in range(5):
        for _ in range(stage.dice.choice((1, 2))):
            leave()
        stage.settle(len(members) - len(away))
        stage.work(1, 5)
        generation = stage.generation
        join()
        stage.outgrow(generation)
        stage.sleep(stage.dice.uniform(0, 0.4))
        stage.dice.choice((join, leave) if away else (leave,))()
        stage.settle(len(members) - len(away))
        stage.work(1, 3)
        while away:
            join()
        stage.settle(len(members))


def deploy(stage: Stage) -> None:
    """A rolling deploy: each member is replaced by a new one, which starts before or after the old one leaves."""
    stage.begin()
    stage.gather(stage.dice.randint(2, 3))
    stage.work(2)
    order = stage.dice.choice(("new first", "old first", "together"))
    gap = stage.dice.choice((0.0, 0.3, 2.0, 5.0))
    for old in list(stage.clients):
        if order == "new first":
            stage.join()
            stage.sleep(gap)
            stage.close(old)
        else:
            stage.close(old)
            stage.sleep(0 if order == "together" else gap)
            stage.join()
        if stage.dice.random() < 0.7:
            stage.settle(len(stage.clients))
            stage.sleep(stage.dice.uniform(0, 4))
    stage.work(2)


def static(stage: Stage) -> None:
    """Static members: bounced within the session timeout (no rebalance), the leader too; one is killed for good."""
    settings = stage.begin(session_ms=stage.dice.randrange(8000, 12_001, 500))
    instances = [f"{stage.group}-i{number}" for number in range(3)]
    holders = {instance: stage.join(instance=instance) for instance in instances}
    stage.settle(3)
    stage.work(3)
    for _ in range(stage.dice.randint(1, 2)):
        # The first that joined leads; others are followers.
        instance = stage.dice.choice(instances)
        stage.note("static_bounce", holders[instance], instance=instance)
        if stage.dice.random() < 0.5:
            stage.kill(holders[instance])
        else:
            stage.close(holders[instance])
            holders[instance].wait(10)
        stage.sleep(stage.dice.uniform(0, 2))
        holders[instance] = stage.join(instance=instance)
        stage.work(4, 8)
    victim = holders[stage.dice.choice(instances)]
    if stage.dice.random() < 0.6:
        stage.kill(victim)
    else:
        stage.close(victim)  # static members do not leave: it is away until its session ends
    stage.settle(2, settings.session_ms / 1000 + 30)
    stage.work()


def resubscribe(stage: Stage) -> None:
    """Members change what they subscribe to."""
    stage.begin(topics=("busy-six",), assignor=stage.dice.choice((*EAGER, COOPERATIVE)))
    stage.gather(stage.dice.randint(1, 3))
    for topics in stage.dice.choice(((["busy-six", "busy-four"],), (["wide"], ["busy-six", "lone-a"]))):
        stage.work(3, 7)
        client = stage.dice.choice(stage.clients)
        generation = stage.generation
        stage.note("resub", client, topics=topics)
        client.tell("subscribe", topics=topics)
        stage.outgrow(generation)
    stage.work(4)


def match(stage: Stage) -> None:
    """A subscription by pattern, and a new topic that matches."""
    admin = stage.world.admin
    first, second = f"match-{stage.group}-1", f"match-{stage.group}-2"
    admin.create_topics([NewTopic(first, 3)])[first].result(20)
    stage.begin(topics=(f"^match-{stage.group}-.*", "busy-four"))
    stage.gather(stage.dice.randint(1, 3))
    stage.work(3)
    generation = stage.generation
    stage.note("topic_matched", topic=second)
    admin.create_topics([NewTopic(second, 3)])[second].result(20)
    stage.outgrow(generation)
    stage.work(3)


def grow(stage: Stage) -> None:
    """Partitions are added to a topic of the group's own."""
    topic = f"grow-{stage.group}"
    admin = stage.world.admin
    admin.create_topics([NewTopic(topic, 4)])[topic].result(20)
    stage.begin(topics=(topic, "busy-six"))
    stage.gather(stage.dice.randint(1, 3))
    stage.work(3)
    generation = stage.generation
    stage.note("partitions_added", topic=topic, partitions=6)
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(20)
    stage.outgrow(generation)
    stage.work(3)


def removed_by_admin(stage: Stage) -> None:
    """An operator removes members, dynamic or static; those that live join again."""
    stage.begin()
    use_static = stage.dice.random() < 0.4
    for number in range(3):
        stage.join(instance=f"{stage.group}-i{number}" if use_static else None)
    stage.settle(3)
    stage.work(2)
    victim = stage.dice.choice(stage.clients)
    number = stage.clients.index(victim)
    generation = stage.generation
    stage.note("admin_remove", clients=[victim.name])
    if use_static:
        remove_members(stage.world.fleet.bootstrap, stage.group, [], [f"{stage.group}-i{number}"])
    else:
        ids = member_ids(stage.world.admin, stage.group, {victim.name})
        remove_members(stage.world.fleet.bootstrap, stage.group, list(ids), [])
    stage.outgrow(generation)
    stage.work(5)


def delete(stage: Stage) -> None:
    """The group empties and is deleted; sometimes it comes back."""
    stage.begin()
    stage.gather(stage.dice.randint(1, 2))
    stage.work(1, 4)
    for client in list(stage.clients):
        stage.close(client)
    stage.settle(0)
    stage.note("delete_group")
    try:
        stage.world.admin.delete_consumer_groups([stage.group])[stage.group].result(20)
    except KafkaException as refused:
        stage.note("refused", text=str(refused))
    if stage.dice.random() < 0.5:
        stage.sleep(1)
        stage.gather(1)
        stage.work(1, 4)


def unsubscribe(stage: Stage) -> None:
    """A member unsubscribes from everything, which is a leave, and subscribes again."""
    settings = stage.begin()
    members = stage.gather(2)
    stage.work(2)
    stage.note("unsubscribe", members[0])
    members[0].tell("unsubscribe")
    stage.settle(1)
    stage.work(1, 4)
    stage.note("subscribe", members[0])
    members[0].tell("subscribe", topics=list(settings.topics))
    stage.settle(2)
    stage.work()
