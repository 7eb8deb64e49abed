"""From a job to its exit code: the checks, the archive, `spark-submit`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from agent.cli.data_source import source_errors_reported
from agent.cli.output import echo, printable, warn
from agent.tools.embedded.jars import cache_directory
from agent.tools.spark_submit import checks, command, paths
from agent.tools.spark_submit.checkpoint import check_checkpoint
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.ivy import settings_file
from agent.tools.spark_submit.jobs import SECRETS, Job, Stream
from agent.tools.spark_submit.package import Code, build
from agent.tools.spark_submit.running import run
from agent.tools.spark_submit.spark import Spark, find_spark
from analyzers.formatting import count_text


def submit(job: Job, params: Mapping[str, Any]) -> int:
    """Check, and run the job or print the command that would. The exit code. `params`: the common options."""
    try:
        with source_errors_reported():
            return _submit(job, params)
    except SubmitError as error:
        raise click.UsageError(printable(str(error))) from None


def _submit(job: Job, params: Mapping[str, Any]) -> int:
    cache = cache_directory() / "spark"
    placing = _placement(params, cache)
    if placing.is_local:
        job = paths.with_absolute_paths(job)
    paths.check_format(job)
    java, spark = _check(job, placing, params["spark_home"])
    if params["checks"]:
        checks.check_brokers(job)
    job_in_the_open, secrets = command.split_secrets(job)
    command.check_secrets(secrets, placing)
    code = build(cache)
    argv = command.command(job_in_the_open, placing, spark, code)
    environment = command.environment(placing, spark)
    if params["verbose"]:
        warn(f"Spark {spark.version} for Scala {spark.scala} at {spark.home}; {java}; our code in {code.archive}")
    if params["dry_run"]:
        _print(argv, environment, secrets)
        return 0
    inherited = {**os.environ, **environment}
    return _run(
        argv,
        inherited if not secrets else {**inherited, SECRETS: json.dumps(secrets)},
        code,
        verbose=params["verbose"],
    )


def _placement(params: Mapping[str, Any], cache: Path) -> command.SubmitSettings:
    """Where and how it runs."""
    ivy_home = (params["ivy_home"] or cache / "ivy").absolute()
    return command.SubmitSettings(
        ivy_home=ivy_home,
        ivy_settings=settings_file(ivy_home),
        python=sys.executable,
        packages=tuple(it.strip() for it in (params["packages"] or "").split(",") if it.strip()),
        **{name: params[name] for name in ("master", "deploy_mode", "conf", "driver_memory")},
    )


def _check(job: Job, placing: command.SubmitSettings, spark_home: Path | None) -> tuple[str, Spark]:
    """What can be seen without asking anybody."""
    java = checks.check_java()
    spark = find_spark(spark_home)
    command.check_coordinates(placing.packages, spark)
    checks.check_modules(job, placing)
    if placing.is_local:
        paths.check_paths(job)
    if isinstance(job, Stream) and placing.drives_here:
        check_checkpoint(job)
    return java, spark


def _print(argv: list[str], environment: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """For a shell; what it must have in its environment besides goes to standard error."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    echo(" ".join((*variables, shlex.join(argv))))
    if secrets:
        warn(f"{SECRETS} must be set where it runs: a JSON object with {', '.join(secrets)}")


def _run(argv: list[str], environment: Mapping[str, str], code: Code, *, verbose: bool) -> int:
    try:
        ended = run(argv, environment, code.main, warn, verbose=verbose)
    except OSError as error:
        raise SubmitError(f"{argv[0]}: cannot be run: {error.strerror}") from error
    if ended.hidden:
        warn(f"the last {count_text(len(ended.hidden), 'line')} of Spark (--verbose shows all):")
        for line in ended.hidden:
            warn(f"  {line}")
    if ended.message is not None:
        warn(f"Error: {ended.message}")
    return ended.code
