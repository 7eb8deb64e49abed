"""The order of the checks: each needs what those before it found to work."""

from __future__ import annotations

from collections.abc import Iterator

from agent.kafka.source.errors import SourceDenied, SourceError
from agent.tools.doctor import connection, local, rights, topic
from agent.tools.doctor.checks import OFFSETS_TOPIC, Check, CheckOutcome, DoctorRequest, Trial


def examine(wanted: DoctorRequest) -> Iterator[Check]:
    """Every check, as soon as it is made. Raises `SourceMisconfigured` at once for what librdkafka does not take."""
    link = connection.connect_admin(wanted)
    yield from local.check_machine(wanted)
    checks, versions = connection.bootstrap(wanted)
    yield from checks
    if versions is None:
        yield _skipped("login", "no broker can be reached that lets a client log in")
        return
    check, cluster = connection.login(wanted, link)
    yield check
    if cluster is None:
        yield _skipped("rights", "there is no login")
        return
    brokers = list(connection.advertised(wanted, cluster))
    yield from brokers
    if all(it.outcome is CheckOutcome.FAILED for it in brokers):
        yield _skipped("rights", "no broker answers where the cluster says that it is")
        return
    yield from _the_topic(wanted, link)
    yield from rights.own_topics(wanted, link)
    yield from rights.share_group(wanted, link)


def _the_topic(wanted: DoctorRequest, link: connection.AdminConnection) -> Iterator[Check]:
    check, description = rights.describe_topic(wanted, link)
    yield check
    sample = topic.TopicSample()
    if description is not None:
        yield topic.check_format(description)
        yield topic.check_settings(link)
        yield from _the_records(wanted, sample)
    # The rest can be tried with or without records; with a topic only, since such a question would make it.
    missing = description is None and check.check == "topic"
    if wanted.observer and missing:
        yield _skipped("right: Describe", "there is no topic yet, and to ask for a group would make it", "groups")
    elif wanted.observer:
        yield rights.describe_groups(wanted, link, sample)
    if wanted.lag:
        yield rights.describe_topics(wanted, link, sample)


def _the_records(wanted: DoctorRequest, sample: topic.TopicSample) -> Iterator[Check]:
    """Fills the sample."""
    try:
        topic.read_sample(wanted, sample)
    except SourceDenied:
        yield rights.read_topic(wanted, denied=True)
        return
    except SourceError as error:
        yield Trial("records", OFFSETS_TOPIC, "fetched records").failed(str(error))
        return
    yield rights.read_topic(wanted, denied=False)
    yield topic.check_decoded(sample)
    yield topic.check_clocks(sample)


def _skipped(check: str, why: str, on: str = "cluster") -> Check:
    return Trial(check, on, "nothing").skipped(why)
