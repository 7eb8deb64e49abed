"""Records what Kafka's assignors answer (`record`), or compares ours to them (`compare [groups [seed]]`)."""

from __future__ import annotations

import json
import sys

from tests.generate.kafka_assignors.asking import RECORDED, Kafka, kafka
from tests.generate.kafka_assignors.groups import KINDS, compare, is_wanted, rounds

RECORDED_GROUPS = 8


def record(asked: Kafka) -> None:
    """Write the file that the plain tests read."""
    RECORDED.parent.mkdir(exist_ok=True)
    with RECORDED.open("w", encoding="utf-8") as file:
        for kind in KINDS:
            for form, answer in rounds(asked, kind, RECORDED_GROUPS, "recorded", small=True):
                assert answer is not None
                if is_wanted(form, answer):
                    row = {"kind": kind, **form, "expect": answer}
                    file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def main(arguments: list[str]) -> None:
    with kafka() as asked:
        match arguments:
            case ["record"]:
                record(asked)
            case ["compare", *rest]:
                groups, seed = [*rest, *("1000", "0")[len(rest) :]]
                for kind in KINDS:
                    found = compare(asked, kind, int(groups), seed)
                    more = f", {found.unwanted} more to who does not subscribe" if found.unwanted else ""
                    more += f", {found.unanswered} without an answer of Kafka's" if found.unanswered else ""
                    print(f"{kind}: {found.same}/{found.total}{more}", flush=True)
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
