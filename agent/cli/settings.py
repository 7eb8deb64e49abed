"""The `--config` file: options by name, for every command at once or in a section of one command's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def load_settings(path: Path, group: click.Group, ctx: click.Context) -> dict[str, dict[str, Any]]:
    """Read a YAML file into click's default map, which has a section for each command.

    Keys are long option names, with `-` or `_`. A key at the top goes to every command that has the option; a
    section named after a command wins over it. A key that no command has, or a section of none, is an error.
    """
    import yaml

    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: YAML expected: {error}") from None
    if settings is None:
        settings = {}
    if not isinstance(settings, dict):
        raise click.UsageError(f"{path}: options by name expected, {type(settings).__name__} came")
    options = {name: _options(group.get_command(ctx, name), name) for name in group.list_commands(ctx)}
    known = sorted(set().union(*options.values()))
    out: dict[str, dict[str, Any]] = {name: {} for name in options}
    sections: dict[str, dict[str, Any]] = {}
    for raw_key, value in settings.items():
        key = str(raw_key)
        if key in options and isinstance(value, dict):
            sections[key] = value
            continue
        name = key.replace("-", "_")
        if name not in known:
            names = ", ".join(option.replace("_", "-") for option in known)
            raise click.UsageError(
                f"{path}: unknown key {key!r}; known are: {names}; or a command's name with a section"
            )
        for command, has in options.items():
            if name in has:
                out[command][has[name]] = value
    for command, section in sections.items():
        for raw_key, value in section.items():
            name = str(raw_key).replace("-", "_")
            if name not in options[command]:
                raise click.UsageError(f"{path}: {command} has no option {str(raw_key)!r}")
            out[command][options[command][name]] = value
    return out


def _options(command: click.Command | None, name: str) -> dict[str, str]:
    """The options of a command: long name with underscores to parameter name."""
    assert command is not None, f"the table has {name}"
    return {
        flag.removeprefix("--").replace("-", "_"): parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.name is not None
        for flag in parameter.opts
        if flag.startswith("--")
    }
