"""Which library a member uses: forms as real clients wrote them (captures of 4.3.1 and 3.9.2, October 2026)."""

from __future__ import annotations

import time
from itertools import combinations

import pytest

from agent.core.protocol.client_libraries import LIBRARIES, SETTINGS, UNKNOWN, spell_settings
from agent.core.protocol.library_recognition import (
    FORMS,
    ClientTraits,
    JoinForm,
    client_id_stem,
    recognize,
    recognize_by_client_id,
    recognize_by_others,
    recognize_kip848,
    recognize_streams,
)

GENERATION_2 = bytes.fromhex("00000002")
NOTHING_OWNED = bytes(4)

# Library, assignor, session and rebalance timeout, form: of members whose client ids say nothing.
REAL = [
    ("java", "range", 6_000, 300_000, JoinForm(3, 3, None, None, 3)),
    ("java", "range", 10_000, 300_000, JoinForm(1, 1, None, None, 1)),
    ("java", "cooperative-sticky", 45_000, 300_000, JoinForm(3, 3, b"\xff\xff\xff\xff", None, 3)),
    ("java", "cooperative-sticky", 45_000, 300_000, JoinForm(3, 3, GENERATION_2, "rack-a", 3)),
    ("librdkafka", "range", 45_000, 300_000, JoinForm(3, 3, b"", "", 0)),
    ("librdkafka", "range", 45_000, 12_000, JoinForm(1, 1, b"", None, 0)),
    ("librdkafka", "cooperative-sticky", 45_000, 300_000, JoinForm(3, 3, b"", "", 0)),
    ("librdkafka", "cooperative-sticky", 45_000, 300_000, JoinForm(3, 3, bytes(28), "", 0)),
    ("sarama", "range", 10_000, 60_000, JoinForm(1, 1, None, None, 0)),
    ("sarama", "range", 10_000, 60_000, JoinForm(0, 0, None, None, 0)),
    ("franz-go", "cooperative-sticky", 45_000, 60_000, JoinForm(3, 3, NOTHING_OWNED, None, 0)),
    ("franz-go", "cooperative-sticky", 45_000, 60_000, JoinForm(3, 3, bytes.fromhex("0000000000000002"), None, 0)),
    ("franz-go", "range", 45_000, 60_000, JoinForm(3, 3, None, None, 0)),
    ("kafka-go", "range", 30_000, 30_000, JoinForm(1, 0, None, None, 1)),
    ("kafkajs", "RoundRobinAssigner", 30_000, 60_000, JoinForm(0, 0, b"", None, 0)),
    ("aiokafka", "roundrobin", 10_000, 10_000, JoinForm(0, 0, b"", None, 0)),
    # What several libraries write alike.
    (UNKNOWN, "roundrobin", 6_000, 60_000, JoinForm(0, 0, None, None, 0)),  # Sarama, ruby-kafka
    (UNKNOWN, "range", 10_000, 300_000, JoinForm(0, 0, b"", None, 0)),  # kafka-python, librdkafka before 1.6
    (UNKNOWN, "roundrobin", 10_000, 300_000, JoinForm(0, 0, b"", None, 0)),  # likewise
    (UNKNOWN, "range", 10_000, 10_000, JoinForm(0, 0, b"", None, 0)),  # aiokafka, librdkafka before 1.0
    (UNKNOWN, "cooperative-sticky", 45_000, 300_000, JoinForm(1, 1, b"", None, 1)),  # kafka-python
    (UNKNOWN, "roundrobin_v2", 30_000, 30_000, JoinForm(0, 0, b"", None, 0)),  # brod
    # franz-go, in a group whose leader is of Java.
    (UNKNOWN, "cooperative-sticky", 45_000, 300_000, JoinForm(3, 3, NOTHING_OWNED, None, 3)),
    # franz-go, and Java in a group whose leader is of franz-go.
    (UNKNOWN, "range", 45_000, 300_000, JoinForm(3, 3, None, None, 0)),
]


def traits(
    protocol: str, session_ms: int, rebalance_ms: int, form: JoinForm, client_id: str = "app-1"
) -> ClientTraits:
    return ClientTraits(client_id, "orders", "consumer", protocol, session_ms, rebalance_ms, form)


@pytest.mark.parametrize(("library", "protocol", "session_ms", "rebalance_ms", "form"), REAL)
def test_form_alone(library: str, protocol: str, session_ms: int, rebalance_ms: int, form: JoinForm) -> None:
    found = recognize(traits(protocol, session_ms, rebalance_ms, form))
    assert found.library == library
    assert bool(found.evidence) == (library != UNKNOWN)


@pytest.mark.parametrize("client_id", ["sarama-team", "my-kafkajs", "rdkafka2", "consumer-of-java", "kgo ", "", "💥"])
@pytest.mark.parametrize(("library", "protocol", "session_ms", "rebalance_ms", "form"), REAL)
def test_words_in_a_client_id_mislead_nobody(
    library: str, protocol: str, session_ms: int, rebalance_ms: int, form: JoinForm, client_id: str
) -> None:
    assert recognize(traits(protocol, session_ms, rebalance_ms, form, client_id)).library == library


def test_who_commits_metadata_is_no_ruby_kafka() -> None:
    unknown = traits("roundrobin", 6_000, 60_000, JoinForm(0, 0, None, None, 0))
    assert recognize(unknown).library == UNKNOWN
    found = recognize(unknown._replace(commits_metadata=True))
    assert found.library == "sarama"
    assert found.evidence.endswith("its group commits metadata")


# Client id, form, what it is: a made-up client id tells where the form leaves it open, and never against the form.
MADE_UP = [
    ("sarama", JoinForm(0, 0, None, None, 0), "sarama"),
    ("ruby-kafka", JoinForm(0, 0, None, None, None), "ruby-kafka"),
    ("kafka-python-2.2.15", JoinForm(0, 0, b"", None, 0), "kafka-python"),
    ("consumer-orders-3", JoinForm(3, 3, None, None, 0), "java"),
    ("consumer-7", JoinForm(1, 1, None, None, 1), "java"),
    ("worker@host (github.com/segmentio/kafka-go)", JoinForm(1, 0, None, None, 1), "kafka-go"),
    ("rdkafka", JoinForm(3, 3, None, None, 3), "java"),
    ("kgo", JoinForm(3, 3, b"", "", 0), "librdkafka"),
    ("consumer-payments-3", JoinForm(3, 3, None, None, 0), UNKNOWN),
]


@pytest.mark.parametrize(("client_id", "form", "library"), MADE_UP)
def test_made_up_client_ids(client_id: str, form: JoinForm, library: str) -> None:
    assert recognize(traits("range", 10_000, 300_000, form, client_id)).library == library


@pytest.mark.parametrize("piece", ["@", "@ ", "@x ("])
def test_no_client_id_takes_long(piece: str) -> None:
    """A stranger's may have 32,767 characters, and each record of its group has it."""
    began = time.process_time()
    for _ in range(10):
        assert recognize_by_client_id(piece * (32_000 // len(piece)), "orders").library == UNKNOWN
    assert time.process_time() - began < 1


def test_no_form_is_that_of_two_libraries() -> None:
    forms = [(it[1:4], it[4]) for it in REAL]
    for (protocol, session_ms, rebalance_ms), form in forms:
        for version in (0, 1, 2, 3, None):
            seen = traits(protocol, session_ms, rebalance_ms, replace_version(form, version))
            assert seen.form is not None
            own = [library for library, is_own in FORMS.items() if is_own(seen, seen.form)]
            assert not list(combinations(own, 2)), own


def replace_version(form: JoinForm, version: int | None) -> JoinForm:
    return form._replace(assignment_version=version)


def test_connect_and_streams() -> None:
    streams = traits("stream", 45_000, 300_000, JoinForm(3, 3, bytes(90), None, 3))
    assert recognize(streams).library == "kafka-streams"
    assert recognize(streams._replace(protocol_type="connect", form=None)).library == "kafka-connect"
    assert recognize(streams._replace(form=None)).library == UNKNOWN


# Member id, client id, library: as captured, but for franz-go's, which follows its source.
KIP_848 = [
    ("Kk-7oFQ6QLm7vxWY_zHUcw", "app-1", "java"),
    ("+65uNHTpR1KvFHffWy6yRA", "app-1", "librdkafka"),
    ("609eRkMXTNinJFZfRA/Lyg", "app-1", "librdkafka"),
    ("2SkTZ4f0R6OwVTmXrCHwXg", "app-1", UNKNOWN),
    ("2SkTZ4f0R6OwVTmXrCHwXg", "consumer-orders-1", "java"),
    ("2SkTZ4f0R6OwVTmXrCHwXg", "rdkafka", "librdkafka"),
    ("2SkTZ4f0R6OwVTmXrCHwXg==", "app-1", "franz-go"),
    ("not-a-uuid", "rdkafka", UNKNOWN),
]


@pytest.mark.parametrize(("member_id", "client_id", "library"), KIP_848)
def test_members_of_kip_848_groups(member_id: str, client_id: str, library: str) -> None:
    assert recognize_kip848(member_id, client_id, "orders").library == library


@pytest.mark.parametrize(
    ("member_id", "client_id", "library"),
    [
        ("n2gxZbbLT9CGbDPkuWvfHA", "app", "kafka-streams"),
        ("GUR-uHeQRb6rTbWHnP_9xQ", "app", "kafka-streams"),
        # What says itself that it is another is no Kafka Streams.
        ("GUR+uHeQRb6rTbWHnP/9xQ", "app", "librdkafka"),
        ("n2gxZbbLT9CGbDPkuWvfHA", "rdkafka", "librdkafka"),
        ("n2gxZbbLT9CGbDPkuWvfHA==", "app", "franz-go"),
        ("worker-1", "app", UNKNOWN),
    ],
)
def test_members_of_streams_groups(member_id: str, client_id: str, library: str) -> None:
    assert recognize_streams(member_id, client_id, "orders").library == library


def test_by_the_others_of_its_group() -> None:
    assert client_id_stem("app-12-x3") == client_id_stem("app-7-x44")
    assert recognize_by_others(["java", UNKNOWN, "java"]).library == "java"
    assert recognize_by_others(["java", "librdkafka"]).library == UNKNOWN
    assert recognize_by_others([UNKNOWN]).library == UNKNOWN


TEXT = "Raise session.timeout.ms (not my.session.timeout.ms) or rebalance.timeout.ms, and max.poll.records."


def test_settings_as_a_library_spells_them() -> None:
    assert spell_settings(TEXT, ["sarama", "sarama"]) == (
        "Raise Consumer.Group.Session.Timeout (not my.session.timeout.ms) or Consumer.Group.Rebalance.Timeout, and "
        "Consumer.MaxProcessingTime."
    )
    java = TEXT.replace("rebalance.timeout.ms", "max.poll.interval.ms")
    for libraries in (["java"], [UNKNOWN], [], ["sarama", "kafkajs"], ["no such library"]):
        assert spell_settings(TEXT, libraries) == java


def test_sentences_about_what_a_library_has_nothing_for_are_left_out() -> None:
    text = (
        "Look why it ends. For restarts, group.instance.id helps. Or CooperativeStickyAssignor keeps others at work."
    )
    assert spell_settings(text, ["kafka-go", "kafkajs"]) == "Look why it ends."
    assert spell_settings(text, ["sarama"]) == ("Look why it ends. For restarts, Consumer.Group.InstanceId helps.")
    for libraries in (["java", "kafkajs"], [UNKNOWN], []):
        assert spell_settings(text, libraries) == text
    alone = "group.instance.id is what there is."
    assert spell_settings(alone, ["kafkajs"]) == alone


def test_every_row_is_whole() -> None:
    assert {*FORMS} <= {*LIBRARIES}
    for row in LIBRARIES.values():
        assert {*row.settings} <= {*SETTINGS}
        assert 0 <= row.commits_on_close_share < 1
        assert row.measured.endswith(".")


def test_evidence_is_one_object_for_all_members_but_where_a_stranger_named_a_long_assignor() -> None:
    form = JoinForm(3, 3, b"", "", 0)
    short = [recognize(traits("mine", 45_000, 300_000, form)).evidence for _ in range(2)]
    long = [recognize(traits("m" * 30_000, 45_000, 300_000, form)).evidence for _ in range(2)]
    assert short[0] is short[1]
    assert long[0] == long[1]
    assert long[0] is not long[1]
