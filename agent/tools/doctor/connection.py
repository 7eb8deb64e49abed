"""From the bootstrap servers to a client that is logged in, and the brokers that the cluster tells of."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from msgspec import Struct
from msgspec.structs import replace

from agent.config.logins import LoginMethod, login_of
from agent.kafka.client import new_admin_client, quiet
from agent.kafka.source.client import misconfigured
from agent.presentation.narrative.words import count
from agent.tools.doctor.checks import OFFSETS_TOPIC, Check, CheckOutcome, DoctorRequest, Trial, mechanism, uses_sasl
from agent.tools.doctor.endpoint import Endpoint, probe
from agent.tools.doctor.handshake import KIP_848, ApiVersions

PORT = 9092
MOST_BROKERS = 200
"""Of a greater cluster some are looked at."""
_THREADS = 16

_BAD_CREDENTIALS = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)


class NoAnswer(KafkaException):
    """None came, and why not as far as the connections said."""


class AdminConnection:
    """A client, and what its connections said. Questions are asked by its `admin`."""

    def __init__(self, conf: Mapping[str, Any], timeout_s: float) -> None:
        """Not connected yet. `conf`: librdkafka properties. Raises `KafkaException`."""
        self.said: list[KafkaError] = []
        self.brokers: dict[int, tuple[str, int]] = {}
        """By broker id the address of each that the cluster told the client of, whether it answers there or not."""
        self.timeout_s = timeout_s
        self._properties = quiet({"client.id": "kshadow", **conf}) | {
            "error_cb": self._hear,
            "stats_cb": lambda statistics: self._learn(json.loads(statistics)["brokers"]),
            "statistics.interval.ms": _STATISTICS_MS,
        }
        self.admin = new_admin_client(self._properties)

    def _hear(self, error: KafkaError) -> None:
        self.said.append(error)
        self._learn([error.str().partition(": ")[0]])

    def _learn(self, names: Iterable[str]) -> None:
        for found in filter(None, map(_TOLD_BROKER.fullmatch, names)):
            self.brokers[int(found["id"])] = (found["host"], int(found["port"]))

    def ask(self, question: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """The answer to one question of the Admin API. Raises `KafkaException`, `NoAnswer` where none came."""
        asked = question(*arguments, request_timeout=self.timeout_s, **named)
        future: Future[Any] = next(iter(asked.values())) if isinstance(asked, dict) else asked
        deadline = time.monotonic() + self.timeout_s + 5
        while not future.done() and time.monotonic() < deadline:
            self.admin.poll(0.05)  # serves the errors of connections
            if any(it.code() in _BAD_CREDENTIALS for it in self.said):
                deadline = min(deadline, time.monotonic() + _OTHERS_S)
        try:
            return future.result(0)
        except (KafkaException, TimeoutError) as error:
            reasons = [it for it in self.said if it.code() != KafkaError._ALL_BROKERS_DOWN]
            no_answer = isinstance(error, TimeoutError) or error.args[0].code() in _NO_ANSWER
            if no_answer:
                # What it still asks a coordinator would end the process, were it answered
                # (confluentinc/librdkafka#4605); leaving the block destroys it. Where there is no token now for
                # another one, it stays.
                with suppress(KafkaException):
                    renewed = new_admin_client(self._properties)
                    with self.admin:
                        self.admin = renewed
                raise NoAnswer(reasons[-1] if reasons else KafkaError(KafkaError._TIMED_OUT)) from error
            raise


_STATISTICS_MS = 200
_TOLD_BROKER = re.compile(r"(\w+://)?(?P<host>.+):(?P<port>\d+)/(?P<id>\d+)")
"""librdkafka's name of one that the cluster told of, in its statistics and before its errors."""
_OTHERS_S = 1.0
"""Once a broker did not let us in: another may."""
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._DESTROY)


def connect_admin(request: DoctorRequest) -> AdminConnection:
    """A client that is not connected yet. Raises `SourceMisconfigured`."""
    try:
        return AdminConnection(request.conf, request.timeout_s)
    except KafkaException as error:
        raise misconfigured(error.args[0]) from error


def addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Hosts and ports as librdkafka reads them: a scheme may stand before, the port may be missing."""
    found = []
    for item in bootstrap_servers.split(","):
        address = item.strip().rpartition("://")[2]
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal():
            host, port = address, str(PORT)
        if host:
            found.append((host.strip("[]"), int(port)))
    return found


def probe_endpoints(places: Iterable[tuple[str, int]], conf: Mapping[str, str], timeout_s: float) -> list[Endpoint]:
    """All of them at once, in their order."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="doctor") as pool:
        return list(pool.map(lambda place: probe(place[0], place[1], conf, timeout_s), places))


def bootstrap(request: DoctorRequest) -> tuple[list[Check], ApiVersions | None]:
    """The bootstrap servers. One that works is enough: what others lack is then a warning."""
    endpoints = probe_endpoints(addresses(request.bootstrap_servers), request.conf, request.timeout_s)
    working = [it for it in endpoints if it.works]
    checks = [check for endpoint in endpoints for check in endpoint.checks]
    if not working:
        return checks, None
    lenient = [
        replace(it, outcome=CheckOutcome.WARNING) if it.outcome is CheckOutcome.FAILED else it for it in checks
    ]
    return [*lenient, _version_check(working[0])], working[0].versions


def _version_check(endpoint: Endpoint) -> Check:
    """What the broker's requests tell of its version."""
    trial = Trial("version", endpoint.address, "compared the broker's API versions")
    versions = endpoint.versions
    assert versions is not None, "a broker that works was asked"
    # Requests are told of where such groups are switched off, too.
    kinds = {"consumer (KIP-848)": "group", "share": "share", "streams (KIP-1071)": "streams"}
    known = ["classic", *(kind for kind, it in kinds.items() if versions.features.get(f"{it}.version", 0) > 0)]
    features = ", ".join(f"{name}={level}" for name, level in sorted(versions.features.items()))
    found = f"group types {', '.join(known)}; features {features or 'none told'}"
    if KIP_848 in versions.apis:
        return trial.ok(found)
    return trial.warning(
        f"{found}; older than Kafka 3.7, and kshadow is tested with 3.9 and 4.x", "upgrade the brokers"
    )


class Cluster(Struct, frozen=True):
    """What a cluster says of itself: its id, and by broker id the address of each broker, for clients like us."""

    cluster_id: str | None
    """None where that was not answered."""
    brokers: Mapping[int, tuple[str, int]]


def login(request: DoctorRequest, link: AdminConnection) -> tuple[Check, Cluster | None]:
    """Whether the cluster lets us in; what it says of itself, or None."""
    by = f", logged in by {mechanism(request.conf)}" if uses_sasl(request.conf) else ""
    trial = Trial("login", request.bootstrap_servers, f"asked for the cluster's brokers{by}")
    try:
        cluster = _cluster(link)
    except KafkaException as error:
        return _failed_login(request, trial, error.args[0]), None
    brokers = count(len(cluster.brokers), "broker")
    if cluster.cluster_id is None:
        return trial.ok(f"the cluster tells of {brokers}; no answer from there"), cluster
    return trial.ok(f"cluster {cluster.cluster_id}, {brokers}"), cluster


def _cluster(link: AdminConnection) -> Cluster:
    """Raises `KafkaException`."""
    try:
        # Not `describe_cluster`: librdkafka ends the process where a broker that has no lease knows of no brokers.
        link.ask(link.admin.describe_topics, TopicCollection([OFFSETS_TOPIC]))
    except KafkaException as error:
        if error.args[0].code() in _BAD_CREDENTIALS:
            raise
        if isinstance(error, NoAnswer) and link.brokers:
            # That question goes to a broker's advertised address. So does each: as soon as librdkafka is told of
            # brokers it leaves the bootstrap servers, whatever they are still to answer.
            return Cluster(None, link.brokers)
    metadata = link.admin.list_topics(timeout=link.timeout_s)
    brokers = {number: (str(broker.host), broker.port) for number, broker in metadata.brokers.items()}
    return Cluster(str(metadata.cluster_id), brokers)


def _failed_login(request: DoctorRequest, trial: Trial, error: KafkaError) -> Check:
    if error.code() == KafkaError._SSL:
        return trial.failed(error.str(), "correct the ssl.* properties")
    if error.code() not in _BAD_CREDENTIALS:
        return trial.failed(error.str(), "see what the broker's log says of connections from here")
    fix = "correct the sasl.* properties"
    token_login = login_of(request.conf)
    if token_login is not None and token_login.method is LoginMethod.AWS_MSK_IAM:
        fix = "see that the region is the cluster's, and allow this identity kafka-cluster:Connect on the cluster"
    elif token_login is not None:
        fix = "grant the account roles/managedkafka.client"
    if (user := request.conf.get("sasl.username")) is not None:
        fix = f"correct sasl.username and sasl.password: the broker knows no user {user!r} with this password"
    return trial.failed(f"the broker does not let us in with these credentials: {error.str()}", fix)


def advertised(request: DoctorRequest, cluster: Cluster) -> Iterator[Check]:
    """Every broker at the address that it advertises to us: clients go there, whatever they were started with."""
    places = dict(list(cluster.brokers.items())[:MOST_BROKERS])
    # A cluster of which a broker does not answer is one that agents must live with: do not wait for long.
    endpoints = probe_endpoints(places.values(), request.conf, min(request.timeout_s, 5.0))
    for number, endpoint in zip(places, endpoints, strict=True):
        tried = "connected to it at the address that the cluster tells clients"
        trial = Trial("broker", f"{number} at {endpoint.address}", tried)
        bad = next((it for it in endpoint.checks if it.outcome is CheckOutcome.FAILED), None)
        if bad is None:
            yield trial.ok("answers")
        else:
            fix = f"correct advertised.listeners of broker {number} if {endpoint.address} is not its address"
            yield trial.failed(f"{bad.check}: {bad.found}", *bad.fix, f"{fix} for clients")
