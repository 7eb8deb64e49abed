"""The one session of a job. Everything that Spark is told stands here."""

from __future__ import annotations

from pyspark.sql import SparkSession


def session(name: str) -> SparkSession:
    """The session of a job, made by what `spark-submit` was told, and of ours where that says nothing."""
    out = SparkSession.builder.appName(f"kshadow {name}").config(map=_OURS).getOrCreate()
    out.sparkContext.setLogLevel("ERROR")
    if out.sparkContext.getConf().get(_PARTITIONS) is None:
        # Spark's own 200 are for hundreds of cores: on two, starting tasks took most of the time.
        out.conf.set(_PARTITIONS, str(_PER_CORE * out.sparkContext.defaultParallelism))
    return out


_PARTITIONS = "spark.sql.shuffle.partitions"
_PER_CORE = 2

_OURS = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's Kafka source hides internal topics from its Admin client, and reads none of them without a word.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # Transform with state keeps its state there, and nowhere else.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
