"""A job, and how it is to run → the command line of `spark-submit`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.config.secrets import is_secret
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import SECRETS, Backfill, Job, Kafka, Stream, text_of
from agent.tools.spark_submit.package import Code
from agent.tools.spark_submit.spark import Spark

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10"
IVY_SETTINGS = "spark.jars.ivySettings"
CLUSTER = "cluster"

_IN_CLUSTER = (f"spark.kubernetes.driver.secretKeyRef.{SECRETS}", f"spark.yarn.appMasterEnv.{SECRETS}")


@dataclass(frozen=True, slots=True)
class SubmitSettings:
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
    """The coordinates of what is to be downloaded: those asked for, and Kafka's connector where it is needed."""
    has_it = spark.has_connector or any(it.startswith(f"{CONNECTOR}_") for it in settings.packages)
    if has_it or kafka_of(job) is None:
        return settings.packages
    # The connector is published with each x.y.0, and later ones of the same x.y take it.
    version = ".".join(spark.version.split(".")[:2]) + ".0"
    return (*settings.packages, f"{CONNECTOR}_{spark.scala}:{version}")


def check_coordinates(packages: Sequence[str], spark: Spark) -> None:
    """Raise `SubmitError` for what cannot be loaded by this Spark."""
    for coordinates in packages:
        parts = coordinates.split(":")
        if len(parts) != 3 or not all(parts):
            raise SubmitError(f"--packages: GROUP:ARTIFACT:VERSION expected, {coordinates!r} came")
        group, artifact, version = parts
        name, _, scala = artifact.rpartition("_")
        if group != "org.apache.spark" or not name:
            continue
        if scala != spark.scala:
            raise SubmitError(
                f"--packages: {coordinates}: {name}_{spark.scala} expected, since Spark at {spark.home} is built for"
                f" Scala {spark.scala}; one for {scala} came"
            )
        if version.split(".")[:2] != spark.version.split(".")[:2]:
            line = ".".join(spark.version.split(".")[:2])
            raise SubmitError(
                f"--packages: {coordinates}: version {line}.x expected, since Spark at {spark.home} is"
                f" {spark.version}; {version} came"
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
    conf = {**_own_conf(settings, packages), **dict(settings.conf)}
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
