"""Values as people write them: sizes, partitions, shards, addresses. Pure.

Each parser raises `ValueError` that says what was expected and what came.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct

MAX_RANGE = 10_000
"""Partitions in one range: Kafka's own topic has 50; a range that is longer is a slip."""

_SIZE = re.compile(r"([0-9]{1,15})(?:([KMGT]i?)?B)?", re.IGNORECASE)
_PARTITIONS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_SHARD = re.compile(r"(auto|[0-9]{1,9})/([0-9]{1,9})")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HOST = re.compile(r"(?![0-9.]+\Z)[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?")
_BROKER = re.compile(
    r"((SASL_)?(PLAINTEXT|SSL)://)?(\[[^]\s/@]+\]|[^]:\s/@\[]*|([0-9a-f]*:){2,}[0-9a-f.]*)(:(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
KAFKAS_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Topics into which brokers let nobody else write."""


class Address(Struct, frozen=True):
    """Where to listen. The host is an address or a name, `::` every address; port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Shard(Struct, frozen=True):
    """One of `count` agents that share the partitions out: 0-based, None where the host's name tells which."""

    index: int | None
    count: int

    def __str__(self) -> str:
        return f"{'auto' if self.index is None else self.index}/{self.count}"

    def resolve(self, hostname: str) -> Shard:
        """This shard, with its number on a host of this name. Raises `ValueError` where the name tells none."""
        if self.index is not None:
            return self
        name = hostname.split(".")[0]
        digits = name[len(name.rstrip("0123456789")) :]
        if not digits or len(digits) > 9 or int(digits) >= self.count:
            raise ValueError(
                f"shard {self}: expected a host name that ends in a number below {self.count}, got {hostname!r}"
            )
        return Shard(int(digits), self.count)


class SnapshotLocation(Struct, frozen=True):
    """Where snapshots are kept: a directory, or a topic of the cluster that is read. One of the two."""

    directory: str | None = None
    topic: str | None = None

    def __str__(self) -> str:
        return str(self.directory) if self.topic is None else f"kafka:{self.topic}"


class AgentUrl(Struct, frozen=True):
    """Where an agent is asked, and of which of its clusters: None for all."""

    parts: SplitResult
    cluster: str | None


class OtlpEndpoint(Struct, frozen=True):
    """Where OTLP is sent to: a base URL by http or https, or a host and port by grpc or grpcs (gRPC over TLS)."""

    scheme: str
    place: str
    """Host, port, and by http a path, without a slash at its end."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}"

    @property
    def is_grpc(self) -> bool:
        """Whether by gRPC; else protobuf by HTTP."""
        return self.scheme.startswith("grpc")

    @property
    def is_secure(self) -> bool:
        """Whether over TLS."""
        return self.scheme.endswith("s")

    @property
    def grpc_url(self) -> str:
        """As OpenTelemetry's exporter by gRPC takes it."""
        return f"{'https' if self.is_secure else 'http'}://{self.place}"


def parse_otlp_endpoint(text: str) -> OtlpEndpoint:
    """`http://HOST:4318`, `https://…`, `grpc://HOST:4317` or `grpcs://…`. What may hold a secret is not quoted."""
    expected = "expected an endpoint (http://HOST:4318, grpc://HOST:4317; https and grpcs by TLS)"
    try:
        parts = urlsplit(text.strip())
        has_port = parts.port is not None
    except ValueError:
        raise ValueError(f"{expected}, got something else") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(f"{expected}, with nothing more in it: credentials go into OTEL_EXPORTER_OTLP_HEADERS")
    is_grpc = parts.scheme.startswith("grpc")
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname:
        raise ValueError(f"{expected}, got {text[:100]!r}")
    if is_grpc and (not has_port or parts.path.strip("/")):
        raise ValueError(f"{expected}, for gRPC a host and a port, got {text[:100]!r}")
    return OtlpEndpoint(parts.scheme, parts.netloc + parts.path.rstrip("/"))


def parse_agent_url(text: str) -> AgentUrl:
    """An agent's base URL, by http or https, perhaps with one of its clusters."""
    try:
        text.encode()  # an argument may be no text
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"expected a URL such as http://localhost:9308, got {text!r}")
    if parts.password is not None:
        raise ValueError("no password in a URL, where everyone sees it: use KSHADOW_AGENT_PASSWORD")
    cluster = None
    match parse_qsl(parts.query):
        case [("cluster", name)]:
            cluster = name
    if parts.fragment or (parts.query and cluster is None):
        raise ValueError("expected a URL without #, and behind ? no more than cluster=NAME")
    return AgentUrl(parts, cluster)


def check_allowed_host(text: str) -> None:
    """A host name, `*.NAME` or `*`."""
    if text != "*" and not _HOST.fullmatch(text.removeprefix("*.")):
        raise ValueError(
            f"expected a host name without a port (kshadow.example.com), *.NAME or *, got {text[:100]!r}"
        )


def parse_size(text: str) -> int:
    """`1GiB`, `500MB` or bytes, as bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected a size (500MB, 1GiB, 1048576), got {text[:100]!r}")
    unit = (found[2] or "").upper()
    base = 1024 if unit.endswith("I") else 1000
    factor: int = base ** " KMGT".index(unit[:1] or " ")
    return int(found[1]) * factor


def parse_partitions(text: str) -> tuple[int, ...]:
    """`0-24,30` as the partitions themselves, in order."""
    out: set[int] = set()
    for part in text.split(","):
        found = _PARTITIONS.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"expected partitions (0-24,30), got {text[:100]!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise ValueError(f"expected partitions (0-24,30), {part.strip()!r} goes backwards")
        if last - first >= MAX_RANGE:
            raise ValueError(f"expected at most {MAX_RANGE} partitions, got {part.strip()!r}")
        out.update(range(first, last + 1))
    return tuple(sorted(out))


def parse_shard(text: str) -> Shard:
    """`I/N` or `auto/N`: one of N shards, counted from 0."""
    found = _SHARD.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"expected a shard (0/3, or auto/3 for the number the host's name ends in), got {text[:100]!r}"
        )
    index, count = None if found[1] == "auto" else int(found[1]), int(found[2])
    if count == 0 or (index is not None and index >= count):
        raise ValueError(f"expected a shard that counts from 0 (0/3, 1/3, 2/3), got {text.strip()!r}")
    return Shard(index, count)


def parse_snapshot_location(text: str) -> SnapshotLocation:
    """`kafka:TOPIC`, or a directory."""
    scheme, colon, topic = text.partition(":")
    if colon and scheme == "kafka":
        return SnapshotLocation(topic=parse_topic(topic))
    if not text:
        raise ValueError("expected a directory or kafka:TOPIC, got nothing")
    return SnapshotLocation(directory=text)


def parse_topic(text: str) -> str:
    """The name of a topic that kshadow may write to."""
    if not TOPIC_NAME.fullmatch(text) or text in (".", ".."):
        raise ValueError(f"expected a topic's name (letters, digits, '.', '_' and '-'), got {text[:100]!r}")
    if text in KAFKAS_TOPICS:
        raise ValueError(f"expected a topic of kshadow's own, got {text!r}, into which only brokers write")
    return text


def parse_cluster(text: str) -> str:
    """What people call a cluster: it becomes a label and a directory."""
    if not _CLUSTER.fullmatch(text):
        raise ValueError(
            f"expected a name of at most 100 letters, digits, '.', '_' and '-', a letter or digit first, "
            f"got {text[:100]!r}"
        )
    return text


def parse_address(text: str) -> Address:
    """`HOST:PORT`. An empty host is every address, as in ":9308"; brackets are the writing of an IPv6 one."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT, got {text!r}")
    return Address(host.strip("[]") or "::", int(port))


def check_brokers(text: str) -> None:
    """`HOST:PORT[,…]` as librdkafka reads it: a scheme may stand before, and the port may be missing.

    That takes a port of 75536 for 10000, one that is no number for 0, and passes over other schemes.
    """
    brokers = [it for it in map(str.strip, text.split(",")) if it]
    for it in brokers or [text]:
        found = _BROKER.fullmatch(it)
        if not brokers or found is None or not 0 < int(found["port"] or 1) < 65536 or not it.isprintable():
            raise ValueError(f"expected HOST:PORT, with commas between, got {it[:100]!r}")
