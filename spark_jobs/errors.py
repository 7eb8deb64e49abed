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


ANEW = "start with another --checkpoint and another --out: what is in this --out stays true"
"""What to do where a stream cannot go on."""

_KNOWN: tuple[tuple[str, type[JobError], str], ...] = (
    (
        r"(?:Topic|Group|Cluster)AuthorizationException: ([^\n]*)",
        Unreachable,
        "not allowed: {0}: grant Describe and Read on the topic, and Describe on groups prefixed kshadow-spark",
    ),
    (
        r"(?:SaslAuthentication|SslAuthentication)Exception: ([^\n]*)",
        Unreachable,
        "the brokers do not let us in: {0}",
    ),
    (
        r"(No resolvable bootstrap urls|Timeout\w*Exception: Timed out waiting for a node|Timeout\w*Exception: "
        r"Timeout of \d+ms expired before [^\n]*)",
        Unreachable,
        "the brokers cannot be reached from where the job runs: {0}",
    ),
    (
        r"(?:HttpHostConnectException|UnknownHostException): ([^\n]*)",
        Unreachable,
        "a catalog or a store cannot be reached from where the job runs: {0}",
    ),
    (
        r"iceberg\.exceptions\.(?:NotAuthorized|Forbidden)Exception: ([^\n]*)",
        Unreachable,
        "the catalog does not let us in: {0}",
    ),
    (
        r"RecordTooLargeException: ([^\n]*)",
        JobError,
        "an event is larger than the topic of --events-topic takes (raise its max.message.bytes; the same command"
        " goes on from here): {0}",
    ),
    (r"UnknownTopicOrPartitionException: ([^\n]*)", Unreachable, "the topic is not there: {0}"),
    (
        r"Failed to find (?:the )?data source: kafka",
        JobError,
        "Spark's Kafka connector is not loaded: give its coordinates with --packages",
    ),
    (
        r"ClassNotFoundException: Class (org\.apache\.hadoop\.fs\.s3a\.\w+) not found",
        JobError,
        "s3a:// paths need Hadoop's S3 client, which is not loaded ({0}): give hadoop-aws of Spark's Hadoop with"
        " --packages",
    ),
    (
        r'No FileSystem for scheme "([^"]*)"',
        JobError,
        "{0}:// paths need a file system that is not loaded: give its package with --packages",
    ),
    (
        _of_class(StateRefused),
        StateRefused,
        "this version cannot go on from the checkpoint: {0}. Either go on with the kshadow that wrote it; or " + ANEW,
    ),
    (_of_class(AnalyzerConfigError), JobError, "{0}"),
    *((_of_class(kind), kind, "{0}") for kind in (JobError, JobFailed, Unreachable)),
    (
        r"(?:Failed to find (?:the )?data source: |DATA_SOURCE_NOT_FOUND\] [^\n]*)(delta|iceberg)",
        JobError,
        "Spark's package for {0} tables is not loaded: give its coordinates with --packages",
    ),
    (
        r"REQUIRES_SINGLE_PART_NAMESPACE\] spark_catalog requires a single-part namespace, but got `([^`]*)`",
        JobError,
        "Spark knows no catalog {0}: expected one that --conf spark.sql.catalog.{0}=… sets up",
    ),
    (
        r"(DELTA_CONCURRENT_\w+|DELTA_PROTOCOL_CHANGED|DELTA_METADATA_CHANGED|CommitFailedException)[^\n]*",
        JobError,
        "another job wrote to the same table meanwhile ({0}): run this one again",
    ),
    (
        r"ModuleNotFoundError: No module named '([^']*)'",
        JobError,
        "executors lack the Python module {0}: install it there",
    ),
    (
        r"\[PATH_NOT_FOUND\] Path does not exist: ([^\n]*?)\.(?: SQLSTATE|\s|$)",
        JobError,
        "{0}: expected a directory of tables, nothing is there",
    ),
    (
        r"\[UNABLE_TO_INFER_SCHEMA",
        JobError,
        "expected Parquet files in what is read, there are none: is the path right, and did what writes it run?",
    ),
    (
        r"Encountered error while reading file ([^\n]*?)\. Data type mismatches when reading Parquet column"
        r" \[([^\]\n]*)\]\. Expected Spark type ([^,\n]*), actual Parquet type (\w+)",
        JobError,
        "{0}: column {1}: expected {2}, got {3}: is it a table of kshadow, of this version?",
    ),
    (
        r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file ([^\n]*?)\. File does not exist",
        JobFailed,
        "{0}: it was there as the job began and is gone now, so something replaced the table meanwhile: run it again",
    ),
    (
        r"RuntimeException: ([^\n]*?) is not a Parquet file\. Expected magic number",
        JobError,
        "{0}: expected a Parquet file, got something else, or one that is cut off: restore it, or take it away and"
        " make its day anew",
    ),
    (
        r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file ([^\n]*?)\.\s[^\0]*?"
        r"Caused by: [\w.$]+: ([^\n]*)",
        JobError,
        "{0}: expected a Parquet file, got one that is damaged ({1}): restore it, or take it away and make its day"
        " anew",
    ),
    (
        r"INVALID_PARTITION_VALUE\] Failed to cast value '([^\n]*?)' to data type \"DATE\"",
        JobError,
        "date={0}: expected a directory of a day, such as date=2026-11-21: move it out of the history",
    ),
    (
        r"FileNotFoundException: ([^\n]*?) \((Permission denied|Read-only file system)\)",
        Unreachable,
        "{0}: {1}: expected that this user may read and write there",
    ),
    (
        r"(?:AccessControlException|AccessDeniedException): ([^\n]*)",
        Unreachable,
        "the file system does not let us in: {0}",
    ),
    (
        r"Mkdirs failed to create (\S+)",
        Unreachable,
        "{0}: it cannot be made: expected a directory that this user may write to",
    ),
    (r"Parent path is not a directory: ([^\n]*)", JobError, "{0}: expected a directory, a file is there"),
    (
        r"Failed to read log file ([^\n]*?)\. (?:Incomplete log file|\[INVALID_LOG_VERSION[^\]]*\] ([^\n]*))",
        JobError,
        "the checkpoint cannot be gone on from: {0} is cut off, or of a newer Spark: " + ANEW,
    ),
    (
        r"There are \[(\d+)\] sources in the checkpoint offsets and now there are \[(\d+)\]",
        JobError,
        "the checkpoint cannot be gone on from: expected a stream of {1} sources, one of {0} made it: " + ANEW,
    ),
    (
        r"(CONCURRENT_STREAM_LOG_UPDATE\][^\n]*"
        r"|Rename destination [^\n]*/(?:state|offsets|commits|sources)/[^\n]* already exists)",
        JobError,
        "another stream goes on from the same checkpoint ({0}): let one of them run",
    ),
    (
        r"(STATE_STORE_\w+[^\n]*|Incomplete log file[^\n]*|CHECKPOINT_\w+[^\n]*|Unsupported log version[^\n]*"
        r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA[^\n]*)",
        JobError,
        "the checkpoint cannot be gone on from: {0}: " + ANEW,
    ),
    (
        r"(No space left on device|Disk quota exceeded)",
        Unreachable,
        "{0}: where the job writes, or where Spark keeps what it works on (spark.local.dir, /tmp by default)",
    ),
    (
        r"(ArithmeticException: long overflow)[^\0]*?kafka010\.KafkaRecordToRowConverter",
        JobFailed,
        "a record of the topic is dated after the year 294,246, which Spark's Kafka source does not read ({0}): have"
        " the brokers refuse such times (message.timestamp.after.max.ms), and take the record's partition by"
        " kshadow spark backfill --from, or wait until it is compacted away",
    ),
    (
        r"(OutOfMemoryError[^\n]*)",
        JobFailed,
        "{0}: give the driver more with --driver-memory, or executors by --conf",
    ),
    (
        r"Python worker exited unexpectedly",
        JobFailed,
        "a Python worker was killed, most likely as memory ran out: give each core more beside the heap (in a cluster"
        " --conf spark.executor.memoryOverhead=…), or fewer cores (--master local[2])",
    ),
    (
        r"Python worker failed to connect back",
        JobFailed,
        "a Python worker did not start within the ten seconds that Spark gives it (if it failed, what it printed"
        " stands above): run it again when the machine is less busy, or give the driver more CPU",
    ),
)
"""By the text of what Spark says: the kind, and the sentence, with what the pattern caught."""

_LOCAL = re.compile(r"\bfile:(?://)?(?=/)")
"""In front of paths of this machine."""


GAVE_UP = "Spark gave up: "
"""In front of what nobody here knows better than Spark."""

_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?: [^\n]*\n)+(\w[^\n]*: [^\n]+)")


def explained(text: str) -> JobError:
    """What Spark's error says to whoever runs the job. `text` is all of it, traces of both languages included."""
    for pattern, kind, sentence in _KNOWN:
        found = re.search(pattern, text)
        if found is not None:
            return kind(_LOCAL.sub("", sentence.format(*((it or "").strip() for it in found.groups()))))
    # Of a task in Python the last that was raised is what began it.
    if raised := _RAISED.findall(text):
        return JobFailed(f"{GAVE_UP}{raised[-1]}")
    # Py4J says first which call it was, and on a line of its own what was raised.
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("An error occurred while calling ")]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    said = (causes or lines or ["nothing was said"])[-1 if causes else 0]
    return JobFailed(f"{GAVE_UP}{said.removeprefix('Caused by: ')}")
