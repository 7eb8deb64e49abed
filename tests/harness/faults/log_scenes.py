"""What happens to the log itself while it is read: compacted, cut off, deleted and made anew, poisoned."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from agent.simulation.generator.settings import GeneratorSettings
from tests.harness.faults import truth
from tests.harness.faults.load import load, make_topic, records
from tests.harness.faults.poison import POISON
from tests.harness.faults.recording import recording
from tests.harness.faults.scene import HISTORY, PARTITIONS, Scale, pause, scene
from tests.harness.faults.stage import fault
from tests.harness.faults.truth import Verdict
from tests.live.scenarios.faults import TOPIC, begin, compact, delete_segments, recreate

ALL = range(PARTITIONS)
MUTATED = 40
"""Records of the load, each changed in some bytes, for every one of the kinds of poison."""


@fault
def compacted(directory: Path, scale: Scale) -> Verdict:
    """The cleaner takes all but the newest record of each key, tombstones too, under a reader that is level."""
    with scene(f"log compacted {scale.times} times", directory, scale) as it, recording(it.servers) as control:
        it.agent.come_up()
        for _ in range(scale.times):
            pause(6)
            control.wait_level()
            compact(it.kafka, ALL)
        it.play_out()
        verdict = it.verdict(lambda: control.finish()[0])
        left = truth.log_of(it.servers)[1]
        verdict.said += f"; {sum(map(len, left))} of {verdict.records} records were left in the end"
        return verdict


@fault
def segments_deleted(directory: Path, scale: Scale) -> Verdict:
    """The log's beginning goes: under a reader that is level, and then beyond where a stopped one had come to.

    What was deleted while nobody read is lost. The state must be that of an agent that sees the log only now; the
    history all of that, and all that was told before its snapshots.
    """
    with scene(f"segments deleted {scale.times} times", directory, scale) as it, recording(it.servers) as control:
        it.agent.come_up()
        for _ in range(scale.times):
            pause(6)
            control.wait_level()
            delete_segments(it.kafka, ALL)
        pause(3)
        it.agent.kill()
        kept = truth.positions(truth.snapshots(it.state))
        pause(4)
        control.wait_level()
        began = delete_segments(it.kafka, ALL)
        assert any(began[partition] > position for partition, position in kept.items()), (began, kept)
        it.agent.come_up()
        it.play_out()
        control.wait_level()
        assert all(begin(it.kafka, partition) == offset for partition, offset in began.items())
        verdict = it.verdict()
        whole, _ = truth.all_told(it.servers, control.finish()[0])
        verdict.forgive_unexpected(whole)
        told = truth.told(truth.history(it.servers, HISTORY))
        lost = [event_id for event_id in whole if event_id not in told and event_id not in verdict.missing]
        verdict.missing += [event_id for event_id in lost if _offset(event_id) < kept.get(_partition(event_id), 0)]
        refused = it.agent.log.read_text().count("to go on at, got")
        verdict.said += f"; {refused} snapshots refused; {len(lost)} events can be told by nobody who did not see"
        verdict.said += f" the {sum(began[number] - kept.get(number, 0) for number in ALL)} records between"
        return verdict


def _partition(event_id: str) -> int:
    return int(event_id.split("-")[0])


def _offset(event_id: str) -> int:
    return int(event_id.split("-")[1])


@fault
def recreated(directory: Path, scale: Scale) -> Verdict:
    """The topic is deleted and made anew under a running agent, and other groups write to it."""
    half = replace(scale, seconds=max(60, scale.seconds / 2))
    with scene("topic deleted and made anew", directory, half) as it, recording(it.servers) as control:
        it.agent.come_up()
        it.play_out()
        control.wait_level()
        recreate(it.kafka)
        gone_ms = round(time.time() * 1000)
        make_topic(it.servers)
        again = load(
            it.servers,
            seed=scale.seed + 1,
            groups=half.groups,
            seconds=half.seconds,
            commit_interval_ms=half.commit_interval_ms,
        )
        with again as it.playing:
            it.play_out()
        verdict = it.verdict(lambda: control.finish()[1])
        before = control.logs[0]
        least, most = truth.all_told(it.servers, before, gone_ms)
        told = truth.told(truth.history(it.servers, HISTORY))
        verdict.expected += len(least)
        verdict.missing += [event_id for event_id in least if event_id not in told]
        verdict.forgive_unexpected(most)
        verdict.said += f"; {len(least)} of the events were of the log that is gone"
        return verdict


@fault
def poisoned(directory: Path, scale: Scale) -> Verdict:
    """Records that no coordinator writes, of every kind, among those of the load; and its records, changed."""
    dice = random.Random(scale.seed)
    settings = GeneratorSettings(0, groups=5, duration_ms=60_000, commit_interval_ms=1000, seed=scale.seed)
    pattern = list(records(settings))
    with scene("records of every kind of poison", directory, scale) as it:
        it.agent.come_up()
        producer = Producer({"bootstrap.servers": it.servers, "client.id": "__admin_client", "log_level": 2})
        put = 0
        for number, poison in enumerate(POISON * scale.times):
            pause(0.5)
            changed = [_changed(dice.choice(pattern).key, dice) for _ in range(MUTATED)]
            values = [_changed(dice.choice(pattern).value or b"\0\1", dice) for _ in range(MUTATED)]
            whole = [dice.choice(pattern) for _ in range(MUTATED)]
            mutants = zip(changed, (record.value for record in whole), strict=True)
            others = zip((record.key for record in whole), values, strict=True)
            for key, value in [poison, *mutants, *others]:
                producer.produce(TOPIC, value, key, number % PARTITIONS)
                put += 1
        assert producer.flush(60) == 0
        it.play_out()
        errors = it.total("kshadow_decode_errors_total")
        log = truth.log_of(it.servers)
        expected = truth.decode_errors(log)
        verdict = it.verdict()
        if errors != expected or expected < len(POISON) * scale.times:
            verdict.different.append(-1)
        verdict.said += f"; {put} records put among them, {errors:.0f} (expected {expected}) could not be decoded"
        return verdict


def _changed(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        match dice.randrange(3):
            case 0:
                out[dice.randrange(len(out))] = dice.randrange(256)
            case 1:
                out = out[: dice.randrange(1, len(out) + 1)]
            case _:
                at = dice.randrange(len(out) + 1)
                out[at:at] = dice.randbytes(dice.randint(1, 8))
    return bytes(out)
