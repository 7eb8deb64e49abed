"""`kshadow assign`: problems of files, groups of the log, and one of a real broker."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from agent.cli.assignment_plan import NotAssignable, assignment_plan
from agent.core.shadow.sampled_mirror import SampledMirror
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.generate.kafka_assignors.asking import ENDLESS, RECORDED, expected_of
from tests.unit.cli.hostile import TEXTS, raw
from tests.unit.cli.running import FORMATS, kshadow, lines, ndjson
from tests.unit.cli.test_decode import line
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Pair
from tests.unit.core.shadow.looks import Looks, seen
from tests.unit.serving.routes.replayed import Replayed, served

PROBLEM: dict[str, Any] = {
    "assignor": "cooperative-sticky",
    "partitions": {"t": 5},
    "members": {
        "a": {"topics": ["t"], "instance_id": None, "owned": [["t", number] for number in range(5)]},
        "b": {"topics": ["t"]},
    },
}


def answers(*problems: dict[str, Any]) -> list[Any]:
    result = kshadow("assign", "-", "-o", "ndjson", stdin="".join(json.dumps(it) + "\n" for it in problems))
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(text) for text in lines(result)]


def test_problems_are_answered_as_by_kafkas_own_classes() -> None:
    asked = [json.loads(text) for text in RECORDED.read_text(encoding="utf-8").splitlines()]
    assert {row["assignor"] for row in asked} == {"range", "roundrobin", "sticky", "cooperative-sticky", "uniform"}
    for row, answer in zip(asked, answers(*asked), strict=True):
        assert list(answer) == ["assignor", "assignment"]
        assert (answer["assignor"], expected_of(answer["assignment"])) == (
            row["assignor"],
            expected_of(row["expect"]),
        )


def test_a_round_of_a_problem_is_one_round() -> None:
    first = {"a": [["t", 0], ["t", 1], ["t", 2]], "b": []}
    assert answers(PROBLEM) == [{"assignor": "cooperative-sticky", "assignment": first}]


@pytest.mark.parametrize("output", ["table", "ndjson"])
def test_a_problem_that_has_no_answer(output: str) -> None:
    asked = "\n".join((json.dumps(PROBLEM), ENDLESS.read_text(encoding="utf-8").strip(), json.dumps(PROBLEM)))
    result = kshadow("assign", "-", "-o", output, stdin=asked)
    assert (result.exit_code, result.stderr) == (
        1,
        "stdin: line 2 has no answer: Kafka's sticky assignors do not come to an end for these subscriptions: "
        "a leader with one never completes the rebalance\n",
    )
    assert len(lines(result)) == (3 if output == "table" else 2)


def test_a_group_for_which_an_assignor_has_no_answer() -> None:
    problem = json.loads(ENDLESS.read_text(encoding="utf-8"))
    members = [
        {
            "member_id": member_id,
            "subscription": it["topics"],
            "assignment": {topic: [number for of, number in it["owned"] if of == topic] for topic in it["topics"]},
        }
        for member_id, it in problem["members"].items()
    ]
    form = {"group": "g", "group_type": "classic", "generation": 1, "offsets": [], "members": members}
    plan = assignment_plan(form, [], problem["partitions"], None)
    assert [it["assignor"] for it in plan["alternatives"]] == ["range", "roundrobin"]
    assert [it.split(" has no answer: ")[0] for it in plan["notes"][:2]] == ["sticky", "cooperative-sticky"]


def test_formats_of_problems_say_the_same(tmp_path: Path) -> None:
    path = ndjson(tmp_path / "problems", json.dumps(PROBLEM), "", json.dumps({**PROBLEM, "assignor": "range"}))
    said = json.loads(kshadow("assign", path, "-o", "json").stdout)
    assert yaml.safe_load(kshadow("assign", path, "-o", "yaml").stdout) == said
    assert [json.loads(it) for it in lines(kshadow("assign", path, "-o", "ndjson"))] == said
    assert [" ".join(it.split()) for it in lines(kshadow("assign", path))] == [
        "LINE ASSIGNOR MEMBERS PARTITIONS SPREAD IDLE MOVES",
        "1 cooperative-sticky 2 5 2-3 0 2",
        "3 range 2 5 2-3 0 2",
    ]


def changed(**more: Any) -> str:
    return json.dumps({**PROBLEM, **more})


BAD = [
    (1, "no JSON", "{", "expected a JSON object, got {"),
    (2, "no object", "[]", "expected a JSON object with assignor, partitions and members, got []"),
    (3, "nothing in it", "{}", "the problem: expected assignor in it, got nothing"),
    (4, "no members", '{"assignor":"range","partitions":{}}', "expected members in it, got assignor, partitions"),
    (5, "another assignor", changed(assignor="best"), "assignor: expected one of range, roundrobin, sticky"),
    (6, "an assignor that cannot be", changed(assignor=["range"]), "got ['range']"),
    (7, "a count that is none", changed(partitions={"t": "5"}), "expected partitions of t: a count from 0 to"),
    (8, "less than none", changed(partitions={"t": -1}), "from 0 to 1,000,000, got -1"),
    (9, "too many", changed(partitions={"t": 10**12}), "got 1000000000000"),
    (10, "too many in all", changed(partitions={"t": 600_000, "u": 600_000}), "got 1,200,000"),
    (11, "true is no count", changed(partitions={"t": True}), "got True"),
    (12, "members in a list", changed(members=[]), "expected members: objects by member id, got []"),
    (13, "a member that is none", changed(members={"a": 1}), "expected member a: an object with topics, got 1"),
    (14, "no topics", changed(members={"a": {}}), "member a: expected topics in it, got nothing"),
    (15, "a topic's name alone", changed(members={"a": {"topics": "t"}}), "member a: a list of topics, got t"),
    (16, "a topic by number", changed(members={"a": {"topics": [1]}}), "expected topics by name, got 1"),
    (17, "no static id", changed(members={"a": {"topics": [], "instance_id": 1}}), "as instance_id, got 1"),
    (18, "no generation", changed(members={"a": {"topics": [], "generation": "1"}}), "as generation, got 1"),
    (19, "owned is no list", changed(members={"a": {"topics": [], "owned": {"t": 1}}}), "a list as owned, got"),
    (20, "owned by topic", changed(members={"a": {"topics": [], "owned": ["t"]}}), '["topic", partition] in owned'),
    (21, "owned below 0", changed(members={"a": {"topics": [], "owned": [["t", -1]]}}), "got ['t', -1]"),
    (22, "no text", b"\xff\xfe{}", "expected a JSON object, got"),
    (23, "too deep", "[" * 100_000, "expected a JSON object, got [["),
    (
        24,
        "a member twice",
        json.dumps(PROBLEM).replace('"b": {', '"a": {'),
        "expected each name once in an object, got a",
    ),
]


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in BAD])
def test_a_bad_line_is_told_and_the_others_are_answered(text: str | bytes, expected: str) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    good = json.dumps(PROBLEM).encode()
    result = kshadow("assign", "-", "-o", "ndjson", stdin=b"\n".join([good, data, good]))
    assert result.exit_code == 1
    assert len(lines(result)) == 2
    told, summary = result.stderr.splitlines()
    assert told.startswith("stdin: line 2: ")
    assert expected in told
    assert len(told) < 400
    assert summary == "1 line is not a valid problem, as said above; all others are answered"


@pytest.mark.parametrize("output", FORMATS)
def test_hostile_problems(output: str) -> None:
    texts = list(TEXTS.values())
    good = [
        {"assignor": "sticky", "partitions": {text: 2}, "members": {text: {"topics": [text], "instance_id": text}}}
        for text in texts
    ]
    bad = [{"assignor": text, "partitions": {}, "members": {}} for text in texts]
    worse = [{"assignor": "range", "partitions": {}, "members": {text: {"topics": [text, 1]}}} for text in texts]
    stdin = "".join(json.dumps(it) + "\n" for it in [*good, *bad, *worse])
    result = kshadow("assign", "-", "-o", output, stdin=stdin)
    assert result.exit_code == 1
    assert raw(result.stdout) == raw(result.stderr) == []
    assert len(result.stderr.splitlines()) == 2 * len(texts) + 1
    if output == "json":
        assert [list(it["assignment"]) for it in json.loads(result.stdout)] == [[text] for text in texts]


def test_problems_of_a_pipe() -> None:
    """As the shell's `<(…)` names it."""
    asked, writer = os.pipe()
    os.write(writer, json.dumps(PROBLEM).encode())
    os.close(writer)
    result = kshadow("assign", f"/dev/fd/{asked}", "-o", "ndjson")
    os.close(asked)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == kshadow("assign", "-", "-o", "ndjson", stdin=json.dumps(PROBLEM)).stdout != ""


def test_nothing_asked() -> None:
    result = kshadow("assign", "-", stdin="\n")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no answers\n")


def group_file(directory: Path, *pairs: Pair) -> Path:
    rows = [line(*pair, partition=7, offset=offset) for offset, pair in enumerate(pairs)]
    return ndjson(directory / "log.ndjson", *rows)


@pytest.fixture
def payments(tmp_path: Path) -> Path:
    """A group with `range`: two topics of two partitions, and the third member idle."""
    members = [
        b.member("m-1", {"t": [0], "u": [0]}, topics=["t", "u"]),
        b.member("m-2", {"t": [1], "u": [1]}, topics=["t", "u"]),
        b.member("m-3", {}, topics=["t", "u"], rack_id="a"),
    ]
    records = [b.new_group("payments"), b.classic_group(1, *members, group="payments")]
    return group_file(tmp_path, *records, b.commit("t", 1, group="payments"), b.commit("old", 3, group="payments"))


def test_a_group(payments: Path) -> None:
    result = kshadow("assign", "payments", "--from", payments)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [" ".join(it.split()) for it in lines(result)]
    assert rows[:6] == [
        "ASSIGNOR SPREAD IDLE MOVES STOPPED ROUNDS",
        "today (range) 0-2 1 - - -",
        "range (as today) 0-2 1 0 4 1",
        "roundrobin 1-2 0 2 4 1",
        "sticky 1-2 0 1 4 1",
        "cooperative-sticky 1-2 0 1 1 2",
    ]
    assert rows[6].startswith("Note: partitions of t and u are the least there can be")
    assert rows[7].startswith("Note: members have racks")
    assert len(rows) == 8


def test_which_member_gets_what(payments: Path) -> None:
    result = kshadow("assign", "payments", "--from", payments, "--members", "--assignor", "cooperative-sticky")
    rows = [" ".join(it.split()) for it in lines(result)]
    at = rows.index("ASSIGNOR MEMBER PARTITIONS ASSIGNMENT")
    assert rows[at + 1 : at + 7] == [
        "today (range) m-1 2 t[0] u[0]",
        "today (range) m-2 2 t[1] u[1]",
        "today (range) m-3 0 -",
        "cooperative-sticky m-1 2 t[0] u[0]",
        "cooperative-sticky m-2 1 t[1]",
        "cooperative-sticky m-3 1 u[1]",
    ]


def test_partitions_that_the_log_does_not_show(payments: Path) -> None:
    result = kshadow(
        "assign", "payments", "--from", payments, "--partitions", "t=6", "--partitions", "x=1", "-o", "json"
    )
    said = json.loads(result.stdout)
    assert said["partitions"] == {"t": 6, "u": 2, "x": 1}
    assert said["partitions_from"] == {"t": "option", "u": "seen", "x": "option"}
    assert said["notes"][1] == "no member subscribes to x"
    by_name = {it["assignor"]: it for it in said["alternatives"]}
    assert {name: it["largest"] for name, it in by_name.items()} == {
        "range": 3,
        "roundrobin": 3,
        "sticky": 3,
        "cooperative-sticky": 3,
    }
    assert by_name["range"]["assignment"]["m-1"] == [["t", 0], ["t", 1], ["u", 0]]


def test_formats_of_a_group_say_the_same(payments: Path) -> None:
    said = json.loads(kshadow("assign", "payments", "--from", payments, "-o", "json").stdout)
    assert yaml.safe_load(kshadow("assign", "payments", "--from", payments, "-o", "yaml").stdout) == said
    rows = [json.loads(it) for it in lines(kshadow("assign", "payments", "--from", payments, "-o", "ndjson"))]
    assert rows == said["alternatives"]
    assert said["assignor"] == "range"
    assert said["today"]["assignment"] == {"m-1": [["t", 0], ["u", 0]], "m-2": [["t", 1], ["u", 1]], "m-3": []}


def test_a_group_of_kip_848(tmp_path: Path) -> None:
    records = [
        b.c_member("m-1", topics=["t"]),
        b.c_member("m-2", topics=[], regex="t.*"),
        b.c_epoch(2),
        b.c_topics("t"),
        b.c_target("m-1", {"t": [0, 1, 2]}),
        b.c_target("m-2", {"t": [3]}),
        b.c_target_epoch(2),
        b.c_current("m-1", 2, {"t": [0, 1, 2, 3]}),
    ]
    path = group_file(tmp_path, *records)
    said = json.loads(kshadow("assign", b.GROUP, "--from", path, "-o", "json").stdout)
    assert [it["assignor"] for it in said["alternatives"]] == ["uniform", "range"]
    assert [(it["moves"], it["stopped"], it["rounds"]) for it in said["alternatives"]] == [(1, 1, 1), (1, 1, 1)]
    assert (said["today"]["least"], said["today"]["largest"]) == (1, 3)
    assert "by pattern" in said["notes"][-1]
    result = kshadow("assign", b.GROUP, "--from", path, "--assignor", "sticky")
    assert result.exit_code == 2
    assert "is a group of KIP-848, which has no assignor sticky; it has uniform, range" in result.stderr


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"group_type": "connect"}, "is a Connect cluster"),
        ({"group_type": "share"}, "is a share group"),
        ({"group_type": "streams"}, "is a streams group"),
        ({"group_type": "classic", "protocol": "stream"}, "is a streams group"),
        ({"group_type": "classic", "protocol_type": "sr"}, "is no group of consumers"),
    ],
    ids=str,
)
def test_groups_that_choose_no_assignor(form: dict[str, Any], expected: str) -> None:
    with pytest.raises(NotAssignable, match=expected):
        assignment_plan({"group": "g", "members": [], "offsets": [], **form}, [], {}, None)


def test_more_partitions_than_can_be_are_not_assigned(tmp_path: Path) -> None:
    """Each topic may have so many, but not all of them: a group's leader writes what it likes."""
    path = group_file(tmp_path, b.classic_group(1, b.member("m-1", {"t": [0, 999_999], "u": [0]}, topics=("t", "u"))))
    result = kshadow("assign", b.GROUP, "--from", path)
    assert result.exit_code == 2
    assert "has topics of 1,000,001 partitions in all; 1,000,000 are assigned at most" in result.stderr


def test_a_group_of_another_kind_is_wrong_usage(tmp_path: Path) -> None:
    path = group_file(tmp_path, b.classic_group(1, b.member("m-1", {}), protocol_type="connect"))
    result = kshadow("assign", b.GROUP, "--from", path)
    assert result.exit_code == 2
    assert "no assignor is chosen" in result.stderr


def test_a_group_without_members(tmp_path: Path) -> None:
    path = group_file(tmp_path, b.new_group("payments"), b.commit("t", 3, group="payments"))
    result = kshadow("assign", "payments", "--from", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "the group has no members to assign to\n"
    said = json.loads(kshadow("assign", "payments", "--from", path, "-o", "json").stdout)
    assert (said["alternatives"], said["notes"]) == ([], [])


def test_a_group_that_only_commits_has_no_generation(tmp_path: Path) -> None:
    path = ndjson(tmp_path / "log.ndjson", line(*b.commit("t", 3, group="simple"), timestamp=b.T0))
    result = kshadow("assign", "simple", "--from", path, "--until", str(b.T0))
    said = "as of 2026-09-21 14:13:20.000Z\nthe group has no members to assign to\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


def test_what_an_agent_may_say_by_mistake_is_not_believed() -> None:
    members = [
        {
            "member_id": "m",
            "assignment": {"t": [0, "1", 10**15, -1], "u": "0"},
            "subscription": ["t", "u", 3],
            "instance_id": 7,
        }
    ]
    form = {"group": "g", "group_type": "classic", "generation": 1, "protocol": 5, "members": members}
    offsets = [{"topic": "t", "partition": 10**15}, {"topic": "u", "partition": 1}]
    plan = assignment_plan({**form, "offsets": offsets}, ["range"], {}, None)
    assert plan["partitions"] == {"t": 1, "u": 2}
    assert plan["assignor"] is None
    assert plan["alternatives"][0]["assignment"] == {"m": [("t", 0), ("u", 0), ("u", 1)]}


def test_a_group_whose_subscriptions_nobody_knows() -> None:
    """An agent with --source admin: that a member gets nothing for want of a subscription would be made up."""
    looks = Looks("g").look(0, "Stable", seen("a", 0, 1, 2), seen("b"), positions={0: 1})
    with served(Replayed([looks.batch()], mirror_class=SampledMirror)) as url:
        said = json.loads(kshadow("assign", "g", "--agent", url, "--assignor", "range", "-o", "json").stdout)
    (alternative,) = said["alternatives"]
    assert (alternative["least"], alternative["largest"]) == (1, 2)
    assert "does not tell subscriptions" in said["notes"][0]


WRONG = [
    (1, "neither file nor source", ["payments"], "no file 'payments'; for a group of that name one of --from"),
    (2, "an option of groups", ["-", "--partitions", "t=1"], "go with a GROUP"),
    (3, "an option of groups", ["-", "--members"], "go with a GROUP"),
    (4, "standard input and a source", ["-", "--from", "x.ndjson"], "need no other source"),
    (5, "no number", ["g", "--from", "x", "--partitions", "t"], "expected TOPIC=N with N from 1 to 1,000,000"),
    (6, "zero", ["g", "--from", "x", "--partitions", "t=0"], "got 't=0'"),
    (7, "too many", ["g", "--from", "x", "--partitions", "t=99999999999"], "expected"),
    (8, "no such assignor", ["g", "--from", "x", "--assignor", "best"], "'best' is not one of"),
    (9, "two sources", ["g", "--from", "x", "--agent", "http://localhost:1"], "exactly one of"),
    (10, "an option of groups", ["-", "--until", "2h"], "go with a GROUP"),
    (
        11,
        "the past of an agent",
        ["g", "--agent", "http://localhost:1", "--until", "2h"],
        "an agent knows groups as they",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "expected"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in WRONG]
)
def test_wrong_usage(arguments: list[str], expected: str) -> None:
    result = kshadow("assign", *arguments)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_a_source_in_the_environment_hides_no_file(payments: Path, tmp_path: Path) -> None:
    path = ndjson(tmp_path / "problems.ndjson", json.dumps(PROBLEM))
    env = {"KSHADOW_FROM": str(payments)}
    assert "cooperative-sticky" in kshadow("assign", path, env=env).stdout
    assert "cooperative-sticky" in kshadow("assign", "-", env=env, stdin=json.dumps(PROBLEM)).stdout
    assert "today (range)" in kshadow("assign", "payments", env=env).stdout


@pytest.mark.usefixtures("kafka")
def test_a_live_group_by_what_its_broker_says() -> None:
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "3"}) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        admin = AdminClient(conf)
        for created in admin.create_topics([NewTopic("t", 5, 1), NewTopic("u", 1, 1)]).values():
            created.result(20)
        settings = {**conf, "group.id": "payments", "partition.assignment.strategy": "range"}
        consumers = [Consumer(settings) for _ in range(2)]
        try:
            for consumer in consumers:
                consumer.subscribe(["t", "u", "no-such-topic"])
            deadline = time.monotonic() + 60
            while sorted(len(it.assignment()) for it in consumers) != [2, 4] and time.monotonic() < deadline:
                for consumer in consumers:
                    consumer.poll(0.2)
            # Offsets and assignments show 5 and 1; nobody holds anything of what came since.
            admin.create_partitions([NewPartitions("t", 8)])["t"].result(20)
            command = ["assign", "payments", "--bootstrap-server", broker.bootstrap_servers]
            said = json.loads(kshadow(*command, "-o", "json").stdout)
            assert said["partitions"] == {"t": 8, "u": 1}
            assert set(said["partitions_from"].values()) == {"broker"}
            assert said["assignor"] == "range"
            assert (said["today"]["least"], said["today"]["largest"]) == (2, 4)
            by_name = {it["assignor"]: it for it in said["alternatives"]}
            assert {name: (it["least"], it["largest"]) for name, it in by_name.items()} == dict.fromkeys(
                ("range", "roundrobin", "sticky", "cooperative-sticky"), (4, 5)
            )
            assert by_name["cooperative-sticky"]["moves"] == by_name["sticky"]["moves"] == 0
            assert "range (as today)" in kshadow(*command).stdout
            before_ms = time.time_ns() // 1_000_000
            while consumers:
                consumers.pop().close()
            deadline = time.monotonic() + 30
            gone = said
            while gone["as_of_ms"] is None and time.monotonic() < deadline:
                gone = json.loads(kshadow(*command, "-o", "json").stdout)
            assert gone["as_of_ms"] >= before_ms
            asked = json.loads(kshadow(*command, "--until", str(before_ms), "-o", "json").stdout)
            assert asked["as_of_ms"] == before_ms
            for then in (gone, asked):
                assert {**then, "as_of_ms": None, "notes": said["notes"]} == said
                assert "as the broker says that they have now" in then["notes"][0]
            assert "then (range)" in kshadow(*command).stdout
        finally:
            for consumer in consumers:
                consumer.close()
