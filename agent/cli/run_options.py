"""The options of `kshadow run` as click has them: made of the fields of `agent.config.settings`."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.options import Decorator, combined, long_name, option_of
from agent.config.settings import OPTIONS

run_options: Decorator = combined(*map(option_of, OPTIONS.values()))
"""Every option of `kshadow run`, in the order of its help."""


def _declare(**parameters: Any) -> None:
    """Only carries the options."""


declared: click.Command = click.command("run")(run_options(_declare))
"""The options of `kshadow run` without what it does: for whoever asks what can be set."""

RUN_OPTIONS: dict[str, click.Option] = {
    long_name(parameter): parameter for parameter in declared.params if isinstance(parameter, click.Option)
}
"""Each option of `kshadow run` by its name, as click has it."""
