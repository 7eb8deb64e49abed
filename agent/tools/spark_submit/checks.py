"""What a job needs of this machine and of the brokers, looked at before Spark is started. Each check raises."""

from __future__ import annotations

from importlib.util import find_spec

from agent.tools.spark_submit.command import SubmitSettings, kafka_of
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import GROUP_PREFIX, Backfill, Job, Kafka, Report, Stream

OFFSETS_TOPIC = "__consumer_offsets"

_CONNECT_S = 10.0
_EVERY = {"pandas": "pandas", "pyarrow": "pyarrow"}
_MODULES = {
    Stream: {"google.protobuf": "protobuf", "grpc": "grpcio"},
    Report: {"duckdb": "duckdb", "matplotlib": "matplotlib"},
}
"""What a kind of job imports beside that, and the package that it is of."""


def check_java() -> str:
    """The `java` that `spark-submit` will find, which is the one we find. Raises `SubmitError`."""
    from agent.tools.embedded.errors import EmbeddedError
    from agent.tools.embedded.java import find_java

    try:
        return str(find_java(needed_by="Spark"))
    except EmbeddedError as error:
        raise SubmitError(str(error)) from error


def check_modules(job: Job, settings: SubmitSettings) -> None:
    """The Python packages of the driver, and where all runs here of the executors. Raises `SubmitError`."""
    if not settings.drives_here:
        return
    wanted = _EVERY | _MODULES.get(type(job), {})
    missing = [name for module, name in wanted.items() if not _there(module)]
    if missing:
        raise SubmitError(
            f"expected the Python packages {', '.join(wanted.values())}, {', '.join(missing)} not installed for"
            f" {settings.python}: install kshadow[spark]"
        )


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # Of `google.protobuf` even `google` may be missing.
        return False


def check_brokers(job: Job) -> None:
    """Reach what the job reads from brokers, with the rights that Spark needs for it. Raises a `SourceError`."""
    kafka, topic = kafka_of(job), _topic_of(job)
    if kafka is not None and topic is not None:
        _reach(kafka, topic)
        if topic == OFFSETS_TOPIC:
            _ask_for_group(kafka)


def _topic_of(job: Job) -> str | None:
    match job:
        case Backfill() | Stream(reads="topic"):
            return OFFSETS_TOPIC
        case Stream(reads="history-topic"):
            return job.history_topic
        case _:
            return None


def _reach(kafka: Kafka, topic: str) -> None:
    from agent.kafka.source.topic import TopicReader

    with TopicReader(kafka.properties, topic=topic) as reader:
        reader.connect(_CONNECT_S)


def _ask_for_group(kafka: Kafka) -> None:
    """Ask for a group of Spark's kind, which needs the right that asking for its offsets does: of an internal topic
    Spark's source finds the partitions no other way. No group is made."""
    from confluent_kafka import KafkaError, KafkaException

    from agent.kafka.client import new_admin_client, quiet
    from agent.kafka.source.errors import SourceDenied, SourceUnreachable

    admin = new_admin_client(quiet(kafka.properties))
    group = f"{GROUP_PREFIX}-check"
    try:
        admin.describe_consumer_groups([group], request_timeout=_CONNECT_S)[group].result(_CONNECT_S)
    except KafkaException as error:
        said = f"asking for a group as Spark does: {error.args[0].str()}"
        match error.args[0].code():
            case KafkaError.GROUP_AUTHORIZATION_FAILED:
                right = f"ACL operation Describe on groups prefixed {GROUP_PREFIX}"
                raise SourceDenied(said, right=right) from error
            case KafkaError.GROUP_ID_NOT_FOUND:
                # Newer brokers say so of a group that is not there, to who may know.
                return
        raise SourceUnreachable(said) from error
