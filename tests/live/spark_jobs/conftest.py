"""The one Spark of these tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from agent.tools.embedded.jars import cache_directory
from agent.tools.spark_submit.command import (
    CATALOG,
    DELTA,
    DELTA_CATALOG,
    DELTA_EXTENSION,
    DELTA_VERSION,
    EXTENSIONS,
    ICEBERG_RUNTIME,
    ICEBERG_VERSION,
)
from agent.tools.spark_submit.ivy import settings_file
from spark_jobs.session import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's own client leaves the sockets open over which rows come, until nobody holds them any more."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def formats(warehouse: Path) -> dict[str, str]:
    """Delta, and an Iceberg catalog `lake` in a directory, by the packages that the commands would download."""
    home = cache_directory() / "spark" / "ivy"
    return {
        "spark.jars.ivy": str(home),
        "spark.jars.ivySettings": str(settings_file(home)),
        "spark.jars.packages": f"{DELTA}_2.13:{DELTA_VERSION},{ICEBERG_RUNTIME}-4.0_2.13:{ICEBERG_VERSION}",
        EXTENSIONS: DELTA_EXTENSION,
        CATALOG: DELTA_CATALOG,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
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
            **formats(tmp_path_factory.mktemp("lake")),
        }
    ).getOrCreate()
    yield session("tests")
    made.stop()
