"""A broker that checks what a signer signed: `TokenChecks.java` compiled, and a listener that asks it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.kafka.writer.topic import partition_count
from agent.tools.embedded import fetch_jars
from agent.tools.embedded.jars import Jars
from agent.tools.embedded.java import find_java
from tests.live.scenarios.secured import (
    DESCRIBE_GROUPS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPICS,
    READ_TOPIC,
    Secured,
    secured,
)

KEY, SECRET, REGION = "AKIDKSHADOWTEST00001", "s3cr3t/of+the=key", "eu-central-1"
ROLE_KEY, ROLE_SECRET, ROLE_SESSION = "ASIDKSHADOWROLE00001", "s3cr3t/of+the=role", "session+token/of=the-role"
GOOGLE_TOKEN, GOOGLE_ACCOUNT = "ya29.access-token-of-the-test", "kshadow@project.iam.gserviceaccount.com"

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OPTIONS = {
    "unsecuredLoginStringClaim_sub": "broker",  # its own, which it never uses
    "region": REGION,
    f"secret_{KEY}": SECRET,
    f"secret_{ROLE_KEY}": ROLE_SECRET,
    f"session_{ROLE_KEY}": ROLE_SESSION,
    "google": GOOGLE_TOKEN,
}
RIGHTS = (DESCRIBE_TOPIC, READ_TOPIC, DESCRIBE_GROUPS, DESCRIBE_TOPICS)
TOKENS_S = 12
"""How long a token of Amazon's lives in these tests; AWS' library says a quarter of an hour."""


class JarsAndClasses(Jars, frozen=True):
    """A Kafka release's jars, and a directory of classes beside them."""

    classes: Path = Path()

    @property
    def classpath(self) -> str:
        """For `java -cp`."""
        return f"{self.directory}/*{os.pathsep}{self.classes}"


def compiled(directory: Path) -> JarsAndClasses:
    """The checks, compiled with the broker's own jars; skips the test where Java is no JDK."""
    jars = fetch_jars()
    classpath = os.pathsep.join(map(str, jars.directory.glob("*.jar")))
    source = Path(__file__).with_name("TokenChecks.java")
    compiler = [str(find_java()), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", classpath, "-d"]
    ended = subprocess.run(
        [*compiler, str(directory), str(source)], capture_output=True, text=True, timeout=300, check=False
    )
    if "jdk.compiler not found" in ended.stdout + ended.stderr:
        pytest.skip("a JDK is needed to compile what the broker checks tokens with; this Java has no compiler")
    assert ended.returncode == 0, ended.stderr
    return JarsAndClasses(jars.version, jars.directory, directory)


@contextmanager
def checking_broker(directory: Path) -> Iterator[Secured]:
    """Lets in who comes with a token that holds, and cuts off who does not bring the next one in time."""
    listener, options = "listener.name.client", " ".join(f'{name}="{value}"' for name, value in _OPTIONS.items())
    properties = {
        f"{listener}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{_MODULE} required {options};",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": "TokenChecks",
        # At most so long, and no longer than the token holds (KIP-368).
        f"{listener}.oauthbearer.connections.max.reauth.ms": "600000",
        "offsets.topic.num.partitions": "4",
    }
    (directory / "classes").mkdir()
    with secured(compiled(directory / "classes"), directory, properties=properties) as cluster:
        for who in (KEY, ROLE_KEY, GOOGLE_ACCOUNT):
            cluster.allow(who, *RIGHTS)
        partition_count({"bootstrap.servers": cluster.broker.admin_servers}, create=True)
        yield cluster


def told(cluster: Secured) -> list[str]:
    """What the checks said so far: `let in WHO signed MS`, or `refused: expected WHAT`."""
    lines = cluster.broker.log_file.read_text(errors="replace").splitlines()
    return [line.split(" ", 2)[2] for line in lines if line.startswith("TokenChecks ")]


def short_lived(directory: Path) -> Path:
    """A directory for PYTHONPATH that makes AWS' signer sign for `TOKENS_S` in each process that starts with it."""
    (directory / "sitecustomize.py").write_text(
        "from aws_msk_iam_sasl_signer import MSKAuthTokenProvider\n"
        f"MSKAuthTokenProvider.DEFAULT_TOKEN_EXPIRY_SECONDS = {TOKENS_S}\n"
    )
    return directory
