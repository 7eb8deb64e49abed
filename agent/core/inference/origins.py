"""What happened to the pod of a member that left or joined: the one table of origins, and who is asked for them.

A cause says what the broker saw (`agent.core.causes`), an origin what Kubernetes did or saw. An `OriginSource` only
answers what it is asked, from memory, so the mirror stays a pure function of the records and of the answers. What is
not known is None, never guessed. All texts of an `Origin` come from strangers: whoever shows them cleans them.

To add a kind: a row of `OriginKind`, and the rule of the source that tells it. Schemas, sentences, metrics' labels,
dashboards and docs/reference/events.md are derived from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from msgspec import Struct

from agent.core.causes import Cause

if TYPE_CHECKING:  # views of groups have origins
    from agent.core.shadow.views import Member

MAX_MESSAGE_CHARACTERS = 200
"""How long an origin's `message` may be."""

LIMIT_WORDS = "at its memory limit of "
GRACE_WORDS = "its grace period of "
PROBE_WORDS = "probe failed"
"""How a message says what value was in force: whoever writes it takes the words, and `Origin` reads the value."""


class OriginInfo(Struct, frozen=True, kw_only=True):
    """What is said of a kind of origin."""

    words: str
    """A word or two, as the field says it; `{exit_code}` is put in by `Origin.words`."""
    went: tuple[str, str]
    """How it is said of one member and of several: `it …`, `they …`; `{exit_code}` as in `words`."""
    about: str
    """A sentence for the reference."""
    is_departure: bool = True
    """Whether a member may have left by it."""
    is_join: bool = False
    """Whether a member may have joined by it."""
    is_planned: bool = False
    """Whether somebody, or a controller, wanted it: then a departure needs no advice unless it was unclean."""
    is_trouble: bool = False
    """Whether a departure by it is told of first, and something is to be done about it."""
    contradicts: tuple[Cause, ...] = ()
    """Causes that a departure by it cannot have: the process was gone, and did what only a live one does."""
    plot_color: str = "#999999"
    """In plots and dashboards."""


class OriginKind(StrEnum):
    """Every kind of the contract, in its order; `info` is its row."""

    info: OriginInfo

    def __new__(cls, name: str, info: OriginInfo) -> Self:
        """A row: the name in events, metrics and options, and what is said of it."""
        kind = str.__new__(cls, name)
        kind._value_, kind.info = name, info
        return kind

    OOM_KILLED = (
        "oom_killed",
        OriginInfo(
            words="OOM-killed",
            went=("was OOM-killed", "were OOM-killed"),
            about="The kernel killed the container at its memory limit.",
            is_trouble=True,
            contradicts=(Cause.MEMBER_LEFT, Cause.POLL_TIMEOUT, Cause.REJOIN_TIMEOUT),
            plot_color="#D55E00",
        ),
    )
    EXITED = (
        "exited",
        OriginInfo(
            words="exited with code {exit_code}",
            went=("exited with code {exit_code}", "exited with code {exit_code}"),
            about="The container's process ended by itself; `exit_code` is its exit code.",
            is_trouble=True,
            plot_color="#AA3377",
        ),
    )
    LIVENESS_KILLED = (
        "liveness_killed",
        OriginInfo(
            words="killed by its liveness probe",
            went=("was killed by its liveness probe", "were killed by their liveness probes"),
            about="The kubelet restarted the container because its liveness or startup probe failed.",
            is_trouble=True,
            plot_color="#E69F00",
        ),
    )
    EVICTED = (
        "evicted",
        OriginInfo(
            words="evicted",
            went=("was evicted", "were evicted"),
            about="The kubelet or the eviction API removed the pod; `message` says by what.",
            is_trouble=True,
            plot_color="#CC79A7",
        ),
    )
    PREEMPTED = (
        "preempted",
        OriginInfo(
            words="preempted",
            went=("was preempted", "were preempted"),
            about="The scheduler removed the pod for one of a higher priority.",
            is_trouble=True,
            plot_color="#F0E442",
        ),
    )
    NODE_LOST = (
        "node_lost",
        OriginInfo(
            words="node lost",
            went=("lost its node", "lost their nodes"),
            about="The pod's node stopped reporting, or was deleted.",
            is_trouble=True,
            contradicts=(Cause.MEMBER_LEFT, Cause.POLL_TIMEOUT, Cause.REJOIN_TIMEOUT),
            plot_color="#AAAA00",
        ),
    )
    DRAINED = (
        "drained",
        OriginInfo(
            words="drained",
            went=("was drained from its node", "were drained from their nodes"),
            about="The pod was removed because its node was drained.",
            is_planned=True,
            plot_color="#56B4E9",
        ),
    )
    SCALED_DOWN = (
        "scaled_down",
        OriginInfo(
            words="scaled down",
            went=("was scaled down", "were scaled down"),
            about="The workload was given fewer replicas; `message` says by whom: HPA, KEDA, a hand.",
            is_planned=True,
            plot_color="#0072B2",
        ),
    )
    SCALED_UP = (
        "scaled_up",
        OriginInfo(
            words="scaled up",
            went=("was scaled up", "were scaled up"),
            about="The workload was given more replicas, and this is one of them.",
            is_departure=False,
            is_join=True,
            is_planned=True,
            plot_color="#009E73",
        ),
    )
    ROLLED_OUT = (
        "rolled_out",
        OriginInfo(
            words="rolled out",
            went=("was replaced by a rollout", "were replaced by a rollout"),
            about="The workload has another revision: pods of the old one leave, pods of `revision` join.",
            is_join=True,
            is_planned=True,
            plot_color="#BBCC33",
        ),
    )
    RESTARTED = (
        "restarted",
        OriginInfo(
            words="restarted",
            went=("was restarted", "were restarted"),
            about="The container, or a pod of the same revision in the place of another, was started again.",
            is_departure=False,
            is_join=True,
            plot_color="#DDDDDD",
        ),
    )
    DELETED = (
        "deleted",
        OriginInfo(
            words="deleted",
            went=("was deleted", "were deleted"),
            about="Somebody deleted the pod, and no controller wanted it gone.",
            plot_color="#FFAABB",
        ),
    )


KINDS = tuple(OriginKind)
"""All kinds of origins, as names."""

_INFO = {str(kind): kind.info for kind in OriginKind}


def origin_info(kind: str) -> OriginInfo:
    """The row of a kind in an event; one that is not known here is called by its name."""
    words = kind.replace("_", " ")[:40]
    return _INFO.get(kind) or OriginInfo(words=words, went=(f"was {words}", f"were {words}"), about="", is_join=True)


def origin_words(kind: str, exit_code: int | None = None) -> str:
    """The short words of an origin: `OOM-killed`, `exited with code 1`; `exited` where the code is not known."""
    return _with_code(origin_info(kind).words, exit_code)


def origin_went(kind: str, exit_code: int | None = None, *, of_many: bool = False) -> str:
    """How a sentence says it of a pod, or of several: `was OOM-killed`, `exited with code 1`."""
    return _with_code(origin_info(kind).went[of_many], exit_code)


def _with_code(words: str, exit_code: int | None) -> str:
    if "{exit_code}" not in words:
        return words
    return words.replace("{exit_code}", str(exit_code)) if exit_code is not None else words.split(" with ", 1)[0]


def contradicts(cause: str, kind: str) -> bool:
    """Whether a member that left by this cause cannot have had this origin: one of the two is wrong."""
    return cause in origin_info(kind).contradicts


class Origin(Struct, frozen=True, kw_only=True):
    """What happened to a pod or a container, as far as Kubernetes tells.

    `kind` is one of `KINDS`; `at_ms` when it happened, epoch milliseconds. `workload` is its kind and name
    (`Deployment/payments`), `revision` the one it is of now, as short as Kubernetes shows it. `message` is one plain
    sentence of evidence, at most `MAX_MESSAGE_CHARACTERS` long. None: not known, or not of this kind.
    """

    kind: str
    at_ms: int
    namespace: str
    pod: str
    container: str | None
    node: str | None
    workload: str | None
    revision: str | None
    exit_code: int | None
    message: str

    @property
    def words(self) -> str:
        """A word or two: see `origin_words`."""
        return origin_words(self.kind, self.exit_code)

    @property
    def is_trouble(self) -> bool:
        """Whether something is to be done about it. A process that ended with code 0 had nothing left to do."""
        return origin_info(self.kind).is_trouble and not (self.kind == OriginKind.EXITED and self.exit_code == 0)

    @property
    def limit(self) -> str | None:
        """The memory limit that was in force (`512Mi`), as far as the message tells."""
        return _value(_LIMIT, self.message)

    @property
    def grace(self) -> str | None:
        """The grace period that ran out (`30 s`), as far as the message tells."""
        return _value(_GRACE, self.message)

    @property
    def probe(self) -> str | None:
        """The settings of the probe that failed (`every 10 s, 3 times`), as far as the message tells."""
        return _value(_PROBE, self.message)


_LIMIT = re.compile(re.escape(LIMIT_WORDS) + r"([0-9][0-9.]{0,15}[A-Za-z]{0,2})(?![0-9A-Za-z])")
_GRACE = re.compile(re.escape(GRACE_WORDS) + r"([0-9]{1,9} s)\b")
_PROBE = re.compile(re.escape(PROBE_WORDS) + r" \(([0-9A-Za-z, ]{1,80})\)")


def _value(pattern: re.Pattern[str], message: str) -> str | None:
    found = pattern.search(message)
    return None if found is None else found[1]


class OriginSource(Protocol):
    """Who may know what happened to a member's pod. Answers are immediate, from memory; None: it is not known."""

    @property
    def is_behind(self) -> bool:
        """Whether it may not have heard yet of what happened just now, as its own source is away."""

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        """Why the pod of a member went. `departed_ms` is when it went, as inferred (of a session timeout about its
        last sign of life; None: not known), `shown_ms` when the topic showed that it had gone."""

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        """Why the pod of a member came, that the topic showed at `shown_ms`."""


class OriginQuestion(NamedTuple):
    """What a source is asked of one member that came or went; times as `OriginSource` has them."""

    member: Member
    has_left: bool
    departed_ms: int | None
    shown_ms: int

    def ask(self, source: OriginSource) -> Origin | None:
        """The source's answer as of now."""
        if self.has_left:
            return source.departure_origin(self.member, self.departed_ms, self.shown_ms)
        return source.join_origin(self.member, self.shown_ms)


class MemberOrigins:
    """Origins of the members that one record showed to come or go.

    Kubernetes may tell why a container ended a second after the topic shows that its member left: so the source is
    asked again until this `is_settled`. All transitions of the record share it, and nobody changes it afterwards.
    """

    __slots__ = ("_answers", "_questions", "is_settled")

    def __init__(self) -> None:
        self._questions: dict[str, OriginQuestion] = {}
        self._answers: dict[str, Origin] = {}
        self.is_settled = False

    def put(self, question: OriginQuestion, answer: Origin | None) -> None:
        """Take a question of one more member, with the answer of now."""
        self._questions[question.member.member_id] = question
        if answer is not None:
            self._answers[question.member.member_id] = answer

    def get(self, member_id: str) -> Origin | None:
        """The origin of one member; None: not known, or not of this record."""
        return self._answers.get(member_id)

    def has(self, member_id: str) -> bool:
        """Whether the member's question was put already."""
        return member_id in self._questions

    def ask_again(self, source: OriginSource) -> bool:
        """Take the newest answers, and say whether one changed. What was known stays where the source has forgotten
        it."""
        assert not self.is_settled, "what was told stays"
        before = dict(self._answers)
        for question in self._questions.values():
            self.put(question, question.ask(source))
        return self._answers != before

    def answers(self) -> Iterator[tuple[OriginQuestion, Origin]]:
        """Every member whose origin is known."""
        return ((self._questions[name], origin) for name, origin in list(self._answers.items()))
