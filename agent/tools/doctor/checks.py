"""One check and its outcome, what is request, and the commands that put a missing right right. No I/O."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from agent.config.logins import LoginMethod, librdkafka_properties, login_of
from agent.config.settings import GroupSource, KubernetesSettings

OFFSETS_TOPIC = "__consumer_offsets"


class CheckOutcome(StrEnum):
    """What came of a check. `failed`: what is wanted does not work; `skipped`: nothing is known, `found` says why."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(Struct, frozen=True):
    """What was tried `on` what, what came of it and what that means; `fix` are sentences and commands, one each."""

    check: str
    on: str
    outcome: CheckOutcome
    tried: str
    found: str
    fix: tuple[str, ...] = ()


class Trial(NamedTuple):
    """What is tried on what: each of the four outcomes makes the check."""

    check: str
    on: str
    tried: str

    def ok(self, found: str) -> Check:
        """It works."""
        return Check(self.check, self.on, CheckOutcome.OK, self.tried, found)

    def warning(self, found: str, *fix: str) -> Check:
        """It works, and something about it is not as it should be."""
        return Check(self.check, self.on, CheckOutcome.WARNING, self.tried, found, fix)

    def failed(self, found: str, *fix: str) -> Check:
        """It does not work."""
        return Check(self.check, self.on, CheckOutcome.FAILED, self.tried, found, fix)

    def skipped(self, found: str) -> Check:
        """Nothing is known; `found` says why."""
        return Check(self.check, self.on, CheckOutcome.SKIPPED, self.tried, found)


class DoctorRequest(Struct, frozen=True):
    """What the agent is to do: its connection, and each part that needs rights or a place of its own."""

    conf: Mapping[str, str]
    source: GroupSource = GroupSource.TOPIC
    observer: bool = True
    lag: bool = True
    share_lag: bool = True
    history_topic: str | None = None
    history_topic_create: bool = True
    snapshot_topic: str | None = None
    share_group: str | None = None
    group_partitioner: str = "auto"
    broker_config: tuple[tuple[str, str], ...] = ()
    kubernetes: KubernetesSettings = KubernetesSettings()
    directories: Mapping[str, Path] = field(default_factory=dict)
    """By what they are for."""
    listen: tuple[str, int] | None = None
    timeout_s: float = 10.0
    """How long each answer may take."""

    @property
    def bootstrap_servers(self) -> str:
        """As librdkafka has them."""
        return self.conf.get("bootstrap.servers") or self.conf["metadata.broker.list"]


def principal(conf: Mapping[str, str]) -> str:
    """Who we are to an authorizer that maps names as Kafka does by default."""
    if (login := login_of(conf)) is not None and login.method is LoginMethod.GOOGLE:
        return "User:ADDRESS-OF-THE-SERVICE-ACCOUNT"
    if uses_sasl(conf):
        return f"User:{conf.get('sasl.username') or 'NAME'}"
    if uses_tls(conf) and {"ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"} & conf.keys():
        return "User:DISTINGUISHED-NAME-OF-THE-CERTIFICATE"
    return "User:ANONYMOUS"


def protocol(conf: Mapping[str, str]) -> str:
    """`security.protocol`, in capitals."""
    return str(librdkafka_properties(conf).get("security.protocol", "plaintext")).upper()


def uses_tls(conf: Mapping[str, str]) -> bool:
    """Whether connections are by TLS."""
    return protocol(conf) in ("SSL", "SASL_SSL")


def uses_sasl(conf: Mapping[str, str]) -> bool:
    """Whether a user and a password, or what is in their place, are sent."""
    return protocol(conf).startswith("SASL_")


def mechanism(conf: Mapping[str, str]) -> str:
    """`sasl.mechanism` as the broker is told it; librdkafka's default is GSSAPI."""
    conf = librdkafka_properties(conf)
    return (conf.get("sasl.mechanism") or conf.get("sasl.mechanisms") or "GSSAPI").upper()


_IAM_ACTIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("--topic", "Describe"): ("DescribeTopic",),
    ("--topic", "Read"): ("DescribeTopic", "ReadData"),
    ("--topic", "Write"): ("DescribeTopic", "WriteData", "WriteDataIdempotently"),
    ("--topic", "Create"): ("CreateTopic",),
    ("--group", "Describe"): ("DescribeGroup",),
    ("--group", "Read"): ("AlterGroup", "DescribeGroup"),
    ("--cluster", "DescribeConfigs"): ("DescribeClusterDynamicConfiguration",),
}
"""What Kafka's operations are called in AWS' policies, all after `kafka-cluster:` (Amazon MSK's documentation of IAM
access control). We write idempotently, which IAM does not grant with WriteData on one topic, as ACLs do (KIP-679)."""


def _iam_statement(operations: Sequence[str], kind: str, name: str | None = None) -> str:
    actions = {it for operation in operations for it in _IAM_ACTIONS.get((kind, operation), ())}
    if not actions:
        return f"IAM has no action for {' and '.join(operations)} on a {kind[2:]}"
    named = ", ".join(f"kafka-cluster:{it}" for it in sorted(actions | {"Connect"}))
    place = "the cluster" if name is None else f"{kind[2:]}/CLUSTER/*/{name} and the cluster"
    return f"allow {named} on {place} in this identity's IAM policy"


def grant_command(request: DoctorRequest, operations: Sequence[str], *resource: str) -> str:
    """The command that grants operations on a resource, `"--topic", "orders"`; with IAM, what a policy has to say."""
    login = login_of(request.conf)
    if login is not None and login.method is LoginMethod.AWS_MSK_IAM:
        return _iam_statement(operations, *resource)
    words = ["kafka-acls.sh", "--bootstrap-server", request.bootstrap_servers, "--command-config", "admin.properties"]
    words += ["--add", "--allow-principal", principal(request.conf)]
    for operation in operations:
        words += ["--operation", operation]
    return shlex.join([*words, *resource])
