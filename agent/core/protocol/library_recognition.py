"""Which client library a member uses, by what it wrote as it joined.

A library's made-up client id tells it at once, where the form of what it wrote does not speak against it. People
mostly set one of their own, so form alone must tell too: versions, nulls and empty bytes differ where the protocol
leaves them free. Two libraries that write alike are `UNKNOWN`, never a guess. The forms are the libraries' own, read
in their sources and held against captures of real clients (docs/accuracy.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from agent.common.interning import Interner
from agent.core.protocol.client_libraries import UNKNOWN

EAGER_ASSIGNORS = ("range", "roundrobin")
COOPERATIVE = "cooperative-sticky"


class JoinForm(NamedTuple):
    """The form of what a classic member joined with, and of the assignment that its leader made for it.

    `subscription_version` as written and `fields_version` up to which its fields are there; `user_data` and `rack_id`
    None where they are null. Of the assignment None where there is none.
    """

    subscription_version: int
    fields_version: int
    user_data: bytes | None
    rack_id: str | None
    assignment_version: int | None = None

    @property
    def ends_early(self) -> bool:
        """Whether it lacks fields that its version has."""
        return self.fields_version < self.subscription_version


class ClientTraits(NamedTuple):
    """What the log shows of one member of a classic group, as far as it tells a library. Timeouts are milliseconds;
    `form` is None where its bytes are no consumer's; `commits_metadata`: its group is known to write something beside
    its offsets."""

    client_id: str
    group: str
    protocol_type: str | None
    protocol: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    form: JoinForm | None
    commits_metadata: bool = False


class Recognition(NamedTuple):
    """A library's name, `UNKNOWN` where nothing tells, and by what it was told."""

    library: str
    evidence: str = ""


NOT_RECOGNIZED: Final = Recognition(UNKNOWN)

_Rule = Callable[[ClientTraits, JoinForm], bool]


# What each library writes: whether a form is one of its own, and of no other that is known.


def _is_java(it: ClientTraits, form: JoinForm) -> bool:
    """User data null, or a generation alone for the cooperative assignor; its leader assigns in the same version,
    1 (2.4) or newer."""
    if form.ends_early or form.subscription_version < 1 or form.assignment_version != form.subscription_version:
        return False
    if it.protocol == COOPERATIVE:
        return form.user_data is not None and len(form.user_data) == 4 and form.user_data != bytes(4)
    return it.protocol in EAGER_ASSIGNORS and form.user_data is None


def _is_librdkafka(it: ClientTraits, form: JoinForm) -> bool:
    """User data empty and never null, all fields of its version; from 3 on a rack that is empty and never null."""
    if form.ends_early or form.subscription_version < 1 or form.user_data is None:
        return False
    if form.subscription_version >= 3:
        return form.rack_id is not None and (
            form.user_data == b"" or (not form.rack_id and not form.assignment_version)
        )
    return it.protocol in EAGER_ASSIGNORS and form.user_data == b""


def _is_sarama(it: ClientTraits, form: JoinForm) -> bool:
    """User data null, version 1 or 0, assignments in version 0. (Java's goes with assignments of version 1.)"""
    if form.ends_early or form.user_data is not None or form.assignment_version != 0:
        return False
    if form.subscription_version == 1:
        return it.protocol in EAGER_ASSIGNORS and it.rebalance_timeout_ms != JAVA_MAX_POLL_INTERVAL_MS
    # ruby-kafka writes the same for its one assignor, `roundrobin`, but nothing beside its offsets.
    may_be_ruby_kafka = it.protocol == "roundrobin" and not it.commits_metadata
    return form.subscription_version == 0 and it.protocol in EAGER_ASSIGNORS and not may_be_ruby_kafka


def _is_franz_go(it: ClientTraits, form: JoinForm) -> bool:
    """Version 3 with a null rack, assignments in version 0; user data null, or for its sticky assignors what it owned
    (empty: a count of 0)."""
    if not form.subscription_version == form.fields_version == 3 or form.rack_id is not None:
        return False
    if form.assignment_version != 0:
        return False
    if it.protocol == COOPERATIVE:
        return form.user_data is not None and len(form.user_data) >= 4
    # With that timeout it may be Java, in a group whose leader is of franz-go.
    is_eager = it.protocol in EAGER_ASSIGNORS and form.user_data is None
    return is_eager and it.rebalance_timeout_ms != JAVA_MAX_POLL_INTERVAL_MS


def _is_kafka_go(it: ClientTraits, form: JoinForm) -> bool:
    """Says version 1 and ends as version 0 does; the leader's assignment is in version 1."""
    is_cut = form.subscription_version == 1 and form.ends_early
    return (
        is_cut and form.user_data is None and form.assignment_version in (1, None) and it.protocol in EAGER_ASSIGNORS
    )


def _is_kafkajs(it: ClientTraits, form: JoinForm) -> bool:
    """An assignor's name of its own."""
    return it.protocol == "RoundRobinAssigner" and form.subscription_version == 0


def _is_aiokafka(it: ClientTraits, form: JoinForm) -> bool:
    """Version 0, user data empty, and its session timeout for both timeouts; librdkafka before 1.0 did that too, and
    preferred `range`."""
    is_plain = form.subscription_version == 0 and form.user_data == b"" and it.protocol == "roundrobin"
    return is_plain and it.session_timeout_ms == it.rebalance_timeout_ms


JAVA_MAX_POLL_INTERVAL_MS = 300_000
"""What a Java client joins with as its rebalance timeout if nobody set `max.poll.interval.ms`."""

FORMS: Final[Mapping[str, _Rule]] = {
    "java": _is_java,
    "librdkafka": _is_librdkafka,
    "sarama": _is_sarama,
    "franz-go": _is_franz_go,
    "kafka-go": _is_kafka_go,
    "kafkajs": _is_kafkajs,
    "aiokafka": _is_aiokafka,
}
"""By library: whether a form is its own. No two may say so of one form; a test holds them against each other."""

_MADE_UP: Final = (
    ("librdkafka", re.compile(r"rdkafka")),
    ("sarama", re.compile(r"sarama")),
    ("franz-go", re.compile(r"kgo")),
    ("kafkajs", re.compile(r"kafkajs")),
    ("kafka-go", re.compile(r"[^@]+@.+ \(github\.com/segmentio/kafka-go\)")),
    ("aiokafka", re.compile(r"aiokafka-\d+\.\d+\S*")),
    ("kafka-python", re.compile(r"kafka-python-\d+\.\d+\S*")),
    ("ruby-kafka", re.compile(r"ruby-kafka")),
    ("brod", re.compile(r"brod_client_?\S*|nonode@nohost/<\d+\.\d+\.\d+>")),
)
"""Client ids that libraries make up where nobody sets one."""

_NO_FORM_OF_ITS_OWN: Final[Mapping[str, _Rule]] = {
    "kafka-python": lambda it, form: form.user_data is not None,
    "ruby-kafka": lambda it, form: form.subscription_version == 0 and form.user_data is None,
    "brod": lambda it, form: form.subscription_version == 0 and form.user_data is not None,
    "sarama": lambda it, form: form.subscription_version <= 1 and not form.ends_early,
    "franz-go": lambda it, form: form.assignment_version in (0, None),
    "java": lambda it, form: not form.ends_early,
}
"""By library: what it may write besides its own form, so that a made-up client id is believed."""


def recognize(traits: ClientTraits) -> Recognition:
    """Which library a member of a classic group uses."""
    form = traits.form
    if traits.protocol_type == "connect":
        return Recognition("kafka-connect", "the group's protocol type is connect")
    if traits.protocol_type != "consumer" or form is None:
        return NOT_RECOGNIZED
    if traits.protocol == "stream" and form.user_data:
        return Recognition("kafka-streams", "its assignor is stream")
    by_form = [library for library, is_own in FORMS.items() if is_own(traits, form)]
    named = _named_by_client_id(traits)
    if named is not None and (by_form == [named] or (not by_form and _may_write(named, traits, form))):
        return Recognition(named, f"its client id {traits.client_id!r} is one that {named} makes up")
    if len(by_form) == 1:
        return Recognition(by_form[0], _evidence(form, traits))
    return NOT_RECOGNIZED


def recognize_by_client_id(client_id: str, group: str) -> Recognition:
    """Which library a member of a classic group uses of which nothing but its client id is known."""
    if _is_made_up_by_java(client_id, group):
        return Recognition("java", f"its client id {client_id!r} is one that java makes up")
    named = next((library for library, made_up in _MADE_UP if made_up.fullmatch(client_id)), None)
    if named is None:
        return NOT_RECOGNIZED
    return Recognition(named, f"its client id {client_id!r} is one that {named} makes up")


def recognize_kip848(member_id: str, client_id: str, group: str) -> Recognition:
    """Which library a member of a KIP-848 group uses: each spells the UUID that it makes for its member id in another
    way, if the UUID has a digit for that, as half of them do. (Before KIP-848 was final brokers made them, as Java
    does.)"""
    if re.fullmatch(r"[A-Za-z0-9_-]{22}==", member_id):
        return Recognition("franz-go", "its member id is a padded base64 text")
    if re.fullmatch(r"[A-Za-z0-9+/]{22}", member_id) and re.search(r"[+/]", member_id):
        return Recognition("librdkafka", "its member id is base64 with + or /")
    if re.fullmatch(r"[A-Za-z0-9_-]{22}", member_id):
        if re.search(r"[_-]", member_id):
            return Recognition("java", "its member id is base64 with - or _")
        if client_id == "rdkafka":
            return Recognition("librdkafka", "its client id 'rdkafka' is one that librdkafka makes up")
        if _is_made_up_by_java(client_id, group):
            return Recognition("java", f"its client id {client_id!r} is one that java makes up")
    return NOT_RECOGNIZED


def recognize_streams(member_id: str, client_id: str, group: str) -> Recognition:
    """Which library a member of a Streams group (KIP-1071) uses: Kafka Streams alone speaks its protocol so far, and
    spells member ids as Java does."""
    found = recognize_kip848(member_id, client_id, group)
    if found.library in (UNKNOWN, "java") and re.fullmatch(r"[A-Za-z0-9_-]{22}", member_id):
        return Recognition("kafka-streams", "no other library speaks the protocol of Streams groups (KIP-1071)")
    return found


def client_id_stem(client_id: str) -> str:
    """A client id without its numbers: instances of one program mostly differ in no more."""
    return re.sub(r"[0-9]+", "", client_id)


def recognize_by_others(libraries: Iterable[str]) -> Recognition:
    """Which library a member uses that does not show it, if the others of its group with its client id (but for
    numbers) use one; `libraries` are theirs."""
    known = set(libraries) - {UNKNOWN}
    if len(known) != 1:
        return NOT_RECOGNIZED
    return Recognition(known.pop(), "others of its group whose client ids differ in numbers alone use it")


def _named_by_client_id(traits: ClientTraits) -> str | None:
    if _is_made_up_by_java(traits.client_id, traits.group):
        return "java"
    return next((library for library, made_up in _MADE_UP if made_up.fullmatch(traits.client_id)), None)


def _is_made_up_by_java(client_id: str, group: str) -> bool:
    start, _, number = client_id.rpartition("-")
    return start in ("consumer", f"consumer-{group}") and number.isdecimal() and number.isascii()


def _may_write(library: str, traits: ClientTraits, form: JoinForm) -> bool:
    rule = _NO_FORM_OF_ITS_OWN.get(library)
    return rule is not None and rule(traits, form)


def _evidence(form: JoinForm, traits: ClientTraits) -> str:
    data = "null" if form.user_data is None else "empty" if not form.user_data else f"{len(form.user_data)} bytes"
    said = [f"its subscription is of version {form.subscription_version}"]
    if form.ends_early:
        said.append(f"ends where version {form.fields_version} does")
    said.append(f"has {data} as user data")
    if form.subscription_version >= 3 and not form.ends_early:
        said.append(f"has {'no' if form.rack_id is None else 'an empty' if not form.rack_id else 'a'} rack")
    if form.assignment_version is not None:
        said.append(f"goes with an assignment of version {form.assignment_version}")
    beside = "; its group commits metadata" if traits.commits_metadata else ""
    evidence = f"{', '.join(said)}; its assignor is {traits.protocol}{beside}"
    return _one_evidence[evidence]


_one_evidence: Interner[str] = Interner(1_024, lambda text: len(text) <= 1_000)
"""One object for equal texts: members of all groups have few. Strangers name the assignor: no long one is kept."""
