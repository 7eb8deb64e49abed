"""The order of the checks: each needs what those before it found to work."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.logins import login_of
from agent.config.settings import GroupSource
from agent.kafka.source.errors import SourceDenied, SourceError
from agent.tools.doctor import connection, local, rights, topic
from agent.tools.doctor.checks import OFFSETS_TOPIC, Check, CheckOutcome, DoctorRequest, Trial
from agent.tools.doctor.handshake import KIP_848
from agent.tools.doctor.kubernetes import check_kubernetes
from agent.tools.doctor.token import check_token


def examine(request: DoctorRequest) -> Iterator[Check]:
    """Every check, as soon as it is made. Raises `SourceMisconfigured` at once for what librdkafka does not take."""
    token_login = login_of(request.conf)
    # Without a token no client can be made: the rest that can be looked at is looked at all the same.
    token = None if token_login is None else check_token(token_login)
    has_token = token is None or token.outcome is CheckOutcome.OK
    link = connection.connect_admin(request) if has_token else None
    yield from local.check_machine(request)
    yield from check_kubernetes(request)
    if token is not None:
        yield token
    checks, versions = connection.bootstrap(request)
    yield from checks
    if link is None:
        yield _skipped("login", "there is no token")
        return
    if versions is None:
        yield _skipped("login", "no broker can be reached that lets a client log in")
        return
    check, cluster = connection.login(request, link)
    yield check
    if cluster is None:
        yield _skipped("rights", "there is no login")
        return
    brokers = list(connection.advertised(request, cluster))
    yield from brokers
    if all(it.outcome is CheckOutcome.FAILED for it in brokers):
        yield _skipped("rights", "no broker answers where the cluster says that it is")
        return
    sample = topic.TopicSample()
    if request.source is GroupSource.ADMIN:
        yield rights.list_groups(request, link, sample)
        yield rights.describe_topics(request, link, sample)
    else:
        yield from _the_topic(request, link, cluster, sample)
    if KIP_848 in versions.apis:
        yield rights.broker_sessions(request, link, cluster.brokers)
        yield from rights.group_sessions(request, link, sample)
    yield from rights.own_topics(request, link)
    yield from rights.share_group(request, link)


def _the_topic(
    request: DoctorRequest,
    link: connection.AdminConnection,
    cluster: connection.Cluster,
    sample: topic.TopicSample,
) -> Iterator[Check]:
    """Fills the sample."""
    check, description = rights.describe_topic(request, link)
    yield check
    if description is not None:
        yield topic.check_format(description)
        yield topic.check_settings(link)
        yield from _the_records(request, sample, len(description.partitions), cluster.cluster_id)
    # The rest can be tried with or without records; with a topic only, since such a question would make it.
    missing = description is None and check.check == "topic"
    if request.observer and missing:
        yield _skipped("right: Describe", "there is no topic yet, and to ask for a group would make it", "groups")
    elif request.observer:
        yield rights.describe_groups(request, link, sample)
    if request.lag:
        yield rights.describe_topics(request, link, sample)
    if request.lag and request.share_lag:
        yield from rights.share_state(request, link)
    yield from rights.transaction_state(request, link)


def _the_records(
    request: DoctorRequest, sample: topic.TopicSample, partitions: int, cluster_id: str | None
) -> Iterator[Check]:
    """Fills the sample."""
    try:
        topic.read_sample(request, sample)
    except SourceDenied:
        yield rights.read_topic(request, denied=True)
        return
    except SourceError as error:
        yield Trial("records", OFFSETS_TOPIC, "fetched records").failed(str(error))
        return
    yield rights.read_topic(request, denied=False)
    yield topic.check_decoded(sample)
    yield topic.check_placement(request, sample, partitions, cluster_id)
    yield topic.check_clocks(sample)


def _skipped(check: str, why: str, on: str = "cluster") -> Check:
    return Trial(check, on, "nothing").skipped(why)
