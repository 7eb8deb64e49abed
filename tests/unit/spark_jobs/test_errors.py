"""What Spark says, in a sentence and with the contract's exit code."""

from __future__ import annotations

import pytest

from spark_jobs.errors import explained


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        # 1: a right is missing
        (
            "Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics:"
            " [t]\n\tat x",
            3,
            "not allowed: Not authorized to access topics: [t]: grant Describe and Read",
        ),
        # 2: a password is wrong
        ("org.apache.kafka.common.errors.SaslAuthenticationException: no", 3, "the brokers do not let us in: no"),
        # 3: nobody is there
        (
            "org.apache.kafka.common.KafkaException: No resolvable bootstrap urls given in",
            3,
            "cannot be reached",
        ),
        (
            "TimeoutException: Timeout of 60000ms expired before the position",
            3,
            "cannot be reached",
        ),
        # 4: no connector
        ("[...] Failed to find data source: kafka. Please", 2, "give its coordinates with --packages"),
        # 5: another version's state
        (
            "spark_jobs.errors.StateRefused: the mirror of partition 3: layout a expected, layout b came",
            2,
            "the mirror of partition 3: layout a expected, layout b came. Either go on with the kshadow that",
        ),
        # 6: an executor without our dependencies
        ("ModuleNotFoundError: No module named 'msgspec'", 2, "executors lack the Python module msgspec"),
        # 7: no such path
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", 2, "nothing is there: PATH_NOT_FOUND]"),
        # 8: a checkpoint of another query
        (
            "AssertionError: There are [1] sources in the checkpoint offsets and now there are [2]",
            2,
            "the checkpoint cannot be gone on from",
        ),
        # 9: the disk is full
        ("java.io.IOException: No space left on device", 1, "No space left on device"),
        # 10: not enough memory
        ("java.lang.OutOfMemoryError: Java heap space", 1, "give the driver more"),
        # 11: anything else says what is nearest to its cause
        ("a\n\tat b\nCaused by: c\nCaused by: java.lang.IllegalStateException: odd", 1, "IllegalStateException: odd"),
        ("something odd", 1, "Spark gave up: something odd"),
        ("", 1, "nothing was said"),
    ],
)
def test_what_it_means(said: str, code: int, sentence: str) -> None:
    error = explained(said)
    assert (error.code, sentence in str(error)) == (code, True), str(error)
