"""Builds the tools that are missing: `python -m tests.harness.tools [NAME…]`, or `make tools`."""

from __future__ import annotations

import time

import click

from tests.harness.tools.build import BuildError, build
from tests.harness.tools.catalogue import TOOLS
from tests.harness.tools.places import find


@click.command()
@click.option("--low-priority", is_flag=True, help="Let everything else on the machine go before.")
@click.argument("names", nargs=-1, type=click.Choice(list(TOOLS)))
def main(low_priority: bool, names: tuple[str, ...]) -> None:
    """Build the tools that tests run, each once for each version."""
    failed = 0
    for name in names or [it.name for it in TOOLS.values() if not it.only_by_name]:
        tool = TOOLS[name]
        was = find(name)
        start = time.monotonic()
        try:
            built = build(tool, low_priority)
        except BuildError as error:
            failed += 1
            click.echo(str(error), err=True)
            continue
        took = "is there" if was else f"built in {time.monotonic() - start:.0f} s"
        click.echo(f"{name:15} {tool.label:9} {took:16} {built.stat().st_size / 1e6:6.0f} MB")
    if failed:
        raise SystemExit(1)


main(prog_name="python -m tests.harness.tools")
