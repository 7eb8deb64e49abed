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
    # Spark's Kafka source leaves internal topics out where it asks for partitions by the Admin client (SPARK-32032;
    # by default since 3.4, SPARK-40844), and reads nothing of them without a word. It does so up to the newest that
    # was looked at, of Spark's main branch before 4.2: `isInternal` in the connector's ConsumerStrategy. The first
    # Spark without it needs no such setting: tests/live/tools/spark_submit/test_commands.py fails then.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # Only what is no stateful operator hears of it: its workers would have another environment than the operator's,
    # and so be other processes, which wait beside those with all their memory.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Python's workers live as long as the job: what a batch took for a moment they shall give back.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "1048576",
    # Delta's own 50 are for tables of terabytes: starting tasks took most of the time of a commit.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Transform with state keeps its state there, and nowhere else.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
