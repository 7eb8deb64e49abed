"""Asks `KafkaConnect.java`, and compares our workers to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.tools.embedded import fetch_tools
from agent.tools.embedded.java import java_command
from tests import ROOT
from tests.generate.kafka_connect.stories import Cluster, Story, comparable, make_story

RECORDED = ROOT / "tests" / "data" / "connect" / "kafka-4.3.1.ndjson"
PROGRAM = Path(__file__).with_name("KafkaConnect.java")
# The artifacts that tests/live/scenarios fetches as well: one download for both.
EXTRA = tuple(f"org.apache.kafka:{name}" for name in ("kafka-streams-examples", "connect-runtime", "connect-file"))


def kafkas(stories: Iterable[Story]) -> list[list[dict[str, Any]]]:
    """What Kafka's workers do in each round of each story."""
    return [[comparable(answer) for answer in answers] for answers in told_by_kafka(stories)]


def told_by_kafka(stories: Iterable[Story]) -> list[list[dict[str, Any]]]:
    """The same, with all that `KafkaConnect.java` tells."""
    jars = fetch_tools("4.3.1", extra=EXTRA)
    command = java_command(jars.classpath, str(PROGRAM))
    asked = "".join(json.dumps(story) + "\n" for story in stories)
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def compare(seeds: range) -> tuple[int, int, list[tuple[int, int]]]:
    """Of the rounds of these stories, those that are the same, all, and (seed, generation) of the others."""
    stories = [make_story(seed) for seed in seeds]
    total, others = 0, []
    for seed, story, answers in zip(seeds, stories, kafkas(stories), strict=True):
        cluster = Cluster(story)
        for row, expected in zip(story["rounds"], answers, strict=True):
            total += 1
            if comparable(cluster.play(row)) != expected:
                others.append((seed, row["generation"]))
    return total - len(others), total, others
