"""Whether Spark's Kafka source reads internal topics by the Admin client, as it does unless it is told otherwise:
`python -m tests.harness.spark.internal_topics HOST:PORT`.

`spark_jobs.session` tells it otherwise, by a setting that is deprecated, for as long as it does not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.kafka.source.segments import TOPIC
from agent.tools.embedded.jars import cache_directory

DEPRECATED = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


def jars() -> Sequence[Path]:
    """The connector and what it needs, as `kshadow spark` downloaded them; none before its first job did."""
    return sorted((cache_directory() / "spark" / "ivy" / "jars").glob("*.jar"))


def main(servers: str) -> None:
    """Print, as JSON, how many records of the topic are read with the setting on and off."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {"spark.master": "local[1]", "spark.jars": ",".join(map(str, jars())), "spark.ui.enabled": "false"}
    conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = SparkSession.builder.config(map={**conf, "spark.driver.memory": "512m"}).getOrCreate()
    source = {
        "kafka.bootstrap.servers": servers,
        "assign": json.dumps({TOPIC: [0]}),
        "groupIdPrefix": "kshadow-spark",
    }
    read = {}
    for value in ("true", "false"):
        spark.conf.set(DEPRECATED, value)
        read[value] = spark.read.format("kafka").options(**source).load().count()
    print(json.dumps(read))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
