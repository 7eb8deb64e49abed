"""A process that puts numbered events and says what barriers promised: `python -m
tests.live.persistence.export.writer`.

    parquet|topic  PLACE  STATE_DIR  FIRST  [COUNT]

PLACE is a directory, or `bootstrap-server/topic`. It goes on from event FIRST until it is killed, or COUNT were put
and the exports stopped. On standard output: `promised N` when all events below N are safe.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from pathlib import Path

from agent.persistence.export.parquet_sink import ParquetSink
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import Sink
from agent.persistence.export.topic_sink import TopicSink
from tests.unit.persistence.export.made import event

GROUPS = 20


def main(kind: str, place: str, state: str, first: str, count: str = "0") -> None:
    logging.basicConfig(level=logging.WARNING)
    sink: Sink
    if kind == "parquet":
        sink = ParquetSink(place, roll_s=0.2, file_events=700)
    else:
        servers, _, topic = place.partition("/")
        sink = TopicSink({"bootstrap.servers": servers}, topic, patience_s=2)
    exports = ExportPipeline([sink], spool=SpoolSettings(Path(state), "c"), memory_bytes=400_000)
    exports.start()
    dice = random.Random(first)
    number = int(first)
    end = number + int(count) if int(count) else sys.maxsize
    while number < end:
        for _ in range(dice.randrange(1, 40)):
            exports.put([event(number + it, f"group-{(number + it) % GROUPS}") for it in range(10)])
            number += 10
            time.sleep(0.001)
        if dice.random() < 0.7 and exports.wait_durable(10):
            print("promised", number, flush=True)
    exports.stop(60)
    print("promised", number, flush=True)
    print("left", sum(it.buffered for it in exports.readings()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
