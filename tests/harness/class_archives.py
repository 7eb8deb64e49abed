"""Archives of parsed classes (Java's CDS) for the JVMs that tests start: `python -m tests.harness.class_archives`.

Tests start some two hundred JVMs, brokers and Spark, and most of what each costs is to load the same classes. With an
archive a broker starts with two thirds of the work, Spark with half. Java itself sees whether an archive fits its
version and the jars, and goes without it otherwise. `make test` makes those that are missing or older than what they
are made from; `tests/conftest.py` has JVMs use them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import NamedTuple

from agent.tools.embedded import fetch_jars
from agent.tools.embedded.jars import cache_directory
from agent.tools.embedded.java import find_java
from agent.tools.spark_submit.spark import find_spark

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""That an archive does not fit (another Kafka's) is nothing to tell."""

BROKER = """
from confluent_kafka import Consumer
from agent.tools.embedded import EmbeddedBroker, fetch_jars
with EmbeddedBroker(fetch_jars()) as broker:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "any", "log_level": 0})
    consumer.subscribe(["none"])
    consumer.poll(3)
    consumer.close()
"""

SPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(9).selectExpr("id % 3 as k").groupBy("k").count().write.parquet(sys.argv[1] + "/rows")
spark.read.parquet(sys.argv[1] + "/rows").collect()
process = spark.sparkContext._gateway.proc
spark.stop()
process.stdin.close()
process.wait()
"""


def kafka_jars() -> Path:
    return fetch_jars().directory


def spark_jars() -> Path:
    return find_spark().home / "jars"


class Archive(NamedTuple):
    """What one is made by, and who uses it."""

    name: str
    program: str
    variable: str
    """Through which its JVMs are given options."""
    jars: Callable[[], Path]


ARCHIVES = (
    Archive("kafka", BROKER, "KAFKA_OPTS", kafka_jars),
    Archive("spark", SPARK, "SPARK_SUBMIT_OPTS", spark_jars),
)


def path_of(archive: Archive) -> Path:
    return cache_directory() / "classes" / f"{archive.name}.jsa"


def is_missing(archive: Archive) -> bool:
    """Whether it is not there, or older than Java or the jars."""
    path = path_of(archive)
    return not path.exists() or path.stat().st_mtime < max(
        it.stat().st_mtime for it in (find_java().resolve(), archive.jars())
    )


def use(environ: MutableMapping[str, str]) -> None:
    """Have JVMs that are started with these variables use what archives there are."""
    for archive in ARCHIVES:
        if (path := path_of(archive)).exists() and "SharedArchiveFile" not in environ.get(archive.variable, ""):
            options = f"-XX:SharedArchiveFile={path} {QUIET}"
            environ[archive.variable] = f"{environ.get(archive.variable, '')} {options}".strip()


def make(archive: Archive, environ: Mapping[str, str]) -> None:
    """Run its program; Java writes the archive as the JVM ends."""
    path = path_of(archive)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        made = Path(place, path.name)
        env = {**environ, archive.variable: f"-XX:ArchiveClassesAtExit={made} {QUIET}"}
        subprocess.run([sys.executable, "-c", archive.program, place], env=env, check=True)
        made.replace(path)


if __name__ == "__main__":
    for it in ARCHIVES:
        if is_missing(it):
            make(it, os.environ)
            print(f"{path_of(it)}: {path_of(it).stat().st_size >> 20} MiB")
