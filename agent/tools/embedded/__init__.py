"""A real Kafka broker without Docker, for `kshadow demo` and for tests.

    with EmbeddedBroker(fetch_jars()) as broker:
        broker.bootstrap_servers        # 127.0.0.1:PORT
        broker.log_dirs                 # where the __consumer_offsets-N directories are
        broker.run_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", …)

Needs Java 17 and, unless KAFKA_HOME names a Kafka release, once a Maven repository: `kshadow[demo]` knows the central
one (`maven`). Versions without a list of checksums (`pinned`) and Kafka's tools need pyspark, for Ivy.
"""

from agent.tools.embedded.broker import EmbeddedBroker
from agent.tools.embedded.errors import EmbeddedError
from agent.tools.embedded.jars import DEFAULT_VERSION, NEWEST_TOOLS, Jars, fetch_jars, fetch_tools
from agent.tools.embedded.process_reaper import ProcessReaper

__all__ = [
    "DEFAULT_VERSION",
    "NEWEST_TOOLS",
    "EmbeddedBroker",
    "EmbeddedError",
    "Jars",
    "ProcessReaper",
    "fetch_jars",
    "fetch_tools",
]
