"""What can keep an embedded broker from running, one type a cause.

Each message is a sentence for a person: what was expected, what came, and what to install or do.
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """No embedded broker, and why; the message says what to do."""


class JavaMissingError(EmbeddedError):
    """There is no `java` to run Kafka with."""


class JavaTooOldError(EmbeddedError):
    """There is a `java`, and Kafka does not run on it."""


class IvyMissingError(EmbeddedError):
    """Nothing is there to download jars with: no Maven repository is known, or pyspark with Ivy is not installed."""


class JarsUnavailableError(EmbeddedError):
    """Kafka's jars could not be downloaded, or what is at KAFKA_HOME is not Kafka."""


class BrokerFailedError(EmbeddedError):
    """The broker ended by itself, or did not answer in time; the end of its log is in the message."""


class ToolFailedError(EmbeddedError):
    """One of Kafka's command line classes ended with an error or ran out of time."""
