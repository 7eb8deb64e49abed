"""A program that writes large events to a topic as a stream does: one that a topic takes, one that it does not."""

from __future__ import annotations

import os
import secrets
import sys

from agent.tools.spark_submit.jobs import Kafka, Stream
from spark_jobs.errors import explained
from spark_jobs.streams.job import _produce
from tests.harness.spark.internal_topics import jars


def main(servers: str, topic: str) -> None:
    """Print how it went, a line each: `written`, or why not."""
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {"spark.master": "local[1]", "spark.jars": ",".join(map(str, jars())), "spark.ui.enabled": "false"}
    conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = SparkSession.builder.config(map={**conf, "spark.driver.memory": "512m"}).getOrCreate()
    kafka = Kafka(properties={"bootstrap.servers": servers})
    job = Stream(reads="topic", kafka=kafka, out="", checkpoint="", events_topic=topic)
    members = ",".join(f'{{"member_id":"consumer-{n}","partitions":[{n}]}}' for n in range(70_000))
    for event in (f"[{members}]", secrets.token_hex(1_500_000)):
        try:
            _produce(spark.createDataFrame([("g", event)], "key string, value string"), job, topic)
        except Py4JJavaError as error:
            print(explained(str(error)))
        else:
            print(f"written: {len(event)} bytes")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
