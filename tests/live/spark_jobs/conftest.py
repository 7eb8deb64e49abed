"""The one Spark of these tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's own client leaves the sockets open over which rows come, until nobody holds them any more."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local one, set up as every job sets it up."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none")
    # Its workers are this interpreter, not whatever `python3` is.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = SparkSession.builder.config(
        map={
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            # Over so few rows compiled plans and plans that are made anew as sizes show cost more than they give.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
    ).getOrCreate()
    yield session("tests")
    made.stop()
