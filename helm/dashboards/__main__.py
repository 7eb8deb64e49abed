"""Writes the dashboards to where the chart has them: `python -m helm.dashboards`."""

from __future__ import annotations

from pathlib import Path

import click

from helm.dashboards import FILES, rendered


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=FILES,
    help="Directory to write to, instead of the chart's.",
)
def main(out: Path) -> None:
    """Write the dashboards as the files that Grafana reads."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (out / name).write_text(text)
        click.echo(out / name)


main(prog_name="python -m helm.dashboards")
