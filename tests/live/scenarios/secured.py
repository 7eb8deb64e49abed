"""A broker that clients reach by SASL_SSL only, its users and their rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from agent.tools.embedded import EmbeddedBroker, Jars
from tests.harness.kafka import SecuredBroker, Security
from tests.live.scenarios.certificates import Authority, Signed
from tests.waiting import until

PASSWORD = "pass word,=;'\"ü"
MECHANISM = "SCRAM-SHA-512"
TOPIC = "__consumer_offsets"


class Right(NamedTuple):
    """What a user may do, or with `deny` may not, whatever else is granted."""

    operation: AclOperation
    resource: ResourceType
    name: str
    pattern: ResourcePatternType = ResourcePatternType.LITERAL
    deny: bool = False


DESCRIBE_TOPIC = Right(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)
READ_TOPIC = Right(AclOperation.READ, ResourceType.TOPIC, TOPIC)
DESCRIBE_GROUPS = Right(AclOperation.DESCRIBE, ResourceType.GROUP, "*")
DESCRIBE_TOPICS = Right(AclOperation.DESCRIBE, ResourceType.TOPIC, "*")


class Secured:
    """The broker, the authority that signed its certificate, and who may do all."""

    def __init__(self, broker: EmbeddedBroker, authority: Authority) -> None:
        self.broker, self.authority = broker, authority
        self.admin = AdminClient({"bootstrap.servers": broker.admin_servers, "log_level": 0})

    def conf(self, user: str, **properties: str) -> dict[str, str]:
        """A client's properties, and others (`sasl_password="wrong"`) in their place."""
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.file),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORD,
            **{name.replace("_", "."): value for name, value in properties.items()},
        }

    def user(self, name: str, *rights: Right) -> dict[str, str]:
        """A user with these rights and no other; its client's properties."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion(name, credential, PASSWORD.encode())
        for done in self.admin.alter_user_scram_credentials([made]).values():
            done.result(20)
        self.allow(name, *rights)
        return self.conf(name)

    def allow(self, user: str, *rights: Right) -> None:
        """These rights, and no other, and wait until the broker goes by them."""
        bindings = [_binding(user, right) for right in rights]
        for gone in self.admin.delete_acls([_all_of(user)]).values():
            gone.result(20)
        if bindings:
            for made in self.admin.create_acls(bindings).values():
                made.result(20)
        wanted = {*map(str, bindings)}
        until(lambda: {*map(str, self.admin.describe_acls(_all_of(user)).result(20))} == wanted, said="the rights")


@contextmanager
def secured(
    jars: Jars, directory: Path, *, properties: Mapping[str, str], certificate: Signed | None = None, **more: Any
) -> Iterator[Secured]:
    """Such a broker, with a certificate for localhost and 127.0.0.1 unless told; `more` are `Security`'s."""
    authority = Authority(directory / "tls")
    signed = certificate or authority.sign("broker")
    security = Security(signed.both, authority.file, **more)
    with SecuredBroker(jars, security, properties=properties, heap="256m") as broker:
        yield Secured(broker, authority)


def _binding(user: str, right: Right) -> AclBinding:
    permission = AclPermissionType.DENY if right.deny else AclPermissionType.ALLOW
    resource = (right.resource, right.name, right.pattern)
    return AclBinding(*resource, f"User:{user}", "*", right.operation, permission)


def _all_of(user: str) -> AclBindingFilter:
    resource = (ResourceType.ANY, None, ResourcePatternType.ANY)
    return AclBindingFilter(*resource, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY)
