"""The Spark that is there: where, of which version, and of which Scala. By its jars' names, without starting it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from agent.common.packages import package_directory
from agent.tools.spark_submit.errors import SubmitError

WANTED = "4.0"

_INSTALL = "install kshadow[spark], or set SPARK_HOME (--spark-home) to the directory of an unpacked Spark release"
_CORE = re.compile(r"spark-core_([\d.]+)-(\d+\.\d+\.\d+\S*)\.jar")
_CONNECTOR = "spark-sql-kafka-0-10_*.jar"


class Spark(NamedTuple):
    """A Spark release."""

    home: Path
    version: str
    """4.0.5"""
    scala: str
    """2.13"""
    has_connector: bool
    """Whether Kafka's connector lies among its jars already."""

    @property
    def submit(self) -> Path:
        """The command."""
        return self.home / "bin" / "spark-submit"

    def jar_version(self, artifact: str) -> str | None:
        """The version of a jar of Spark's own; None where it has none of that name."""
        found = sorted((self.home / "jars").glob(f"{artifact}-[0-9]*.jar"))
        return found[-1].stem.removeprefix(f"{artifact}-") if found else None


def find_spark(home: Path | None = None) -> Spark:
    """The Spark at `home`, or else that of the installed pyspark. Raises `SubmitError`."""
    spark = _of_release(_of_pyspark() if home is None else home)
    if spark.version.split(".")[:2] != WANTED.split("."):
        raise SubmitError(f"{spark.home}: expected Spark {WANTED}.x, got Spark {spark.version}: {_INSTALL}")
    return spark


def _of_pyspark() -> Path:
    if (directory := package_directory("pyspark")) is None:
        raise SubmitError(f"expected Spark, and pyspark is not installed: {_INSTALL}")
    return directory


def _of_release(home: Path) -> Spark:
    home = home.absolute()
    found = [
        match for jar in sorted((home / "jars").glob("spark-core_*.jar")) if (match := _CORE.fullmatch(jar.name))
    ]
    if not found or not (home / "bin" / "spark-submit").is_file():
        raise SubmitError(
            f"{home}: a Spark release with bin/spark-submit and jars/spark-core_SCALA-VERSION.jar expected,"
            f" came none: {_INSTALL}"
        )
    scala, version = found[0].groups()
    return Spark(home, version, scala, any((home / "jars").glob(_CONNECTOR)))
