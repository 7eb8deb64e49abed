"""Random groups whose members come, go, and change their minds, as problems round after round."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from agent.core.protocol.assignors import Assignment
from tests.generate.kafka_assignors.asking import Form, Kafka, NoAnswerError, ours

KINDS = {
    # As tests name them: assignor, whether the coordinator's, all subscriptions alike.
    "range": ("range", False, None),
    "roundrobin": ("roundrobin", False, None),
    "sticky, alike": ("sticky", False, True),
    "sticky, not alike": ("sticky", False, False),
    "cooperative-sticky, alike": ("cooperative-sticky", False, True),
    "cooperative-sticky, not alike": ("cooperative-sticky", False, False),
    "uniform, alike": ("uniform", True, True),
    "uniform, not alike": ("uniform", True, False),
    "server's range": ("range", True, None),
}
ROUNDS = 4


class RandomGroup:
    """A group; `form` is what its assignor is asked now."""

    def __init__(self, kind: str, dice: random.Random, *, small: bool = False) -> None:
        self._assignor, self._server, alike = KINDS[kind]
        self._dice = dice
        self._alike = dice.random() < 0.5 if alike is None else alike
        size = 8 if small else dice.choice((3, 8, 40))
        names = dice.sample(("orders", "payments", "a.b", "t-1", "t-10", "t-2", "Zebra", "x_y", "geo", "fraud"), 10)
        self.partitions = {topic: dice.randint(1, size) for topic in names[: dice.randint(1, 3 if small else 6)]}
        self._names = names
        self._shared = self._some_topics()
        self.members: dict[str, Form] = {}
        self._generation = 1
        for _ in range(dice.randint(1, 6 if small else dice.choice((3, 10, 30)))):
            self._join()

    @property
    def form(self) -> Form:
        form: Form = {"assignor": self._assignor, "partitions": dict(self.partitions), "members": self.members}
        if self._server:
            form["server"] = True
        return form

    def settle(self, answer: Assignment) -> None:
        """Everybody has what it was given, in a new generation."""
        self._generation += 1
        self.members = {
            member_id: {
                **member,
                "owned": [list(slot) for slot in answer[member_id]],
                **({} if self._server else {"generation": self._generation}),
            }
            for member_id, member in self.members.items()
        }

    def change(self) -> None:
        """Something happens, or nothing."""
        dice = self._dice
        steps = [self._join, self._leave, self._grow, self._add_topic, self._nothing]
        if not self._alike:
            steps.append(self._other_topics)
        if self._assignor in ("sticky", "cooperative-sticky"):
            steps += [self._claim_twice, self._come_back_late]
        for _ in range(dice.randint(1, 3)):
            dice.choice(steps)()

    def _nothing(self) -> None:
        pass

    def _join(self) -> None:
        dice = self._dice
        member: Form = {"topics": self._shared if self._alike else self._some_topics(), "owned": []}
        member_id = f"{dice.choice(('app', 'größe', 'c'))}-{dice.randrange(100)}-{dice.getrandbits(64):016x}"
        if dice.random() < 0.2:
            member["instance_id"] = f"i-{dice.getrandbits(32)}"
        self.members = {**self.members, member_id: member}

    def _leave(self) -> None:
        for _ in range(self._dice.choice((1, 1, 1, len(self.members) // 2))):
            if len(self.members) > 1:
                gone = self._dice.choice(list(self.members))
                self.members = {member_id: it for member_id, it in self.members.items() if member_id != gone}

    def _grow(self) -> None:
        topic = self._dice.choice(list(self.partitions))
        self.partitions[topic] = min(40, self.partitions[topic] + self._dice.randint(1, 10))

    def _add_topic(self) -> None:
        topic = self._dice.choice(self._names)
        self.partitions.setdefault(topic, self._dice.randint(1, 10))
        if self._alike:
            self._shared = sorted({*self._shared, topic})
            self.members = {member_id: {**it, "topics": self._shared} for member_id, it in self.members.items()}

    def _other_topics(self) -> None:
        who = self._dice.choice(list(self.members))
        self.members = {**self.members, who: {**self.members[who], "topics": self._some_topics()}}

    def _claim_twice(self) -> None:
        """Two members say that they have the same, both now or one of them then."""
        if len(self.members) > 1:
            first, second = self._dice.sample(list(self.members), 2)
            theirs = self.members[first]["owned"]
            claimed = self._dice.sample(theirs, min(len(theirs), 3))
            mine = self.members[second]
            owned = [*mine["owned"], *(slot for slot in claimed if slot not in mine["owned"])]
            # What it has besides must be of its topics: Kafka's unequal algorithm moves to whoever says so.
            owned = [slot for slot in owned if slot[0] in mine["topics"]]
            generation = self._generation - self._dice.choice((0, 0, 1, 2))
            self.members = {**self.members, second: {**mine, "owned": owned, "generation": generation}}

    def _come_back_late(self) -> None:
        """A member missed the latest round."""
        who = self._dice.choice(list(self.members))
        self.members = {**self.members, who: {**self.members[who], "generation": self._generation - 1}}

    def _some_topics(self) -> list[str]:
        dice, topics = self._dice, list(self.partitions)
        some = dice.sample(topics, dice.randint(1, len(topics)))
        return sorted([*some, "no-such-topic"] if dice.random() < 0.05 else some)


def rounds(
    asked: Kafka, kind: str, groups: int, seed: object, *, small: bool = False
) -> Iterator[tuple[Form, Assignment | None]]:
    """Problems of one kind with Kafka's answers: None where its class has none, twice or so in 100,000 problems."""
    for number in range(groups):
        group = RandomGroup(kind, random.Random(f"{seed} {kind} {number}"), small=small)
        for _ in range(ROUNDS):
            form = group.form
            try:
                answer = asked.answer(form)
            except NoAnswerError as error:
                print(error)
                yield form, None
                break
            yield form, answer
            if not is_wanted(form, answer):
                break
            group.settle(answer)
            group.change()


def is_wanted(form: Form, answer: Assignment) -> bool:
    """Whether nobody gets what it does not subscribe to.

    Kafka's sticky assignors, with subscriptions that differ, give a partition back to whoever had it in an older
    generation without asking whether it still wants the topic.
    """
    return all(
        topic in form["members"][member_id]["topics"] for member_id in answer for topic, _ in answer[member_id]
    )


class Compared(NamedTuple):
    """How many answers are the same, of how many; how many more of Kafka's were not wanted, or none; the first
    others."""

    same: int
    total: int
    unwanted: int
    unanswered: int
    others: list[Form]


def compare(asked: Kafka, kind: str, groups: int, seed: object) -> Compared:
    """Ours and Kafka's answers."""
    total, unwanted, unanswered, others = 0, 0, 0, []
    for form, answer in rounds(asked, kind, groups, seed):
        if answer is None:
            unanswered += 1
            continue
        if not is_wanted(form, answer):
            unwanted += 1
            continue
        total += 1
        if ours(form) != answer:
            others.append(form)
    return Compared(total - len(others), total, unwanted, unanswered, others[:3])
