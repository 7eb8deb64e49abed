"""What keeps a job from its work, by what whoever runs it can do about it."""

from __future__ import annotations

import re

from analyzers.registry import AnalyzerConfigError


class JobError(Exception):
    """The job cannot do its work. `code` is the exit code of the process: those of the contract."""

    code = 2


class Unreachable(JobError):
    """A cluster or a topic that is not to be reached, or not to be read."""

    code = 3


class JobFailed(JobError):
    """Spark gave up, for a reason that is none of these."""

    code = 1


class StateRefused(JobError):
    """What a stream kept in its checkpoint and this version cannot go on from; the message says whose state, what was
    expected and what came."""


def _of_class(error: type[Exception]) -> str:
    """The pattern of an error of ours as Python prints it in a task; its message is the group."""
    return re.escape(f"{error.__module__}.{error.__qualname__}: ") + r"([^\n]*)"


_KNOWN: tuple[tuple[str, type[JobError], str], ...] = (
    (
        r"(Topic|Group|Cluster)AuthorizationException: ([^\n]*)",
        Unreachable,
        "not allowed: {0}: grant Describe and Read on the topic, and Describe on groups prefixed kshadow-spark",
    ),
    (r"(SaslAuthentication|SslAuthentication)Exception: ([^\n]*)", Unreachable, "the brokers do not let us in: {0}"),
    (
        r"(No resolvable bootstrap urls|Timeout\w*Exception: Timed out waiting for a node|Timeout\w*Exception: "
        r"Timeout of \d+ms expired before [^\n]*)",
        Unreachable,
        "the brokers cannot be reached from where the job runs: {0}",
    ),
    (r"UnknownTopicOrPartitionException: ([^\n]*)", Unreachable, "the topic is not there: {0}"),
    (
        r"Failed to find (?:the )?data source: kafka",
        JobError,
        "Spark's Kafka connector is not loaded: give its coordinates with --packages",
    ),
    (
        _of_class(StateRefused),
        StateRefused,
        "this version cannot go on from the checkpoint: {0}. Either go on with the kshadow that wrote it; or start"
        " with another --checkpoint and another --out: what is in this --out stays true",
    ),
    (_of_class(AnalyzerConfigError), JobError, "{0}"),
    (
        r"ModuleNotFoundError: No module named '([^']*)'",
        JobError,
        "executors lack the Python module {0}: install it there",
    ),
    (r"(PATH_NOT_FOUND[^\n]*)", JobError, "nothing is there: {0}"),
    (r"(UNABLE_TO_INFER_SCHEMA[^\n]*)", JobError, "no Parquet files are there: {0}"),
    (r"(FAILED_READ_FILE[^\n]*)", JobError, "a file is no Parquet, or is damaged: {0}"),
    (
        r"(STATE_STORE_\w+[^\n]*|Incomplete log file[^\n]*|CHECKPOINT_\w+[^\n]*|Unsupported log version[^\n]*"
        r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA[^\n]*"
        r"|There are \[[^\n]*sources in the checkpoint[^\n]*)",
        JobError,
        "the checkpoint cannot be gone on from: {0}",
    ),
    (r"(No space left on device|Disk quota exceeded)", JobFailed, "{0}"),
    (
        r"(OutOfMemoryError[^\n]*)",
        JobFailed,
        "{0}: give the driver more with --driver-memory, or executors by --conf",
    ),
)


def explained(text: str) -> JobError:
    """What Spark's error says to whoever runs the job. `text` is all of it, traces of both languages included."""
    for pattern, kind, sentence in _KNOWN:
        found = re.search(pattern, text)
        if found is not None:
            return kind(sentence.format(found[found.re.groups or 0].strip()))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    said = (causes or lines or ["nothing was said"])[-1 if causes else 0]
    return JobFailed(f"Spark gave up: {said}")
