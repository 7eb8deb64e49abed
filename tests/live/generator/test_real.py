"""Generated histories, read by Kafka's own tool and loaded by a real broker."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from agent.kafka.writer.segments import write_segments
from agent.simulation.generator.histories import generate
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS, GroupKind
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from agent.tools.embedded import EmbeddedBroker, fetch_jars, fetch_tools
from agent.tools.embedded.java import run_class
from tests.harness.kafka import committed, described
from tests.unit.cli.running import kshadow
from tests.unit.simulation.generator.making import EVERY, SMALL, mirrored
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 5


def test_kafkas_dump_tool_finds_nothing_wrong(tmp_path: Path) -> None:
    settings = replace(SMALL, groups=57, commit_interval_ms=120_000, offsets_partitions=PARTITIONS)
    fates: list[str] = []
    records = generate(settings, lambda truth: fates.append(truth["fate"]))
    written = write_segments(records, tmp_path, segment_bytes=200_000)
    segments = sorted(tmp_path.rglob("*.log"))
    assert len(segments) > PARTITIONS
    said = run_class(
        fetch_tools().classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--deep-iteration", "--files", ",".join(map(str, segments))),
    ).splitlines()
    known = re.compile(r"Dumping |Log starting offset: \d+$|baseOffset: |\| offset: ")
    assert not [line for line in said if not known.match(line)], "warnings would stand here"
    dumped = [line for line in said if line.startswith("|")]
    assert len(dumped) == written.records
    keys = Counter(json.loads(line.partition(" key: ")[2].partition(" payload: ")[0])["type"] for line in dumped)
    assert set(keys) == {"1", "2", "3", "5", "6", "7", "8"}
    deleted = [line for line in dumped if line.endswith("payload: <DELETE>")]
    assert sum('"type":"2"' in line for line in deleted) == fates.count("deleted") > 0, "groups"
    assert sum('"type":"1"' in line for line in deleted) > 2, "and their offsets"


@pytest.mark.thorough  # what the model writes is replayed without a broker otherwise
def test_a_broker_that_loads_a_history_sees_the_groups_as_the_model_does(tmp_path: Path) -> None:
    # Nobody heartbeats for these members: they are there for as long as a session.
    settings = GeneratorSettings(
        0,
        groups=57,
        mix=EVERY,
        members=IntegerRange(1, 6),
        partitions=IntegerRange(1, 8),
        session_timeout_ms=1_500_000,
        duration_ms=10_800_000,
        commit_interval_ms=60_000,
        offsets_partitions=PARTITIONS,
    )
    truth_file = tmp_path / "truth.ndjson"
    properties = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        "group.consumer.session.timeout.ms": "1500000",
        "group.consumer.max.session.timeout.ms": "1500000",
    }
    with EmbeddedBroker(fetch_jars(), properties=properties) as broker:
        start_ms = int(time.time() * 1000) - settings.duration_ms
        conf = {"bootstrap.servers": broker.bootstrap_servers, "log_level": "2"}
        arguments = [
            *("generate", "--groups", 57, "--members", "1-6", "--partitions", "1-8", "--duration", "3h"),
            *("--commit-interval", "60s", "--session-timeout", "25m", "--start", start_ms, "--truth", truth_file),
            *(word for fate in SCENARIO_KINDS for word in ("--mix", fate)),
            *("--bootstrap-server", broker.bootstrap_servers),
        ]
        refused = kshadow(*arguments)
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert "--create-topic has it made" in refused.stderr
        said = kshadow(*arguments, "--create-topic")
        assert (said.exit_code, said.stderr) == (0, "")
        assert "Restart it, or move the leadership" in said.stdout
        broker.restart()

        made = mirrored(replace(settings, start_ms=start_ms))
        assert {it["group"]: it for it in map(json.loads, truth_file.read_text().splitlines())} == made.truths
        admin = AdminClient(conf)
        # Clients that ask for consumers' groups are not told of Connect's.
        kinds = {name: SCENARIO_KINDS[truth["fate"]].kind for name, truth in made.truths.items()}
        wanted = {
            name for name, form in made.forms.items() if form is not None and kinds[name] is not GroupKind.CONNECT
        }
        # A list has no error, and nothing of partitions that are not loaded yet.
        until(
            lambda: wanted <= {it.group_id for it in admin.list_consumer_groups().result(20).valid},
            said="all are listed",
        )
        seen = Counter()
        # Connect's at the end: by then all is loaded.
        for name, truth in sorted(made.truths.items(), key=lambda it: kinds[it[0]] is GroupKind.CONNECT):
            if kinds[name] is GroupKind.CONNECT:
                with pytest.raises(KafkaException, match=r"is not a consumer group \(connect\)"):
                    admin.describe_consumer_groups([name])[name].result(20)
                continue
            found = described(broker.bootstrap_servers, name)
            assert found.state.name.replace("_", "").lower() == truth["state"].lower(), truth
            assert {it.member_id: it.client_id for it in found.members} == {
                it["member_id"]: it["client"] for it in truth["members"]
            }
            if (
                kinds[name] is GroupKind.CLASSIC
            ):  # of others a client does not read it, or the broker knows no such topic
                assert {it.member_id: slots_of(it.assignment) for it in found.members} == {
                    it["member_id"]: Counter((t, n) for t, numbers in it["assignment"].items() for n in numbers)
                    for it in truth["members"]
                }
            form = made.forms[name]
            expected = {(it["topic"], it["partition"], it["offset"]) for it in form["offsets"]} if form else set()
            assert committed(broker.bootstrap_servers, name) == expected
            seen[truth["state"]] += 1
        assert seen.total() == 57 - sum(kind is GroupKind.CONNECT for kind in kinds.values())
        assert seen.keys() == {"Stable", "Empty", "Dead"}


def slots_of(assignment: Any) -> Counter[tuple[str, int]]:
    return Counter((at.topic, at.partition) for at in assignment.topic_partitions)
