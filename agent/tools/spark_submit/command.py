"""A job, and how it is to run → the command line of `spark-submit`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.config.secrets import is_secret
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import SECRETS, Backfill, Job, Kafka, Stream, text_of
from agent.tools.spark_submit.package import Code
from agent.tools.spark_submit.paths import ICEBERG, local_directory
from agent.tools.spark_submit.spark import Spark

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10"
DELTA, DELTA_VERSION = "io.delta:delta-spark", "4.0.0"
ICEBERG_RUNTIME, ICEBERG_VERSION = "org.apache.iceberg:iceberg-spark-runtime", "1.10.0"
HADOOP_AWS = "org.apache.hadoop:hadoop-aws"
IVY_SETTINGS = "spark.jars.ivySettings"
EXTENSIONS, CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
CLUSTER = "cluster"

_IN_CLUSTER = (f"spark.kubernetes.driver.secretKeyRef.{SECRETS}", f"spark.yarn.appMasterEnv.{SECRETS}")


class SubmitSettings(Struct, frozen=True):
    """Where and how a job runs."""

    ivy_home: Path
    ivy_settings: Path
    """A settings file of Ivy, which downloads packages."""
    python: str
    """The interpreter of this process."""
    master: str = "local[*]"
    deploy_mode: str = "client"
    packages: tuple[str, ...] = ()
    """Coordinates, `group:artifact:version`."""
    conf: tuple[tuple[str, str], ...] = ()
    driver_memory: str = "2g"

    @property
    def is_local(self) -> bool:
        """Whether all runs on this machine, in one JVM."""
        return self.master.startswith("local")

    @property
    def drives_here(self) -> bool:
        """Whether the driver runs on this machine, and so sees its files and its environment."""
        return self.deploy_mode != CLUSTER


def kafka_of(job: Job) -> Kafka | None:
    """The brokers that a job talks to."""
    return job.kafka if isinstance(job, Backfill | Stream) else None


def split_secrets(job: Job) -> tuple[Job, dict[str, str]]:
    """The job without those properties that nobody else should read, and these."""
    kafka = kafka_of(job)
    if kafka is None:
        return job, {}
    secret = {name: value for name, value in kafka.properties.items() if is_secret(name)}
    rest = {name: value for name, value in kafka.properties.items() if name not in secret}
    return msgspec.structs.replace(job, kafka=Kafka(properties=rest)), secret


def environment(settings: SubmitSettings, spark: Spark) -> dict[str, str]:
    """What `spark-submit` needs in its environment; the secrets come to that."""
    out = {"SPARK_HOME": str(spark.home)}
    if settings.is_local:
        # Nobody else has business with the driver's ports, its web page among them; and a host name that resolves
        # to no address of this machine does no harm.
        out["SPARK_LOCAL_IP"] = "127.0.0.1"
    return out


def packages_of(job: Job, settings: SubmitSettings, spark: Spark) -> tuple[str, ...]:
    """The coordinates of what is to be downloaded: those asked for, and what the job needs beside them.

    What lies among Spark's jars already, in whatever version, is not.
    """
    line = ".".join(spark.version.split(".")[:2])
    wanted: list[tuple[str, str]] = []
    if kafka_of(job) is not None and not spark.has_connector:
        # The connector is published with each x.y.0, and later ones of the same x.y take it.
        wanted.append((f"{CONNECTOR}_{spark.scala}", f"{line}.0"))
    if uses_delta(job):
        wanted.append((f"{DELTA}_{spark.scala}", DELTA_VERSION))
    if any(it.startswith(ICEBERG) for it in _inputs(job)) or _format(job) == "iceberg":
        wanted.append((f"{ICEBERG_RUNTIME}-{line}_{spark.scala}", ICEBERG_VERSION))
    if any(it.startswith("s3a:") for it in _paths(job)):
        # It must be of the version of Spark's own Hadoop.
        wanted.append((HADOOP_AWS, spark.jar_version("hadoop-client-api") or "3.4.1"))
    given = {it.rpartition(":")[0] for it in settings.packages}
    return (
        *settings.packages,
        *(
            f"{artifact}:{version}"
            for artifact, version in wanted
            if artifact not in given and spark.jar_version(artifact.partition(":")[2]) is None
        ),
    )


def uses_delta(job: Job) -> bool:
    """Whether a job may meet Delta tables: it writes them, or reads some here, or reads elsewhere, where nobody has
    looked yet."""
    return _format(job) == "delta" or any(_may_be_delta(it) for it in _inputs(job))


def _may_be_delta(path: str) -> bool:
    if path.startswith(ICEBERG):
        return False
    here = local_directory(path)
    return here is None or any(here.glob("_delta_log")) or any(here.glob("*/_delta_log"))


def _format(job: Job) -> str | None:
    return getattr(job, "format", None)


def _inputs(job: Job) -> Sequence[str]:
    """Where tables are read."""
    return [path for field in ("history", "rollups") for path in _told(getattr(job, field, None))]


def _paths(job: Job) -> Sequence[str]:
    """Everywhere that Spark reads and writes."""
    fields = ("archives", "out", "checkpoint", "summary")
    return [*_inputs(job), *(path for field in fields for path in _told(getattr(job, field, None)))]


def _told(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value or ()


def check_coordinates(packages: Sequence[str], spark: Spark) -> None:
    """Raise `SubmitError` for what cannot be loaded by this Spark."""
    for coordinates in packages:
        parts = coordinates.split(":")
        if len(parts) != 3 or not all(parts):
            raise SubmitError(f"--packages: expected GROUP:ARTIFACT:VERSION, got {coordinates!r}")
        group, artifact, version = parts
        name, _, scala = artifact.rpartition("_")
        if group != "org.apache.spark" or not name:
            continue
        if scala != spark.scala:
            raise SubmitError(
                f"--packages: {coordinates}: expected {name}_{spark.scala}, since Spark at {spark.home} is built for"
                f" Scala {spark.scala}, got one for {scala}"
            )
        if version.split(".")[:2] != spark.version.split(".")[:2]:
            line = ".".join(spark.version.split(".")[:2])
            raise SubmitError(
                f"--packages: {coordinates}: expected version {line}.x, since Spark at {spark.home} is"
                f" {spark.version}, got {version}"
            )


def check_secrets(secrets: Mapping[str, str], settings: SubmitSettings) -> None:
    """Raise `SubmitError` where the driver would not get them: in a cluster it has another environment."""
    given = {name for name, _ in settings.conf}
    if not secrets or settings.drives_here or given.intersection(_IN_CLUSTER):
        return
    raise SubmitError(
        f"--deploy-mode {CLUSTER}: the driver does not see this environment, and the properties"
        f" {', '.join(secrets)} do not belong on a command line: give the driver {SECRETS} (a JSON object of them)"
        f" and say so, for instance with --conf {_IN_CLUSTER[0]}=NAME:KEY"
    )


def command(job: Job, settings: SubmitSettings, spark: Spark, code: Code) -> list[str]:
    """The arguments, the command first. The job has no secrets any more."""
    kind = str(job.__struct_config__.tag)
    out = [str(spark.submit), "--master", settings.master, "--deploy-mode", settings.deploy_mode]
    out += ["--name", f"kshadow {kind}", "--driver-memory", settings.driver_memory]
    out += ["--py-files", str(code.archive)]
    packages = packages_of(job, settings, spark)
    if packages:
        out += ["--packages", ",".join(packages)]
    given = dict(settings.conf)
    conf = {**_own_conf(settings, packages), **given}
    if uses_delta(job):
        # Beside extensions that the user has.
        conf[EXTENSIONS] = ",".join(filter(None, (given.get(EXTENSIONS), DELTA_EXTENSION)))
        conf.setdefault(CATALOG, DELTA_CATALOG)
    for name, value in conf.items():
        out += ["--conf", f"{name}={value}"]
    return [*out, str(code.main), text_of(job)]


def _own_conf(settings: SubmitSettings, packages: Sequence[str]) -> dict[str, str]:
    out: dict[str, str] = {}
    if packages:
        out["spark.jars.ivy"] = str(settings.ivy_home)
        out[IVY_SETTINGS] = str(settings.ivy_settings)
    if settings.drives_here:
        out["spark.pyspark.driver.python"] = settings.python
    if settings.is_local:
        out["spark.pyspark.python"] = settings.python
    return out
