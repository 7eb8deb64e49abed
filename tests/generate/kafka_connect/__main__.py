"""Records what Kafka's workers do (`record`), or compares ours to them (`compare [stories [seed]]`)."""

from __future__ import annotations

import json
import sys

from tests.generate.kafka_connect.asking import RECORDED, compare, kafkas
from tests.generate.kafka_connect.stories import make_story

RECORDED_STORIES = 30


def record() -> None:
    """Write the file that the plain tests read."""
    stories = [make_story(seed) for seed in range(RECORDED_STORIES)]
    with RECORDED.open("w", encoding="utf-8") as file:
        for story, answers in zip(stories, kafkas(stories), strict=True):
            rounds = [{**row, "expect": answer} for row, answer in zip(story["rounds"], answers, strict=True)]
            file.write(json.dumps({**story, "rounds": rounds}, separators=(",", ":")) + "\n")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["record"]:
            record()
        case ["compare", *rest]:
            stories, seed = map(int, [*rest, *("1000", "0")[len(rest) :]])
            same, total, others = compare(range(seed, seed + stories))
            print(f"{same}/{total}", *others[:5])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
