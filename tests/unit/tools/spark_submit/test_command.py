"""The command line, from settings alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.tools.spark_submit.command import (
    DELTA_EXTENSION,
    check_coordinates,
    check_secrets,
    command,
    environment,
    packages_of,
    split_secrets,
)
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import SECRETS, Backfill, Job, Kafka, Report, Rollup, Stream, job_of
from agent.tools.spark_submit.package import Code
from tests.unit.tools.spark_submit.doubles import PLACING, SPARK

CODE = Code(Path("/c/code/kshadow.zip"), Path("/c/code/main.py"))
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
FILES = Backfill(out="/out", paths=("/data",))
TOPIC = Backfill(out="/out", kafka=Kafka(properties={"bootstrap.servers": "b:9092", "sasl.password": "s3"}))


def conf_of(argv: list[str]) -> list[str]:
    return [argv[at + 1] for at, it in enumerate(argv) if it == "--conf"]


def test_a_local_job() -> None:
    argv = command(FILES, PLACING, SPARK, CODE)
    assert argv[:-1] == [
        *("/opt/spark/bin/spark-submit", "--master", "local[*]", "--deploy-mode", "client"),
        *("--name", "kshadow backfill", "--driver-memory", "2g", "--py-files", "/c/code/kshadow.zip"),
        *("--conf", "spark.pyspark.driver.python=/usr/bin/python3"),
        *("--conf", "spark.pyspark.python=/usr/bin/python3", "/c/code/main.py"),
    ]
    assert job_of(argv[-1]) == FILES
    assert environment(PLACING, SPARK) == {"SPARK_HOME": "/opt/spark", "SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_job_that_needs_kafka() -> None:
    argv = command(TOPIC, PLACING, SPARK, CODE)
    assert argv[argv.index("--packages") + 1] == CONNECTOR
    assert conf_of(argv)[:2] == ["spark.jars.ivy=/c/ivy", "spark.jars.ivySettings=/c/ivy/settings.xml"]


def test_on_a_cluster_the_interpreters_are_its_own() -> None:
    client = replace(PLACING, master="yarn")
    assert conf_of(command(FILES, client, SPARK, CODE)) == ["spark.pyspark.driver.python=/usr/bin/python3"]
    cluster = replace(client, deploy_mode="cluster")
    argv = command(FILES, cluster, SPARK, CODE)
    assert conf_of(argv) == []
    assert argv[argv.index("--deploy-mode") + 1] == "cluster"
    assert environment(cluster, SPARK) == {"SPARK_HOME": "/opt/spark"}


def test_what_is_asked_for_wins_over_ours() -> None:
    asked = (("spark.pyspark.python", "/venv/bin/python"), ("spark.x", "a b=c"))
    argv = command(FILES, replace(PLACING, conf=asked, driver_memory="512m"), SPARK, CODE)
    assert conf_of(argv) == [
        "spark.pyspark.driver.python=/usr/bin/python3",
        "spark.pyspark.python=/venv/bin/python",
        "spark.x=a b=c",
    ]
    assert argv[argv.index("--driver-memory") + 1] == "512m"


@pytest.mark.parametrize("job", [Rollup(history=("/h",), out="/o"), Report(rollups="/r", out="/p.html"), FILES])
def test_no_connector_where_no_broker_is_asked(job: Job) -> None:
    assert packages_of(job, PLACING, SPARK) == ()
    assert packages_of(job, replace(PLACING, packages=("a:b:1",)), SPARK) == ("a:b:1",)


def test_the_connector_comes_to_what_is_asked_for_unless_it_is_there() -> None:
    assert packages_of(TOPIC, replace(PLACING, packages=("a:b:1",)), SPARK) == ("a:b:1", CONNECTOR)
    own = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1"
    assert packages_of(TOPIC, replace(PLACING, packages=(own,)), SPARK) == (own,)
    assert packages_of(TOPIC, PLACING, SPARK._replace(has_connector=True)) == ()
    to_a_topic = Stream(reads="history", history="/h", out="/o", checkpoint="/c", events_topic="t", kafka=TOPIC.kafka)
    assert packages_of(to_a_topic, PLACING, SPARK) == (CONNECTOR,)


DELTA_SPARK, HADOOP = "io.delta:delta-spark_2.13:4.0.0", "org.apache.hadoop:hadoop-aws:3.4.1"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (Backfill(out="/o", format="delta", paths=("/s",)), (DELTA_SPARK,)),
        (Rollup(history=("/h",), out="s3a://b/o", format="delta"), (DELTA_SPARK, HADOOP)),
        (Rollup(history=("/h",), out="a.b.c", format="iceberg"), (RUNTIME,)),
        (Rollup(history=("iceberg:a.b.c",), out="/o"), (RUNTIME,)),
        # Nobody has looked yet what lies there.
        (Report(rollups="s3a://b/r", out="/p.html"), (DELTA_SPARK, HADOOP)),
        (Backfill(out="/o", archives=("s3a://b/raw",)), (HADOOP,)),
    ],
)
def test_what_formats_and_stores_need(job: Job, wanted: tuple[str, ...]) -> None:
    assert packages_of(job, PLACING, SPARK) == wanted
    own = ("io.delta:delta-spark_2.13:4.0.9", "org.apache.hadoop:hadoop-aws:3.4.9", RUNTIME)
    assert packages_of(job, replace(PLACING, packages=own), SPARK) == own, "what is asked for wins"


def test_delta_tables_that_are_there_are_seen(tmp_path: Path) -> None:
    (tmp_path / "groups" / "_delta_log").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "groups"):
        assert packages_of(Report(rollups=str(place), out="/p.html"), PLACING, SPARK) == (DELTA_SPARK,)


def test_jars_that_spark_has_are_not_downloaded(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for name in ("delta-spark_2.13-4.0.1", "hadoop-client-api-3.4.2", "hadoop-client-runtime-3.4.2"):
        (tmp_path / "jars" / f"{name}.jar").touch()
    job = Rollup(history=("/h",), out="s3a://b/o", format="delta")
    hadoop = "org.apache.hadoop:hadoop-aws:3.4.2"
    assert packages_of(job, PLACING, SPARK._replace(home=tmp_path)) == (hadoop,), "of Spark's own Hadoop"


def test_delta_comes_beside_extensions_that_are_asked_for() -> None:
    mine = (("spark.sql.extensions", "org.Mine"), ("spark.sql.catalog.spark_catalog", "org.Catalog"))
    job = Backfill(out="/o", format="delta", paths=("/s",))
    conf = conf_of(command(job, replace(PLACING, conf=mine), SPARK, CODE))
    assert {"spark.sql.catalog.spark_catalog=org.Catalog", f"spark.sql.extensions=org.Mine,{DELTA_EXTENSION}"} <= {
        *conf
    }
    assert "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog" in conf_of(
        command(job, PLACING, SPARK, CODE)
    )


@pytest.mark.parametrize(
    ("coordinates", "said"),
    [
        ("spark-sql-kafka", "expected GROUP:ARTIFACT:VERSION, got 'spark-sql-kafka'"),
        ("a::1", "expected GROUP:ARTIFACT:VERSION"),
        (CONNECTOR.replace("2.13", "2.12"), "expected spark-sql-kafka-0-10_2.13, since Spark at /opt/spark is built"),
        (CONNECTOR.replace("2.13", "2.12"), "for Scala 2.13, got one for 2.12"),
        (
            CONNECTOR.replace("4.0.0", "3.5.1"),
            "expected version 4.0.x, since Spark at /opt/spark is 4.0.5, got 3.5.1",
        ),
    ],
)
def test_coordinates_that_do_not_fit(coordinates: str, said: str) -> None:
    with pytest.raises(SubmitError, match=r"^--packages: ") as error:
        check_coordinates(("a:b_2.12:1", coordinates), SPARK)
    assert said in str(error.value)


def test_coordinates_that_fit() -> None:
    check_coordinates((CONNECTOR, "org.apache.hadoop:hadoop-aws:3.4.1", "org.apache.spark:parent:1"), SPARK)


def test_secrets_are_not_on_the_command_line() -> None:
    job, secrets = split_secrets(TOPIC)
    assert secrets == {"sasl.password": "s3"}
    argv = command(job, PLACING, SPARK, CODE)
    assert json.loads(argv[-1])["kafka"] == {"properties": {"bootstrap.servers": "b:9092"}}
    assert "s3" not in " ".join(argv)
    assert split_secrets(FILES) == (FILES, {})
    properties = {"ssl.key.password": "1", "sasl.oauthbearer.client.secret": "2", "ssl.keystore.password": "3"}
    assert split_secrets(Backfill(out="/o", kafka=Kafka(properties=properties)))[1] == properties


def test_in_cluster_mode_secrets_must_come_another_way() -> None:
    cluster = replace(PLACING, master="k8s://x", deploy_mode="cluster")
    with pytest.raises(
        SubmitError, match=r"does not see this environment, and the properties sasl\.password"
    ) as error:
        check_secrets({"sasl.password": "s3"}, cluster)
    assert "s3" not in str(error.value)
    check_secrets({}, cluster)
    check_secrets({"sasl.password": "s3"}, PLACING)
    said = ((f"spark.kubernetes.driver.secretKeyRef.{SECRETS}", "kafka:secrets"),)
    check_secrets({"sasl.password": "s3"}, replace(cluster, conf=said))
