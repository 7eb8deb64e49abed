"""Real brokers with TLS, certificates of clients, users and rights: what the checks say, and what Spark reads."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, NewTopic, ResourcePatternType, ResourceType

from agent.kafka.source.once import read_to_end
from agent.tools.embedded import fetch_jars
from agent.tools.embedded.jars import cache_directory
from agent.tools.spark_submit.command import SubmitSettings, command, environment, split_secrets
from agent.tools.spark_submit.ivy import settings_file
from agent.tools.spark_submit.jobs import GROUP_PREFIX, SECRETS, Backfill, Kafka
from agent.tools.spark_submit.package import Code, build
from agent.tools.spark_submit.running import JobResult, run
from agent.tools.spark_submit.spark import find_spark
from spark_jobs.kafka import log_of
from tests.live.scenarios import faults
from tests.live.scenarios.secured import DESCRIBE_TOPIC, READ_TOPIC, TOPIC, Right, Secured, secured
from tests.unit.cli.running import kshadow

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 4
USER, KEY_PASSWORD = "spark", 'key "word\\'
GROUPS = Right(AclOperation.DESCRIBE, ResourceType.GROUP, GROUP_PREFIX, ResourcePatternType.PREFIXED)
LEAST = (DESCRIBE_TOPIC, READ_TOPIC, GROUPS)
ORDERS = tuple(Right(it, ResourceType.TOPIC, "orders") for it in (AclOperation.DESCRIBE, AclOperation.READ))

WRITE_EVENTS = (Right(AclOperation.WRITE, ResourceType.TOPIC, "events"),)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    settings = {"offsets.topic.num.partitions": str(PARTITIONS)}
    directory = tmp_path_factory.mktemp("rights")
    with secured(fetch_jars(), directory, properties=settings, client_certificates=True) as it:
        faults.create(it.broker, PARTITIONS)
        for made in it.admin.create_topics([NewTopic("orders", 2, 1), NewTopic("events", 1, 1)]).values():
            made.result(20)
        conf = {"bootstrap.servers": it.broker.admin_servers, "log_level": 0}
        consumer = Consumer({**conf, "group.id": "payments"})
        for offset in range(100):
            faults.commit(consumer, TopicPartition("orders", offset % 2, offset))
        consumer.close()
        producer = Producer(conf)
        for number in range(7):
            producer.produce("orders", str(number))
        assert producer.flush(20) == 0
        it.user(USER)
        yield it


@pytest.fixture
def properties(cluster: Secured) -> dict[str, str]:
    """With a certificate and its key in PEM."""
    signed = cluster.authority.sign("client")
    own = {"ssl.certificate.location": signed.certificate, "ssl.key.location": signed.key}
    return {**cluster.conf(USER), **{name: str(it) for name, it in own.items()}}


@pytest.fixture
def with_keystore(cluster: Secured, tmp_path: Path) -> dict[str, str]:
    """With both in PKCS#12, behind a password."""
    store = cluster.authority.sign("client-2").keystore(tmp_path / "client.p12", KEY_PASSWORD)
    own = {"ssl.keystore.location": str(store), "ssl.keystore.password": KEY_PASSWORD}
    return {**cluster.conf(USER), **own}


def dry_run(properties: dict[str, str], tmp_path: Path, **more: str) -> tuple[int, str]:
    conf = {**properties, **more}
    options = [it for name, value in conf.items() if name != "bootstrap.servers" for it in ("-X", f"{name}={value}")]
    source = ("--bootstrap-server", conf["bootstrap.servers"], *options)
    result = kshadow("spark", "backfill", *source, "--out", tmp_path / "out", "--dry-run")
    assert result.stdout.startswith("SPARK_HOME=") == (result.exit_code == 0)
    return result.exit_code, result.stderr


def test_the_check_asks_for_what_spark_needs(cluster: Secured, properties: dict[str, str], tmp_path: Path) -> None:
    cluster.allow(USER, *LEAST)
    code, said = dry_run(properties, tmp_path)
    assert (code, said.rstrip().partition("JSON object with ")[2]) == (0, "sasl.password, ssl.key.location")
    for granted, missing in (
        ((), f"ACL operation Describe on topic {TOPIC}"),
        ((GROUPS, DESCRIBE_TOPIC), f"ACL operation Read on topic {TOPIC}"),
        ((READ_TOPIC, DESCRIBE_TOPIC), f"ACL operation Describe on groups prefixed {GROUP_PREFIX}"),
    ):
        cluster.allow(USER, *granted)
        code, said = dry_run(properties, tmp_path)
        assert (code, said.startswith("Error: "), said.rstrip().endswith(f"needed: {missing}")) == (3, True, True), (
            said
        )


def test_the_check_says_that_the_password_is_wrong(
    cluster: Secured, properties: dict[str, str], tmp_path: Path
) -> None:
    cluster.allow(USER, *LEAST)
    code, said = dry_run(properties, tmp_path, **{"sasl.password": "wr0ng"})
    assert (code, "needed: credentials that the cluster accepts" in said, "wr0ng" in said) == (3, True, False)


def test_a_stream_asks_which_log_it_is_by_the_same_rights(cluster: Secured, properties: dict[str, str]) -> None:
    cluster.allow(USER, *LEAST)
    log, partitions = log_of(Kafka(properties=properties), TOPIC)
    assert (len(log.cluster_id), len(log.topic_id), partitions > 0) == (22, 22, True)


# Two ways of reading: what the job of the offsets topic does, and what is enough for other topics.
READER = """
import json, sys
from agent.tools.spark_submit.jobs import job_of
from spark_jobs.kafka import assigned, readable
from spark_jobs.session import session

kafka = job_of(sys.argv[1]).kafka
spark = session("test")


def rows(**options):
    return spark.read.format("kafka").options(**readable(kafka)).options(**options).load().count()


def tell(name, read):
    try:
        print("kshadow:", name, read(), flush=True)
    except Exception as error:
        print("kshadow:", name, "Not authorized to access group" in str(error) and "needs the group", flush=True)


tell("offsets", lambda: rows(**assigned(kafka, "__consumer_offsets")))
tell("subscribed", lambda: rows(subscribe="__consumer_offsets"))
spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "false")
tell("orders", lambda: rows(subscribe="orders"))
events = spark.createDataFrame([("{}",)], "value string").write.format("kafka").options(**readable(kafka))
tell("written", lambda: events.option("topic", "events").save())
spark.stop()
"""


def read_by_spark(properties: dict[str, str], directory: Path) -> tuple[JobResult, list[str]]:
    cache = cache_directory() / "spark"
    placing = SubmitSettings(
        ivy_home=cache / "ivy",
        ivy_settings=settings_file(cache / "ivy"),
        python=sys.executable,
        master="local[2]",
        driver_memory="1g",
    )
    main = directory / "main.py"
    main.write_text(READER)
    code = Code(build(directory / "cache").archive, main)
    job, secrets = split_secrets(Backfill(out="o", kafka=Kafka(properties=properties)))
    spark, said = find_spark(), []
    argv = command(job, placing, spark, code)
    assert properties["sasl.password"] not in " ".join(argv)
    env = {**os.environ, **environment(placing, spark), SECRETS: json.dumps(secrets)}
    return run(argv, env, main, said.append), said


@pytest.mark.thorough
def test_spark_reads_with_the_least_rights(cluster: Secured, properties: dict[str, str], tmp_path: Path) -> None:
    cluster.allow(USER, *LEAST, *ORDERS, *WRITE_EVENTS)
    runs = read_to_end({"bootstrap.servers": cluster.broker.admin_servers})
    rows = sum(len(it.offsets) for it in runs)
    assert rows >= 100
    ended, said = read_by_spark(properties, tmp_path)
    assert (ended.code, said) == (
        0,
        [
            f"kshadow: offsets {rows}",
            "kshadow: subscribed needs the group",
            "kshadow: orders 7",
            "kshadow: written None",
        ],
    ), ended
    groups = cluster.admin.list_consumer_groups().result(20).valid
    assert [it.group_id for it in groups] == ["payments"], "Spark leaves none behind"


@pytest.mark.thorough
def test_other_topics_need_no_right_on_groups(
    cluster: Secured, with_keystore: dict[str, str], tmp_path: Path
) -> None:
    cluster.allow(USER, DESCRIBE_TOPIC, READ_TOPIC, *ORDERS)
    ended, said = read_by_spark(with_keystore, tmp_path)
    assert (ended.code, said) == (
        0,
        [
            "kshadow: offsets needs the group",
            "kshadow: subscribed needs the group",
            "kshadow: orders 7",
            "kshadow: written False",
        ],
    ), ended
