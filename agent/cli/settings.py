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
    commands = {name: group.get_command(ctx, name) for name in group.list_commands(ctx)}
    options = {name: _options(command) for name, command in commands.items() if command is not None}
    known = sorted(set().union(*options.values()))
    out: dict[str, dict[str, Any]] = {name: {} for name in options}
    sections: dict[str, dict[Any, Any]] = {}
    for raw_key, value in settings.items():
        key = str(raw_key)
        if key in options and (isinstance(value, dict) or value is None):
            sections[key] = value or {}
            continue
        name = key.replace("-", "_")
        if name not in known:
            if key in options:
                raise click.UsageError(f"{path}: {key}: a section of options expected, {value!r} came")
            raise click.UsageError(
                f"{path}: unknown key {key!r}; known are {_listed(known)}; or a command's name with a section"
            )
        for command, has in options.items():
            if name in has:
                _set(out[command], has[name], value, ctx, f"{path}: {key}")
    for command, section in sections.items():
        for raw_key, value in section.items():
            name = str(raw_key).replace("-", "_")
            has = options[command]
            if name not in has:
                raise click.UsageError(
                    f"{path}: {command}: unknown key {str(raw_key)!r}; known are {_listed(sorted(has))}"
                )
            _set(out[command], has[name], value, ctx, f"{path}: {command}: {raw_key}")
    return out


def _listed(names: list[str]) -> str:
    return ", ".join(name.replace("_", "-") for name in names)


def _options(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by long name, with underscores."""
    return {
        flag.removeprefix("--").replace("-", "_"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for flag in parameter.opts
        if flag.startswith("--")
    }


def _set(defaults: dict[str, Any], option: click.Option, value: Any, ctx: click.Context, where: str) -> None:
    """Set a parameter's default as the command line would; an option without a value stays as it is."""
    assert option.name is not None, "a parameter has a name"
    if value is None:
        return
    if option.multiple:
        if isinstance(value, dict):
            # `property: {security.protocol: SASL_SSL}` reads better than a list of NAME=VALUE.
            value = [f"{name}={_text(item, where)}" for name, item in value.items()]
        value = [_text(item, where) for item in (value if isinstance(value, list) else [value])]
    elif not option.is_flag:
        value = _text(value, where)
    try:
        option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise click.UsageError(f"{where}: {error.message}") from None
    defaults[option.name] = value


def _text(value: Any, where: str) -> str:
    """A scalar as the command line would have it. YAML makes a number of `1` and a truth of `no`."""
    if isinstance(value, bool):
        # librdkafka's own words.
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise click.UsageError(f"{where}: a text or a number expected, {type(value).__name__} came")
