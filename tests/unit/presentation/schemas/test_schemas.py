"""The schemas: as files, as promises, and against everything that the commands print."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agent.core.events.events import EVENT_CLASSES
from agent.core.events.samples import GroupLagTotal, GroupSample, sample_event
from agent.persistence.export.sinks import SinkReading
from agent.presentation.narrative.gains import Gain, Gains
from agent.presentation.schemas import DOCUMENTS, VERSION, document
from agent.presentation.schemas.documents import DEFS, needed_by
from agent.runtime.agent import Agent
from agent.runtime.checkpointer import CheckpointReading
from agent.runtime.parts import AgentOptions
from agent.serving.openapi import openapi
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from tests import SHARED
from tests.generate.schemas import SCHEMAS, files, text_of
from tests.generate.schemas_compat import broken
from tests.unit.cli.running import SEGMENTS, kshadow, lines
from tests.unit.presentation.schemas.strict import validators, wrong

CAPTURE = SHARED / "captures" / "kafka-4.3.1" / "segments"
LOG = CAPTURE if CAPTURE.exists() else SEGMENTS


def printed(*arguments: object, code: int = 0) -> Any:
    result = kshadow(*arguments, "-o", "json")
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("path", [path for path, _ in files()], ids=lambda it: it.name)
def test_files_are_what_the_tables_say(path: Path) -> None:
    assert path.read_text(encoding="ascii") == text_of(dict(files())[path]), "run python -m tests.generate.schemas"


def test_there_are_no_others() -> None:
    assert {it.stem for it in SCHEMAS.iterdir()} == set(DOCUMENTS)
    assert {it.name for it in SCHEMAS.parent.iterdir() if it.is_dir()} - {"__pycache__"} == {f"v{VERSION}"}
    assert set(needed_by(DOCUMENTS)) == set(DEFS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_is_a_schema(name: str) -> None:
    schema = document(name)
    Draft202012Validator.check_schema(schema)
    assert json.loads(text_of(schema)) == schema
    # Somebody prints it or answers it.
    assert DOCUMENTS[name].printed_by


# Events.


def test_events_of_a_real_log() -> None:
    events = printed("replay", LOG)
    assert [it for event in events for it in wrong("event", event)] == []
    assert {it["type"] for it in events} <= set(EVENT_CLASSES)
    for finding in printed("findings", "--from", LOG, "--since", "0"):
        assert wrong("finding", finding) == []


def test_events_of_every_fate(tmp_path: Path) -> None:
    mix = [part for fate in SCENARIO_KINDS for part in ("--mix", fate)]
    made = kshadow(
        "generate", "--groups", 3 * len(SCENARIO_KINDS), "--records", 4_000, *mix, "--out", tmp_path / "log"
    )
    assert made.exit_code == 0, made.stderr
    events = printed("replay", tmp_path / "log")
    seen = Counter(it["type"] for it in events)
    assert [it for event in events for it in wrong("event", event)] == []
    assert set(seen) == {*EVENT_CLASSES} - {"group_sample"}, seen


def test_samples() -> None:
    known = GroupSample(
        1_790_000_000_000, 3, 7, "g", "classic", "Stable", 2, 1.0, None, GroupLagTotal(4, 3, 12, 1.5, True)
    )
    for sample in (known, known._replace(lag=GroupLagTotal(), imbalance_ratio=None, load_imbalance_ratio=2.0)):
        for cluster in (None, "eu"):
            assert wrong("event", sample_event(sample, cluster)) == []


def test_an_event_of_a_type_to_come_is_valid() -> None:
    event = {
        **sample_event(GroupSample(1, 3, 7, "g", "classic", "Stable", 0, None, None, GroupLagTotal())),
        "type": "group_slept",
    }
    as_given, closed = validators("event")
    assert as_given.is_valid({**event, "dreams": 3})
    assert not closed.is_valid(event)
    assert not as_given.is_valid({**event, "type": "rebalance"})


def test_a_field_to_come_is_valid_and_a_missing_one_is_not() -> None:
    event = sample_event(GroupSample(1, 3, 7, "g", "classic", "Stable", 0, None, None, GroupLagTotal()))
    as_given, _ = validators("event")
    assert as_given.is_valid({**event, "dreams": 3})
    for name in event:
        assert not as_given.is_valid({key: value for key, value in event.items() if key != name}), name


# What commands print.


def test_groups_members_and_lag() -> None:
    rows = printed("groups", "--from", SEGMENTS)
    assert [it for row in rows for it in wrong("group", row)] == []
    assert len({row["group_type"] for row in rows}) > 1
    for row in rows:
        form = printed("describe", row["group"], "--from", SEGMENTS)
        assert wrong("describe", form) == []
    for name in (rows[0]["group"], rows[-1]["group"]):
        for document_name, command in (("member", "members"), ("lag", "lag")):
            for item in printed(command, name, "--from", SEGMENTS):
                assert wrong(document_name, item) == []


def test_what_an_agent_adds() -> None:
    row = printed("groups", "--from", SEGMENTS)[0]
    assert wrong("group", {**row, "cluster": "eu", "lag": 3}) == []
    form = printed("describe", "ads-eos", "--from", SEGMENTS)
    form["offsets"][0] |= {
        **{"lag": 3, "lag_seconds": 1.25, "lag_seconds_at_least": True, "lag_note": "open_transaction"},
        **{"log_start": 0, "end": 9, "held_back": 2, "lost": 0},
    }
    assert wrong("describe", {**form, "cluster": "eu"}) == []


def test_stories() -> None:
    for row in printed("groups", "--from", SEGMENTS):
        assert wrong("explain", printed("explain", row["group"], "--from", SEGMENTS)) == []


def test_a_story_with_numbers() -> None:
    form = printed("explain", "pricing-poll", "--from", SEGMENTS, "--whatif")
    assert form["whatif"] is not None
    assert wrong("explain", form) == []
    gain = Gain("static membership", ("group.instance.id=…",), "the clients", 3, 1, 2.0, 0.5, None, 12, "", ("so",))
    form["whatif"] = json.loads(json.dumps(Gains((gain,), 3).to_json()))
    assert wrong("explain", form) == []


def test_whatif() -> None:
    for group in ("ads-eos", "pricing-static"):
        result = kshadow("whatif", group, "--from", LOG, "-o", "json")
        if result.exit_code == 0:
            assert wrong("whatif", json.loads(result.stdout)) == []
            return
    raise AssertionError("nothing to compare")


def test_records(tmp_path: Path) -> None:
    seen = Counter[str]()
    for line in lines(kshadow("decode", SEGMENTS)):
        record = json.loads(line)
        assert wrong("record", record) == []
        seen["marker" if "control" in record else "tombstone" if record["value"] is None else "value"] += 1
    assert set(seen) == {"marker", "tombstone", "value"}
    bad = tmp_path / "bad.ndjson"
    bad.write_text('{"key": "00ff", "value": null}\n{"key": "0002", "value": "00"}\nnonsense\n', encoding="ascii")
    result = kshadow("decode", bad)
    assert result.exit_code == 1
    for line in lines(result):
        assert wrong("record", json.loads(line)) == [], line


def test_assignors(tmp_path: Path) -> None:
    form = printed("assign", "ads-eos", "--from", SEGMENTS)
    assert form["alternatives"]
    assert wrong("assign", form) == []
    file = tmp_path / "problems.ndjson"
    problem = {"assignor": "range", "partitions": {"t": 3}, "members": {"m-1": {"topics": ["t"]}}}
    file.write_text(json.dumps(problem), encoding="ascii")
    (answer,) = printed("assign", file)
    assert wrong("assignment", answer) == []


def test_the_rest() -> None:
    assert wrong("coordinator", printed("coordinator", "payments")) == []
    for item in printed("analyzers"):
        assert wrong("analyzer", item) == []
    for item in printed("config", "show", "--no-lag"):
        assert wrong("setting", item) == []
    checks = printed("doctor", "--bootstrap-server", "localhost:1", "--timeout", 0.5, code=3)
    assert [it for check in checks for it in wrong("check", check)] == []


def test_contexts(tmp_path: Path) -> None:
    env = {"KSHADOW_CONTEXTS": str(tmp_path / "contexts.yaml")}
    for arguments in (("eu", "--agent", "http://localhost:1", "--agent-user", "sre"), ("us", "--from", SEGMENTS)):
        assert kshadow("context", "set", *arguments, env=env).exit_code == 0
    rows = json.loads(kshadow("context", "list", "-o", "json", env=env).stdout)
    shown = json.loads(kshadow("context", "show", "us", "-o", "json", env=env).stdout)
    assert [wrong("context", row) for row in (*rows, shown)] == [[], [], []]
    assert [row["current"] for row in rows] == [True, False]


def test_the_status_of_an_agent() -> None:
    agent = Agent(AgentOptions(conf={"bootstrap.servers": "localhost:1"}))
    try:
        form = {"version": "0", "ready": False, "reason": "", "uptime_s": 0.0, **agent.queries.status()}
    finally:
        agent.stop()
    assert wrong("status", form) == []
    form["partitions"] = {"3": {"next_offset": 7, "behind_records": None, "caught_up": False, "clock_ms": None}}
    form["snapshots"] = CheckpointReading(None, {"ok": 1}, {}, 0, None)._asdict()
    assert wrong("status", form) == []
    assert set(DEFS["sink_status"]["properties"]) == {*SinkReading.__struct_fields__}


def test_the_command_that_prints_them() -> None:
    assert {it["name"]: it["many"] for it in printed("schema")} == {name: it.many for name, it in DOCUMENTS.items()}
    for name in DOCUMENTS:
        assert kshadow("schema", name).stdout == text_of(document(name))
    assert printed("schema", "openapi") == openapi()
    nothing = kshadow("schema", "nothing")
    assert (nothing.exit_code, "there are event, finding" in nothing.stderr) == (2, True)


# Promises.

OLD = document("event")


def changed(*path: str, **to: Any) -> dict[str, Any]:
    schema = copy.deepcopy(OLD)
    place = schema["$defs"]
    for step in path:
        place = place[step]
    for name, value in to.items():
        if value is None:
            del place[name]
        else:
            place[name] = value
    return schema


REBALANCE = ("event_rebalance", "properties")


@pytest.mark.parametrize(
    ("new", "is_addition"),
    [
        (OLD, True),  # 1: nothing
        (changed(*REBALANCE, weather={"type": "string"}), True),  # 2: one more field
        (changed(event_nap={"type": "object"}), True),  # 3: one more shape
        (
            changed(*REBALANCE, cause={"type": "string", "examples": ["fate"]}),
            True,
        ),  # 4: other words
        (changed(*REBALANCE, cause=None), False),  # 5: a field less
        (changed(*REBALANCE, members={"type": "string"}), False),  # 6: of another type
        (changed(*REBALANCE, members={"type": ["integer", "null"]}), False),  # 7: null now
        (changed(*REBALANCE, generation={}), False),  # 8: anything now
        (changed("event_rebalance", required=["schema"]), False),  # 9: fields that may be missing
        (changed("event_finding", "properties", state={"type": "string"}), False),  # 10: any word
        (changed("event_rebalance", "properties", "schema", const=2), False),  # 11: another version
        (changed(event_member=None), False),  # 12: a shape less
        (changed(*REBALANCE, joined={"type": "array", "items": {"type": "string"}}), False),  # 13: a list of others
        (changed(*REBALANCE, partition={"type": "integer"}), False),  # 14: may be negative
    ],
)
def test_only_additions_within_a_version(new: dict[str, Any], is_addition: bool) -> None:
    assert (not [*broken(OLD, new)]) is is_addition
