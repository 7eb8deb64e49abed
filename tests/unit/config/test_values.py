"""Values as people write them, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import values
from agent.config.options import PLACE
from agent.config.secrets import MAX_FILE_BYTES, redact, redact_properties, resolve_reference
from agent.config.settings import Address, Shard, SnapshotLocation


@pytest.mark.parametrize(
    "places",
    [
        ["/a", "b/c"],
        ["s3a://bucket/history"],
        ["s3://bucket", "/b", "gs://c/d"],
        ["hdfs://name:8020/a", "hdfs://name:8020/b"],
        ["iceberg:c.d.p", "/b"],
        ["/b", "s3://key:secret@bucket/a?endpoint=http://minio:9000"],
    ],
)
def test_places_in_a_variable(places: list[str]) -> None:
    assert PLACE.split_envvar_value(":".join(places)) == places


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("10B", 10),
        ("5kB", 5000),
        ("5KiB", 5120),
        ("500MB", 500_000_000),
        ("1GiB", 1 << 30),
        (" 2tib ", 2 << 40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert values.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "partitions"),
    [("3", (3,)), ("0-2,30", (0, 1, 2, 30)), ("5, 1-1", (1, 5)), ("2-4,3-5", (2, 3, 4, 5))],
)
def test_partitions(text: str, partitions: tuple[int, ...]) -> None:
    assert values.parse_partitions(text) == partitions


def test_shards() -> None:
    assert values.parse_shard("0/3") == Shard(0, 3)
    assert values.parse_shard("auto/3") == Shard(None, 3)
    assert str(Shard(None, 3)) == "auto/3"
    assert str(Shard(2, 3)) == "2/3"
    assert Shard(1, 3).resolve("whatever") == Shard(1, 3)
    assert Shard(None, 3).resolve("kshadow-2") == Shard(2, 3)
    assert Shard(None, 30).resolve("kshadow-012.svc.cluster.local") == Shard(12, 30)


@pytest.mark.parametrize("hostname", ["kshadow", "kshadow-3", "", "kshadow-1a", "host-99999999999999999999", "7.a"])
def test_a_host_that_tells_no_shard(hostname: str) -> None:
    with pytest.raises(ValueError, match="shard auto/3: expected a host name that ends in a number below 3, got '"):
        Shard(None, 3).resolve(hostname)


def test_places() -> None:
    assert values.parse_snapshot_location("kafka:snapshots") == SnapshotLocation(topic="snapshots")
    for text in ("/var/lib/kshadow", "a:b", "./kafka:x"):
        assert values.parse_snapshot_location(text) == SnapshotLocation(directory=text)
    for text in ("kafka:snapshots", "/var/lib"):
        assert str(values.parse_snapshot_location(text)) == text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9308", Address("127.0.0.1", 9308)),
        (":9308", Address("::", 9308)),
        ("[::1]:0", Address("::1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert values.parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "kafka-0.kafka:9092, kafka_1:9093,",
        "kafka",
        ":9092",
        "[::1]:9092",
        "::1",
        "[fe80::1%eth0]:65535",
        "PLAINTEXT://10.0.0.1:1,sasl_ssl://b:9092",
    ],
)
def test_brokers_as_librdkafka_takes_them(text: str) -> None:
    values.check_brokers(text)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (values.parse_size, "1 GiB of it", "expected a size (500MB, 1GiB, 1048576), got '1 GiB of it'"),  # 1
        (values.parse_size, "-1", "a size"),  # 2
        (values.parse_size, "1.5GiB", "a size"),  # 3
        (values.parse_size, "", "a size"),  # 4
        (values.parse_partitions, "", "expected partitions (0-24,30), got ''"),  # 5
        (values.parse_partitions, "1,", "expected partitions (0-24,30)"),  # 6
        (values.parse_partitions, "-1", "expected partitions (0-24,30)"),  # 7
        (values.parse_partitions, "5-2", "'5-2' goes backwards"),  # 8
        (values.parse_partitions, "0-999999999", "expected at most 10000 partitions"),  # 9
        (values.parse_shard, "3", "a shard (0/3, or auto/3 for the number"),  # 10
        (values.parse_shard, "3/3", "expected a shard that counts from 0 (0/3, 1/3, 2/3), got '3/3'"),  # 11
        (values.parse_shard, "auto/0", "expected a shard that counts from 0"),  # 12
        (values.parse_snapshot_location, "", "expected a directory or kafka:TOPIC, got nothing"),  # 13
        (
            values.parse_snapshot_location,
            "kafka:",
            "expected a topic's name (letters, digits, '.', '_' and '-'), got ''",
        ),  # 14
        (values.parse_topic, "..", "a topic's name"),  # 15
        (values.parse_topic, "a/b", "a topic's name"),  # 16
        (values.parse_topic, "__consumer_offsets", "a topic of kshadow's own, got '__consumer_offsets'"),  # 16a
        (values.parse_snapshot_location, "kafka:__consumer_offsets", "a topic of kshadow's own"),  # 16b: compacted
        (values.parse_cluster, "../x", "a name of at most 100 letters, digits"),  # 17
        (values.parse_cluster, ".", "a letter or digit first, got '.'"),  # 18
        (values.parse_cluster, "a" * 101, "at most 100"),  # 19
        (values.check_allowed_host, "kshadow.example:9308", "expected a host name without a port"),  # 19a
        (values.check_allowed_host, "10.1.2.3", "expected a host name without a port"),  # 19b: always allowed
        (values.check_allowed_host, "a*.example", "expected a host name without a port"),  # 19c
        (values.parse_address, "9308", "expected HOST:PORT, got '9308'"),  # 20
        (values.parse_address, "x:65536", "expected HOST:PORT"),  # 21
        (values.parse_address, "x:٣", "expected HOST:PORT"),  # 22: a digit, but no port
        (values.parse_address, "x:" + "9" * 5000, "expected HOST:PORT"),  # 23
        (values.check_brokers, "a:9092,b:87331", "expected HOST:PORT, with commas between, got 'b:87331'"),  # 24
        (values.check_brokers, "a:0", "got 'a:0'"),  # 25
        (values.check_brokers, "a:-1", "got 'a:-1'"),  # 26
        (values.check_brokers, "a:", "got 'a:'"),  # 27
        (values.check_brokers, "a:x", "got 'a:x'"),  # 28
        (values.check_brokers, "a:٣", "got 'a:٣'"),  # 29
        (values.check_brokers, "http://a:9092", "got 'http://a:9092'"),  # 30
        (values.check_brokers, "a:9092 b:9092", "got 'a:9092 b:9092'"),  # 31
        (values.check_brokers, " , ", "got ' , '"),  # 32
    ],
)
def test_no_values(parse: object, text: str, said: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - each case says its message
        parse(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("sasl.password", "hunter2", "<hidden>"),  # 1
        ("ssl.key.location", "/etc/key.pem", "<hidden>"),  # 2
        ("sasl.jaas.config", "x", "<hidden>"),  # 3
        ("sasl.oauthbearer.client.SECRET", "x", "<hidden>"),  # 4
        ("sasl.oauthbearer.token.endpoint.url", "x", "<hidden>"),  # 5
        ("sasl.username", "kshadow", "kshadow"),  # 6
        ("client.id", "a://b:c@d/e", "a://<hidden>@d/e"),  # 7
    ],
)
def test_secrets(name: str, value: str, text: str) -> None:
    assert redact_properties([(name, value)]) == {name: text}


def test_urls_without_their_secrets() -> None:
    assert redact("s3://key:secret@bucket/path?sig=abc&x=y") == "s3://<hidden>@bucket/path?<hidden>"
    assert redact("file:///var/lib/kshadow") == "file:///var/lib/kshadow"
    assert redact("what? no@url") == "what? no@url"


def test_references(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"hunter2\r\n")
    (tmp_path / "two").write_text("a\n\n")
    environment = {"PASSWORD": "${OTHER}"}
    assert resolve_reference("${PASSWORD}", environment, tmp_path) == "${OTHER}", "looked up once"
    assert resolve_reference({"file": "password"}, {}, tmp_path) == "hunter2"
    assert resolve_reference({"file": str(tmp_path / "two")}, {}, Path("/nowhere")) == "a\n"
    for value in ("x${PASSWORD}", "$PASSWORD", "${}", "${1}", 5, None, True, {}, {"file": 1}, {"file": "a", "b": 1}):
        assert resolve_reference(value, environment, tmp_path) is None


def test_references_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (tmp_path / "bytes").write_bytes(b"\xff")
    for value, said in (
        ("${NOTHING}", "expected the environment variable NOTHING, it is not set"),
        ({"file": "nothing"}, f"expected the file {tmp_path}/nothing: No such file or directory"),
        ({"file": "."}, "Is a directory"),
        ({"file": "long"}, "expected a file of at most 100000 bytes"),
        ({"file": "bytes"}, "expected a text in UTF-8"),
    ):
        with pytest.raises(ValueError) as raised:  # noqa: PT011 - each case says its message
            resolve_reference(value, {}, tmp_path)
        assert said in str(raised.value)
