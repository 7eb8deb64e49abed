"""A real Kafka broker without Docker, for `kshadow demo` and for tests.

    with EmbeddedBroker(fetch_jars()) as broker:
        broker.bootstrap_servers        # 127.0.0.1:PORT
        broker.log_dirs                 # where the __consumer_offsets-N directories are
        broker.run_tool("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", …)

    with EmbeddedCluster(fetch_jars(), nodes=2) as cluster:
        cluster.move_leaders("orders", {0: 2})
        cluster.brokers[1].kill()

Needs Java 17 and, unless KAFKA_HOME names a Kafka release, pyspark (for Ivy) and once a network.
"""

from agent.tools.embedded.broker import EmbeddedBroker
from agent.tools.embedded.cluster import EmbeddedCluster
from agent.tools.embedded.errors import EmbeddedError
from agent.tools.embedded.jars import DEFAULT_VERSION, Jars, fetch_jars
from agent.tools.embedded.node import Node
from agent.tools.embedded.process_reaper import ProcessReaper
from agent.tools.embedded.settings import Security

__all__ = [
    "DEFAULT_VERSION",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "EmbeddedError",
    "Jars",
    "ProcessReaper",
    "Node",
    "Security",
    "fetch_jars",
]
