"""Logins by tokens on a real broker that takes each token apart as the clouds do: Amazon's, which live for seconds
here, and Google's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from agent.kafka.client import new_admin_client, new_consumer, new_producer
from agent.tools.embedded.ports import free_ports
from agent.tools.embedded.settings import render_properties
from tests.live.kafka.logins.checking import (
    GOOGLE_ACCOUNT,
    GOOGLE_TOKEN,
    KEY,
    REGION,
    RIGHTS,
    ROLE_KEY,
    ROLE_SECRET,
    ROLE_SESSION,
    SECRET,
    TOKENS_S,
    checking_broker,
    short_lived,
    told,
)
from tests.live.scenarios.committing import commit
from tests.live.scenarios.secured import (
    Right,
    Secured,
)
from tests.unit.cli.running import spawn
from tests.unit.kafka.logins.serving import Answers
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
RENEWALS = 3
WRITE = (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)
TOKEN = re.compile("aHR0cHM6Ly9rYWZrYS4|X-Amz-Signature")
"""How each token begins, and what each holds."""
WORK = {"admin_requests", "history_events", "lag_requests", "snapshot_writes"}
"""What an agent does through one client each."""
FAILED = re.compile(r'^kshadow_(?:admin|lag)_requests_total\{outcome="(?!answered)[a-z_]+"\} [1-9].*', re.MULTILINE)
DONE = re.compile(
    r"^kshadow_(admin_requests|lag_requests|history_events|snapshot_writes)_total"
    r'\{(?:outcome="(?:answered|written|ok)"|sink="[a-z]+")\} [1-9]',
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with checking_broker(tmp_path_factory.mktemp("msk")) as it:
        it.admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        commit(it.admin, "payments", [TopicPartition("orders", 0, 1)])
        yield it


def options(cluster: Secured, directory: Path, **jaas: str) -> list[str]:
    """A file as Amazon's library for Java takes it, but for the broker's own authority."""
    more = "".join(f' {name}="{value}"' for name, value in jaas.items())
    file = directory / "client.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": str(cluster.authority.file),
        "ssl.truststore.type": "PEM",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"software.amazon.msk.auth.iam.IAMLoginModule required{more};",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    file.write_text(render_properties(lines), encoding="ascii")
    return ["--bootstrap-server", cluster.broker.bootstrap_servers, "--command-config", str(file)]


def answered(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """A command in a process of its own: none of its clients is left to ask the broker."""
    with spawn(*arguments, env={**ENVIRONMENT, **environment}) as process:
        output, errors = process.communicate(timeout=120)
    return process.returncode, output.decode(), errors.decode()


def test_a_command_with_the_file_of_java_clients(cluster: Secured, tmp_path: Path) -> None:
    code, output, errors = answered("groups", *options(cluster, tmp_path), "-o", "json")
    assert (code, errors, '"payments"' in output) == (0, "", True)
    assert f"let in {KEY} signed" in "\n".join(told(cluster))


def test_temporary_credentials(cluster: Secured, tmp_path: Path) -> None:
    """Of a role, a pod's or an instance's: they come with a session's token, which is signed, too."""
    role = {"AWS_ACCESS_KEY_ID": ROLE_KEY, "AWS_SECRET_ACCESS_KEY": ROLE_SECRET, "AWS_SESSION_TOKEN": ROLE_SESSION}
    code, output, errors = answered("groups", *options(cluster, tmp_path), "-o", "json", **role)
    assert (code, errors, '"payments"' in output) == (0, "", True)


def test_google(cluster: Secured) -> None:
    """By a metadata server, as pods on GKE have one."""

    def answer(path: str, _: str) -> tuple[str, bytes]:
        token = {"access_token": GOOGLE_TOKEN, "expires_in": 3599, "token_type": "Bearer"}
        account = {"email": GOOGLE_ACCOUNT, "aliases": ["default"], "scopes": []}
        return "application/json", json.dumps(token if "token" in path else account).encode()

    server = Answers(answer)
    Thread(target=server.serve_forever, daemon=True).start()
    login = ("sasl.oauthbearer.method=google", f"ssl.ca.location={cluster.authority.file}")
    properties = [word for it in login for word in ("-X", it)]
    where = {"GCE_METADATA_HOST": server.address, "GCE_METADATA_IP": server.address, "CLOUDSDK_CONFIG": "/nowhere"}
    asked = ("--bootstrap-server", cluster.broker.bootstrap_servers, *properties, "-o", "json")
    code, output, errors = answered("groups", *asked, **where)
    server.shutdown()
    server.server_close()
    assert (code, errors, '"payments"' in output) == (0, "", True)
    assert f"let in {GOOGLE_ACCOUNT}" in "\n".join(told(cluster))


def test_a_wrong_key_is_one_line(cluster: Secured, tmp_path: Path) -> None:
    code, output, errors = answered("groups", *options(cluster, tmp_path), AWS_SECRET_ACCESS_KEY="wr0ng" * 8)
    assert (code, output, len(errors.splitlines())) == (3, "", 1), errors
    assert "invalid_token" in errors
    assert "wr0ng" not in errors
    assert told(cluster)[-1] == "refused: expected a signature by that key"


def renewals(cluster: Secured, begun: int) -> int:
    """How often whoever was let in at the beginning, and still is, must have come with a new token."""
    signed_ms = [int(it.rpartition(" ")[2]) for it in told(cluster)[begun:] if it.startswith(f"let in {KEY} signed")]
    return (max(signed_ms) - min(signed_ms)) // (1000 * TOKENS_S) if signed_ms else 0


def test_clients_that_nobody_polls_renew_their_tokens(cluster: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    monkeypatch.setattr(MSKAuthTokenProvider, "DEFAULT_TOKEN_EXPIRY_SECONDS", TOKENS_S)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    conf = {
        "bootstrap.servers": cluster.broker.bootstrap_servers,
        "ssl.ca.location": str(cluster.authority.file),
        "sasl.mechanism": "AWS_MSK_IAM",
        "group.id": "payments",
        "log_level": "0",
    }
    begun = len(told(cluster))
    consumer, admin = new_consumer(conf), new_admin_client({**conf, "group.id": None})
    producer = new_producer({**conf, "group.id": None})
    clients = (consumer, admin, producer)
    for client in clients:
        assert "orders" in client.list_topics(timeout=10).topics
    until(lambda: renewals(cluster, begun) >= RENEWALS, 120, said="three renewals")
    for client in clients:
        assert "orders" in client.list_topics(timeout=10).topics
        client.poll(0)
    consumer.close()
    assert not [it for it in told(cluster)[begun:] if it.startswith("refused")]


@pytest.mark.thorough  # above, in one client
def test_tokens_are_renewed_without_a_gap(cluster: Secured, tmp_path: Path) -> None:
    """An agent with all its clients, while tokens run out every few seconds and a group commits all the time."""
    (port,) = free_ports(1)
    begun, log = len(told(cluster)), tmp_path / "agent.log"
    debug = ["-X", "debug=security,broker,protocol", "-X", "log_level=7", "--log-level", "debug"]
    history, snapshots = f"history-{port}", f"snapshots-{port}"
    sinks = ["--history-topic", history, "--snapshots", f"kafka:{snapshots}", "--snapshot-interval", "2s"]
    run = ["run", *options(cluster, tmp_path), "--listen", f"127.0.0.1:{port}", "--lag-interval", "2s"]
    cluster.allow(
        KEY, *RIGHTS, *(Right(it, ResourceType.TOPIC, topic) for topic in (history, snapshots) for it in WRITE)
    )
    env = {**ENVIRONMENT, "PYTHONPATH": str(short_lived(tmp_path))}
    with log.open("wb") as output, spawn(*run, *sinks, *debug, env=env, stdout=output, stderr=output) as agent:
        try:
            pages = watched(cluster, port, begun)
        finally:
            agent.terminate()
            assert agent.wait(60) == 0, log.read_text()
    said = log.read_text(errors="replace")
    assert "Traceback" not in said
    # Brokers refuse a second login within a second, which on a busy machine such a short life may come to: the
    # connection is made anew.
    errors = [it for it in said.splitlines() if " ERROR " in it and "not valid in current SASL state" not in it]
    assert not errors
    metrics = pages[0]
    assert not FAILED.findall(metrics), FAILED.findall(metrics)
    counters = [line for line in metrics.splitlines() if line.startswith("kshadow_") and "_total{" in line]
    assert {*DONE.findall(metrics)} == WORK, counters
    everything = "\n".join((said, *pages, *kept(cluster)))
    assert "rdkafka" in everything.lower()
    assert SECRET not in everything
    assert not TOKEN.search(everything)


def kept(cluster: Secured) -> list[str]:
    """What lies in the broker's log: the history, the snapshots."""
    (data,) = cluster.broker.log_dirs
    return [it.read_bytes().decode("latin-1") for it in data.glob("*/*.log") if "snapshots" in it.parent.name]


def watched(cluster: Secured, port: int, begun: int) -> list[str]:
    """Commits until each client renewed its token three times; what the agent served meanwhile."""

    def ask(path: str) -> str:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def is_ready() -> bool:
        try:
            return bool(ask("/readyz"))
        except OSError:
            return False

    until(is_ready, 90, said="the agent is ready")
    slowest_s, offset, deadline = 0.0, 1, time.monotonic() + 240
    while renewals(cluster, begun) < RENEWALS:
        assert time.monotonic() < deadline, told(cluster)[begun:]
        offset += 1
        commit(cluster.admin, "payments", [TopicPartition("orders", 0, offset)])
        at = time.monotonic()
        until(
            lambda seen=f'"offset":{offset}': seen in ask("/api/v1/groups/payments").replace(" ", ""), 20, said="seen"
        )
        slowest_s = max(slowest_s, time.monotonic() - at)
        ask("/readyz")  # raises for 503
        time.sleep(0.2)
    # A gap is what a client would have that is cut off, and connects anew.
    assert slowest_s < 4, slowest_s
    assert not [it for it in told(cluster)[begun:] if it.startswith("refused")]
    return [ask(path) for path in ("/metrics", "/", "/api/v1/status", "/groups/payments")]
