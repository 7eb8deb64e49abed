"""`kshadow run`: the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from agent.cli.run_options import run_options


@click.command()
@run_options
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Run the agent: follow the topic and serve metrics and the API.

    Serves /metrics, /healthz, /readyz (503 until caught up, and again when reading has stopped), /api/v1/groups,
    /api/v1/findings, /api/v1/status, and a page for people at /. Needs Read and Describe on the topic
    __consumer_offsets; kshadow doctor says which rights what else needs. With --state-dir it goes on after a restart
    where it was; SIGHUP reads the --config file again.

    \b
    Examples:
      kshadow run --bootstrap-server localhost:9092
      kshadow run --bootstrap-server localhost:9092 --group payments
      kshadow run --bootstrap-server localhost:9092 --broker-log /opt/kafka/logs/server.log
      kshadow run --bootstrap-server localhost:9092 --state-dir /var/lib/kshadow --history-topic kshadow-history
    """
    from agent.common.collector import no_cycle_collection

    with no_cycle_collection():
        from agent.cli.config_file import warn_of_pipe
        from agent.cli.run_settings import rereader, run_settings
        from agent.runtime.process import run_process

    if (web_config := ctx.params["web_config"]) is not None:
        with suppress(OSError):  # whoever reads it says so
            warn_of_pipe(Path(web_config))
    file = rereader(ctx)
    with _errors_reported():
        ctx.exit(run_process(partial(run_settings, ctx), file))


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Turn what cannot be read or written into a message and the exit code of the contract."""
    from agent.cli.answers import exit_unreachable
    from agent.cli.data_source import source_errors_reported
    from agent.cli.output import printable
    from agent.kubernetes.errors import KubernetesMisconfigured
    from agent.persistence.export.errors import ExportError, SpoolLocked, SpoolUnusable
    from agent.persistence.snapshot.store import StoreError

    try:
        with source_errors_reported():
            yield
    except (StoreError, SpoolLocked, SpoolUnusable) as error:
        exit_unreachable(str(error))
    except (ExportError, KubernetesMisconfigured) as error:
        raise click.UsageError(printable(str(error))) from None
