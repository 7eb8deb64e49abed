"""`kshadow doctor` on real brokers: what works, and one thing after the other that does not."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from agent.kafka.source.errors import SourceUnreachable
from agent.tools.doctor import Check, CheckOutcome, DoctorRequest, examine, rights, topic
from agent.tools.doctor.connection import connect_admin
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from agent.tools.embedded.ports import free_ports
from tests.harness.kafka import EmbeddedCluster
from tests.live.scenarios import faults
from tests.live.scenarios.certificates import DAY, Authority
from tests.live.scenarios.secured import (
    DESCRIBE_GROUPS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPICS,
    READ_TOPIC,
    TOPIC,
    Right,
    Secured,
    secured,
)
from tests.live.versions import CLASSIC, NEWEST, SUPPORTED
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 4
PROPERTIES = {"offsets.topic.num.partitions": str(PARTITIONS)}
USER = "ks-doctor"
HISTORY, SNAPSHOTS, NEW, SHARE = "kshadow-history", "kshadow-snapshots", "kshadow-new", "kshadow-shards"


def topic_right(operation: AclOperation, name: str) -> Right:
    return Right(operation, ResourceType.TOPIC, name)


ALL = {
    "Describe __consumer_offsets": DESCRIBE_TOPIC,
    "Read __consumer_offsets": READ_TOPIC,
    "Describe groups": DESCRIBE_GROUPS,
    "Describe topics": DESCRIBE_TOPICS,
    f"Write {HISTORY}": topic_right(AclOperation.WRITE, HISTORY),
    f"Read {SNAPSHOTS}": topic_right(AclOperation.READ, SNAPSHOTS),
    f"Write {SNAPSHOTS}": topic_right(AclOperation.WRITE, SNAPSHOTS),
    f"Create {NEW}": topic_right(AclOperation.CREATE, NEW),
    f"Read group {SHARE}": Right(AclOperation.READ, ResourceType.GROUP, SHARE),
}
OPTIONAL = {
    "DescribeConfigs cluster": Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.BROKER, "kafka-cluster"),
    "DescribeConfigs groups": Right(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP, "*"),
}
"""The agent does without."""
OPTIONS = ("--history-topic", HISTORY, "--snapshots", f"kafka:{SNAPSHOTS}", "--share-group", SHARE)


@pytest.fixture(autouse=True)
def no_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "WATCH_S", 0.2)


def commit(servers: str, count: int = 20) -> None:
    conf = {"bootstrap.servers": servers, "group.id": "orders", "log_level": 0, "enable.auto.commit": False}
    consumer = Consumer(conf)
    for offset in range(count):
        faults.commit(consumer, TopicPartition("orders", 0, offset))
    consumer.close()


@pytest.fixture(scope="module", params=SUPPORTED)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("doctor")
    with secured(fetch_jars(request.param), directory, properties=PROPERTIES) as it:
        faults.create(it.broker, PARTITIONS)
        for made in it.admin.create_topics(
            [NewTopic(name, 1, 1) for name in ("orders", HISTORY, SNAPSHOTS)]
        ).values():
            made.result(20)
        commit(it.broker.admin_servers)
        it.user(USER)
        yield it


def doctor(conf: dict[str, str], *options: str) -> Result:
    properties = [
        it for name, value in conf.items() if name != "bootstrap.servers" for it in ("-X", f"{name}={value}")
    ]
    listen = ("--listen", f"127.0.0.1:{free_ports(1)[0]}")
    return kshadow("doctor", "--bootstrap-server", conf["bootstrap.servers"], *properties, *listen, *options)


@pytest.mark.parametrize(
    ("version", "types"), [(NEWEST, "consumer (KIP-848), share, streams"), (CLASSIC, "classic;")]
)
def test_which_groups_a_cluster_can_have(version: str, types: str) -> None:
    """3.9 told of KIP-848's requests, and so of groups of it, which it has not."""
    with EmbeddedBroker(fetch_jars(version)) as broker:
        told = doctor({"bootstrap.servers": broker.bootstrap_servers}, "-o", "ndjson")
    (found,) = (it["found"] for it in map(json.loads, told.stdout.splitlines()) if it["check"] == "version")
    assert types in found


def outcomes(result: Result) -> dict[str, str]:
    """By check and what it is of."""
    return {f"{it['check']} {it['on']}": it["outcome"] for it in map(json.loads, result.stdout.splitlines())}


def failed(conf: dict[str, str], timeout_s: float = 5, **wanted: object) -> list[Check]:
    checks = examine(DoctorRequest(conf, timeout_s=timeout_s, **wanted))  # type: ignore[arg-type]
    return [it for it in checks if it.outcome is CheckOutcome.FAILED]


def test_everything_is_granted(cluster: Secured, tmp_path: Path) -> None:
    cluster.allow(USER, *ALL.values(), *OPTIONAL.values())
    conf = cluster.conf(USER)
    result = doctor(conf, *OPTIONS, "--state-dir", str(tmp_path), "-o", "ndjson")
    assert (result.exit_code, result.stderr) == (0, "")
    made = outcomes(result)
    assert "failed" not in made.values()
    rights = {name.removeprefix("right: "): outcome for name, outcome in made.items() if name.startswith("right: ")}
    # Groups have no settings before Kafka 4.0.
    optional = [it for it in OPTIONAL if cluster.broker.jars.major >= 4 or it != "DescribeConfigs groups"]
    assert rights == {name: "ok" for name in (*ALL, *optional) if NEW not in name}
    assert made[f"records {TOPIC}"] == "ok"
    assert made[f"topic {TOPIC}"] == "warning", "one replica"
    assert made[f"settings {TOPIC}"] == "skipped", "DescribeConfigs is not granted, and not needed"
    assert made[f"state directory {tmp_path}"] == "ok"
    table = doctor(conf, *OPTIONS)
    assert table.exit_code == 0
    assert re.search(
        r"^records +__consumer_offsets +ok +20 records: 20 offset_commit v\d$", table.stdout, re.MULTILINE
    )
    last = table.stdout.rstrip("\n").rpartition("\n")[2]
    assert last.startswith("All that is needed works. Next: kshadow run --bootstrap-server ")
    assert f"--snapshots kafka:{SNAPSHOTS}" in last
    assert "sasl.password=…" in last
    created = doctor(conf, "--history-topic", NEW, "-o", "ndjson")
    assert (created.exit_code, outcomes(created)[f"right: Create {NEW}"]) == (0, "ok")
    assert NEW not in cluster.admin.list_topics(timeout=10).topics, "nothing was made"


@pytest.mark.parametrize("missing", ALL)
def test_the_right_that_is_missing_is_named(cluster: Secured, missing: str) -> None:
    right = ALL[missing]
    # Read and a right to all topics bring Describe along: so what is granted elsewhere is denied here.
    denied = right._replace(deny=True)
    others = [it for name, it in ALL.items() if name != missing]
    cluster.allow(USER, *others, *([denied] if right.name == TOPIC else []))
    options = ("--history-topic", NEW) if missing == f"Create {NEW}" else OPTIONS
    if missing == f"Create {NEW}":
        cluster.allow(USER, *others, topic_right(AclOperation.DESCRIBE, NEW))
    result = doctor(cluster.conf(USER), *options, "-o", "ndjson")
    assert result.exit_code == 3
    bad = [it for it in map(json.loads, result.stdout.splitlines()) if it["outcome"] == "failed"]
    assert [f"{it['check'].removeprefix('right: ')} {it['on']}" for it in bad] == [missing]
    assert bad[0]["found"].startswith(f"missing: {missing.split()[0]} on ")
    command = bad[0]["fix"][0]
    assert command.startswith(f"kafka-acls.sh --bootstrap-server {cluster.broker.bootstrap_servers} ")
    assert f"--add --allow-principal User:{USER} " in command
    assert f"--operation {missing.split()[0]} " in command
    assert command.endswith((f" {right.name}", " '*'"))


@pytest.mark.parametrize("missing", [None, "Describe groups", "Describe topics"])
def test_a_cluster_whose_topic_is_closed(cluster: Secured, tmp_path: Path, missing: str | None) -> None:
    """What `--source admin` needs, by the option and by a file; the topic is not asked for."""
    needed = ("Describe groups", "Describe topics")
    cluster.allow(USER, *(ALL[it] for it in needed if it != missing), DESCRIBE_TOPIC._replace(deny=True))
    result = doctor(cluster.conf(USER), "--source", "admin", "-o", "ndjson")
    made = outcomes(result)
    assert not [it for it in made if TOPIC in it]
    assert {it: made[f"right: {it}"] for it in needed} == {it: "failed" if it == missing else "ok" for it in needed}
    bad = [it for it in map(json.loads, result.stdout.splitlines()) if it["outcome"] == "failed"]
    assert result.exit_code == (0 if missing is None else 3)
    if missing is not None:
        (command,) = bad[0]["fix"]
        assert command.endswith(f"--operation Describe --{missing.split()[1][:-1]} '*'")
        return
    assert "described 1 of 1 group" in result.stdout
    assert "1 topic (" in result.stdout, "the one that the group has committed for"
    (tmp_path / "kshadow.yaml").write_text("source: admin")
    conf = [it for name, value in cluster.conf(USER).items() for it in ("-X", f"{name}={value}")]
    brokers = ("--bootstrap-server", cluster.broker.bootstrap_servers, "--listen", f"127.0.0.1:{free_ports(1)[0]}")
    table = kshadow("--config", tmp_path / "kshadow.yaml", "doctor", *brokers, *conf[2:])
    assert table.exit_code == 0
    assert "All that is needed works. Next: kshadow --config" in table.stdout


def test_the_least_rights_suffice_for_what_is_wanted(cluster: Secured) -> None:
    cluster.allow(USER, READ_TOPIC, DESCRIBE_TOPIC)
    result = doctor(cluster.conf(USER), "--no-admin", "--no-lag", "-o", "ndjson")
    assert (result.exit_code, set(outcomes(result).values())) == (0, {"ok", "warning", "skipped"})


@pytest.mark.parametrize(
    ("properties", "check", "found", "fix"),
    [
        ({"sasl.password": "wrong"}, "login", "does not let us in with these credentials", "no user 'ks-doctor'"),
        ({"sasl.username": "nobody"}, "login", "does not let us in with these credentials", "no user 'nobody'"),
        ({"sasl.mechanism": "PLAIN"}, "mechanism", "does not take PLAIN; it takes SCRAM-SHA-512", "SCRAM-SHA-512"),
        ({"security.protocol": "PLAINTEXT"}, "protocol", r"wants TLS \(SASL_SSL\)", "security.protocol=SASL_SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "protocol", r"wants TLS \(SASL_SSL\)", "=SASL_SSL"),
        ({"security.protocol": "SSL"}, "protocol", "wants a login.* takes SCRAM-SHA-512", "=SASL_SSL"),
    ],
    ids=lambda it: "-".join(it) if isinstance(it, dict) else None,
)
def test_properties_that_are_wrong(
    cluster: Secured, properties: dict[str, str], check: str, found: str, fix: str
) -> None:
    result = doctor({**cluster.conf(USER), **properties}, "-o", "ndjson")
    assert result.exit_code == 3
    (bad,) = (it for it in map(json.loads, result.stdout.splitlines()) if it["outcome"] == "failed")
    assert bad["check"] == check
    assert re.search(found, bad["found"])
    assert fix in bad["fix"][0]


def test_tls_and_a_login_to_a_port_that_has_neither(cluster: Secured) -> None:
    (bad,) = failed({**cluster.conf(USER), "bootstrap.servers": cluster.broker.admin_servers})
    assert (bad.check, bad.fix[0].partition(",")[0]) == ("tls", "-X security.protocol=PLAINTEXT")
    conf = {**cluster.conf(USER), "security.protocol": "SASL_PLAINTEXT"}
    (bad,) = failed({**conf, "bootstrap.servers": cluster.broker.admin_servers})
    assert (bad.check, bad.fix[0].partition(",")[0]) == ("protocol", "-X security.protocol=PLAINTEXT")


def test_an_authority_that_nobody_trusts(cluster: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    (bad,) = failed({**cluster.conf(USER), "ssl.ca.location": str(other.file)})
    assert bad.check == "certificate"
    assert "signed by kshadow test authority, which is not among those in" in bad.found


def test_one_bootstrap_server_is_enough(cluster: Secured) -> None:
    cluster.allow(USER, *ALL.values())
    conf = cluster.conf(USER)
    conf["bootstrap.servers"] = f"127.0.0.1:{free_ports(1)[0]},{conf['bootstrap.servers']}"
    checks = list(examine(DoctorRequest(conf)))
    assert [it for it in checks if it.outcome is CheckOutcome.FAILED] == []
    assert [it.outcome for it in checks if it.check == "connection"] == [CheckOutcome.WARNING, CheckOutcome.OK]


def test_clocks_by_what_is_written_meanwhile(cluster: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(topic, "WATCH_S", 4.0)
    conf = {"bootstrap.servers": cluster.broker.admin_servers}
    sample = topic.TopicSample()
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(topic.read_sample, DoctorRequest(conf), sample)
        while not reading.done():
            commit(cluster.broker.admin_servers, 5)
        reading.result()
    assert sample.skews_ms
    least, most = max(low for low, _ in sample.skews_ms), min(high for _, high in sample.skews_ms)
    assert least <= 0 <= most, "the broker has our clock"
    assert topic.check_clocks(sample).outcome is CheckOutcome.OK


@pytest.mark.parametrize(
    ("hosts", "ends_in", "found"),
    [(["127.0.0.1"], -DAY, "has expired"), (["kafka.example.com"], DAY, "not for 127.0.0.1, but for kafka.example")],
    ids=["expired", "another host"],
)
def test_a_broker_with_a_bad_certificate(hosts: list[str], ends_in: object, found: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("broker", hosts=hosts, begins_in=-9 * DAY, ends_in=ends_in)  # type: ignore[arg-type]
    with secured(fetch_jars(), tmp_path / "it", properties=PROPERTIES, certificate=signed) as it:
        (bad,) = failed({**it.user(USER), "ssl.ca.location": str(authority.file)})
        assert bad.check == "certificate"
        assert found in bad.found


def test_a_broker_that_wants_our_certificate(tmp_path: Path) -> None:
    with secured(fetch_jars(), tmp_path, properties=PROPERTIES, client_certificates=True) as it:
        conf = it.user(USER)
        (bad,) = failed(conf)
        assert (bad.check, "wants a certificate of ours, and none is given" in bad.found) == ("protocol", True)
        assert bad.fix[0].startswith("-X ssl.certificate.location=FILE")
        expired = it.authority.sign("expired", begins_in=-9 * DAY, ends_in=-DAY)
        ours = {"ssl.certificate.location": str(expired.certificate), "ssl.key.location": str(expired.key)}
        (bad,) = failed(conf | ours)
        assert bad.found.startswith(f"the broker refuses our certificate in {expired.certificate}: ")
        assert bad.fix[0].endswith(f"openssl x509 -noout -enddate -issuer -in {expired.certificate}")
        signed = it.authority.sign("client")
        conf |= {"ssl.certificate.location": str(signed.certificate), "ssl.key.location": str(signed.key)}
        assert [bad.on for bad in failed(conf, observer=False, lag=False)] == [TOPIC], "in, and without rights"


def test_a_plain_broker_and_its_troubles() -> None:
    with EmbeddedBroker(fetch_jars(), properties=PROPERTIES, heap="256m") as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        assert failed(conf) == []
        missing = next(it for it in examine(DoctorRequest(conf)) if it.check == "topic")
        assert (missing.outcome, "there is no such topic" in missing.found) == (CheckOutcome.WARNING, True)
        time.sleep(1)
        admin = faults.admin_of(broker)
        assert not admin.list_topics(timeout=10).topics, "nor did our questions make it"
        faults.create(broker, PARTITIONS)
        assert failed(conf, timeout_s=30) == []
        properties = dict(
            line.split("=", 1) for line in (broker.directory / "server.properties").read_text().splitlines()
        )
        _, _, controller = properties["controller.quorum.voters"].partition("@")
        (bad,) = failed({"bootstrap.servers": controller})
        assert (bad.check, bad.found) == (
            "protocol",
            "a controller (KRaft), not a broker: it does not tell clients of topics",
        )
        producer = Producer({**conf, "client.id": "__admin_client", "log_level": 0})
        producer.produce(TOPIC, b"value", b"\x7f\xffkey", partition=1)
        assert producer.flush(20) == 0
        checks = {it.check: it for it in examine(DoctorRequest(conf))}
        assert checks["records"].outcome is CheckOutcome.WARNING
        assert "1 of 1 record cannot be decoded: 1 unknown_key_type" in checks["records"].found
        assert checks["settings"].outcome is CheckOutcome.WARNING
        with faults.configured(broker, cleanup_policy="delete"):
            settings = next(it for it in examine(DoctorRequest(conf)) if it.check == "settings")
            assert "cleanup.policy=delete" in settings.found
        broker.pause()
        (bad,) = failed(conf)
        assert (bad.check, "hangs" in bad.found) == ("protocol", True)
        broker.resume()
        broker.kill()
        (bad,) = failed(conf)
        assert (bad.check, "nothing listens" in bad.found) == ("connection", True)


def test_a_coordinator_that_does_not_answer_and_is_there_later() -> None:
    """What was not answered is not granted; and librdkafka's question of then does not end the process."""
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.replication.factor": "3"}) as broker:
        asked = DoctorRequest({"bootstrap.servers": broker.bootstrap_servers}, timeout_s=2)
        link = connect_admin(asked)
        check = rights.describe_groups(asked, link, topic.TopicSample())
        assert check.outcome is CheckOutcome.FAILED
        assert "Timed out; whether this is granted is not known" in check.found
        faults.create(broker, PARTITIONS)
        broker.restart()
        until(lambda: rights.describe_groups(asked, link, topic.TopicSample()).outcome is CheckOutcome.OK)


@contextmanager
def unreachable() -> Iterator[str]:
    """An address that does not answer at all, as behind a firewall: its queue is full, and nobody accepts."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("advertised", "check"),
    [(nullcontext("nowhere.invalid:9092"), "name: no address"), (unreachable(), "connection: no answer")],
    ids=["unknown", "unreachable"],
)
def test_a_broker_that_advertises_where_it_is_not(advertised: AbstractContextManager[str], check: str) -> None:
    with advertised as address:
        properties = {**PROPERTIES, "advertised.listeners": f"CLIENT://{address}"}
        with EmbeddedBroker(fetch_jars(), properties=properties, heap="256m") as broker:
            (bad,) = failed({"bootstrap.servers": broker.bootstrap_servers}, timeout_s=3)
    assert (bad.check, bad.on, bad.found.startswith(check)) == ("broker", f"1 at {address}", True)
    assert "correct advertised.listeners of broker 1" in bad.fix[1]


@pytest.mark.thorough
def test_a_cluster_that_has_lost_a_broker() -> None:
    with EmbeddedCluster(fetch_jars(), properties=PROPERTIES, heap="256m") as cluster:
        faults.create(cluster, PARTITIONS, replicas=2)
        cluster.await_in_sync()
        conf = {"bootstrap.servers": cluster.bootstrap_servers}
        assert failed(conf, timeout_s=30) == []
        cluster.brokers[1].kill()
        until(lambda: set(cluster.leaders(TOPIC).values()) == {2}, said="the other broker leads")
        checks = list(examine(DoctorRequest(conf)))
        assert [it for it in checks if it.outcome is CheckOutcome.FAILED] == []
        (form,) = (it for it in checks if it.check == "topic")
        assert (form.outcome, "not all are in sync" in form.found) == (CheckOutcome.WARNING, True)


@pytest.mark.thorough
def test_half_of_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fetches that are not answered no right, no clock and no "no record" follows."""
    properties = {**PROPERTIES, "offsets.topic.replication.factor": "1"}
    with EmbeddedCluster(fetch_jars(), properties=properties, heap="256m") as cluster:
        faults.create(cluster, PARTITIONS)
        admin = faults.admin_of(cluster)
        admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(20)
        commit(cluster.bootstrap_servers)
        request = DoctorRequest({"bootstrap.servers": cluster.bootstrap_servers}, timeout_s=3)
        asked, full = topic.offsets_at, next(it for it in range(PARTITIONS) if faults.end(cluster, it))

        def longer(consumer: Consumer, name: str, numbers: list[int], which: int, timeout_s: float) -> dict[int, int]:
            ends = asked(consumer, name, numbers, which, timeout_s)
            return {it: end + (which == topic.LATEST) for it, end in ends.items()}

        with monkeypatch.context() as patched:
            patched.setattr(topic, "offsets_at", longer)  # as of logs that were cut since
            sample = topic.TopicSample()
            topic.read_sample(request, sample)
        assert (sample.reached, sample.kinds.total() >= 20) == (False, True)
        assert topic.check_clocks(sample).outcome is CheckOutcome.SKIPPED
        assert topic.check_decoded(sample).found.endswith("; not all came in time")

        def pausing(
            consumer: Consumer, name: str, numbers: list[int], which: int, timeout_s: float
        ) -> dict[int, int]:
            ends = asked(consumer, name, numbers, which, timeout_s)
            if which == topic.LATEST:
                for broker in cluster.brokers.values():
                    broker.pause()
            return ends

        with monkeypatch.context() as patched:
            patched.setattr(topic, "offsets_at", pausing)
            with pytest.raises(SourceUnreachable, match="no fetch answered in 3 s"):
                topic.read_sample(request, topic.TopicSample())
        for broker in cluster.brokers.values():
            broker.resume()
        until(lambda: -1 not in cluster.leaders(TOPIC).values(), said="the brokers lead again")
        cluster.brokers[cluster.leaders(TOPIC)[full]].kill()
        until(lambda: cluster.leaders(TOPIC)[full] == -1, said="nobody leads the partition with the records")
        request = DoctorRequest({"bootstrap.servers": cluster.bootstrap_servers})
        (records,) = (it for it in examine(request) if it.check == "records")
        assert (records.outcome, records.found) == (CheckOutcome.WARNING, "no record came; not all came in time")


def test_without_the_right_to_brokers_settings_doctor_says_what_is_lost(cluster: Secured) -> None:
    cluster.allow(USER, *ALL.values())

    def about(*options: str) -> dict[str, dict[str, Any]]:
        result = doctor(cluster.conf(USER), *options, "-o", "ndjson")
        assert result.exit_code == 0
        rows = map(json.loads, result.stdout.splitlines())
        return {it["on"]: it for it in rows if it["check"] == "right: DescribeConfigs"}

    found = about()
    brokers = found["cluster"]
    assert brokers["outcome"] == "warning"
    assert "of consumer, share and streams groups are taken to have Kafka's 45.0 s" in brokers["found"]
    acl, told = brokers["fix"]
    assert acl.endswith(f"--allow-principal User:{USER} --operation DescribeConfigs --cluster")
    assert told.startswith("or --broker-config group.consumer.session.timeout.ms=45000, ")
    assert "shuts out all others" in told
    if cluster.broker.jars.major >= 4:
        assert found["groups"]["outcome"] == "warning"
        assert found["groups"]["fix"][0].endswith("--operation DescribeConfigs --group '*'")
    names = [f"group.{it}.session.timeout.ms=10000" for it in ("consumer", "share", "streams")]
    some = about("--broker-config", names[0])["cluster"]
    assert (some["outcome"], "members of share and streams groups" in some["found"]) == ("warning", True)
    every = about(*(word for it in names for word in ("--broker-config", it)))["cluster"]
    assert every["outcome"] == "skipped"
    assert every["found"].startswith("not needed: --broker-config tells consumer 10.0 s")


def test_a_right_that_the_agent_does_without(cluster: Secured) -> None:
    """It comes last, since the topic is there from then on."""
    state = "__transaction_state"
    producer = Producer({"bootstrap.servers": cluster.broker.admin_servers, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(60)
    cluster.allow(USER, *ALL.values())
    result = doctor(cluster.conf(USER), "-o", "ndjson")
    assert (result.exit_code, outcomes(result)[f"right: Read {state}"]) == (0, "warning")
    cluster.allow(USER, *ALL.values(), topic_right(AclOperation.READ, state))
    result = doctor(cluster.conf(USER), "-o", "ndjson")
    assert (result.exit_code, outcomes(result)[f"right: Read {state}"]) == (0, "ok")
