"""The `--config` file: options by name, for every command at once or in a section of one command's name; in that of
a group, such as `spark`, for all its commands or in a section of one.

`clusters` is a map of names to options of `run`, where one process reads several. `context` is the name of one of
those that `kshadow context` keeps.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import click

from agent.cli.options import long_name
from agent.cli.output import warn
from agent.cli.session import ConfigFile
from agent.config.options import LibrdkafkaProperty
from agent.config.resolving import FileOptions
from agent.config.settings import PER_CLUSTER
from agent.config.value_source import GivenValue, GivenValues, ValueSource

CLUSTERS = "clusters"
RUN = "run"
CONTEXT = "context"

MAX_MESSAGE = 10_000
"""Characters of what is said of one problem, with what came: that may be of any length."""

Options = Mapping[str, click.Option]
"""By long name, with underscores."""


def load_config_file(path: Path, group: click.Group, ctx: click.Context) -> ConfigFile:
    """Read a YAML file. The first problem is a usage error, which says how many more there are."""
    loaded = read_config_file(path, group, ctx)
    if loaded.problems:
        first, *others = loaded.problems
        more = f"\n{len(others)} more of it: kshadow config check lists all" if others else ""
        raise click.UsageError(first + more)
    return loaded


def read_config_file(path: Path, group: click.Group, ctx: click.Context) -> ConfigFile:
    """Read a YAML file, and all that is wrong with it.

    Keys are long option names, with `-` or `_`. A key at the top goes to every command that has the option; a
    section named after a command wins over it. A key that no command has, a section of none, and an option that one
    place has in both spellings are problems.
    """
    reading = _FileReader(
        ConfigFile(path, FileOptions(), read_again=partial(read_config_file, path, group, ctx)), group, ctx
    )
    try:
        settings = parse_yaml(path)
    except ValueError as error:
        reading.loaded.problems.append(f"{path}: {error}")
        return reading.loaded
    reading.read(settings)
    return reading.loaded


def parse_yaml(path: Path) -> dict[Any, Any]:
    """A file of options by name. Raises `ValueError`."""
    import yaml

    from agent.common.bounded_yaml import TextLoader, yaml_problem

    try:
        warn_of_pipe(path)
        settings = yaml.load(path.read_text(encoding="utf-8"), TextLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(yaml_problem(error)) from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise ValueError(f"expected options by name, got {type(settings).__name__}")
    return settings


def warn_of_pipe(path: Path) -> None:
    """Say of what will be read that it may have to be waited for. Raises `OSError`."""
    # `Path.resolve` raises another error where links lead to each other.
    if Path(os.path.realpath(path)).is_fifo():
        warn(f"{path}: a pipe: waiting for whoever writes into it")


def coerce(option: click.Option, value: Any, ctx: click.Context, directory: Path) -> tuple[Any, Any] | None:
    """A value of YAML as the command line would have it, and what the option makes of it; None for nothing.

    References are put in, paths in them relative to `directory`. Raises `ValueError` where it makes nothing of it.
    """
    if value is None:
        return None
    texts = _YamlTexts(directory)
    if option.multiple and isinstance(option.type, LibrdkafkaProperty) and isinstance(value, dict):
        # As pairs: what a reference gave may look like another one, and is none.
        value = [*zip(map(str, value), _each(texts.text_of, value.values()), strict=True)]
    elif option.multiple:
        value = texts.list_of_texts(value, is_named="=" in option.type.name)
    elif not (option.is_flag and isinstance(value, bool)):
        value = texts.text_of(value)

    def cast(item: Any) -> Any:
        try:
            return option.type_cast_value(ctx, item)
        except click.BadParameter as error:
            # It quotes what came, and what is referred to may be a secret.
            message = "this option takes no such value" if texts.has_reference else error.message
            raise ValueError(message) from None

    if not option.multiple:
        return value, cast(value)
    return value, tuple(typed for (typed,) in _each(cast, ([item] for item in value)))


def _each(make: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """What is made of each. The `ValueError` says all that is wrong, not only the first."""
    made, problems = [], []
    for item in items:
        try:
            made.append(make(item))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("; ".join(dict.fromkeys(problems)))
    return made


def unknown_key(key: str, known: Iterable[str], others: Iterable[str] = (), more: str = "") -> str:
    """What to say of a key that nobody knows: the nearest, or all of them."""
    names = {name.replace("_", "-") for name in known}
    near = get_close_matches(key.replace("_", "-"), sorted({*names, *others}), n=1, cutoff=0.7)
    said = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(names))}{more}"
    return f"unknown key {key!r}; {said}"


class _FileReader:
    """One file on its way into what it says."""

    def __init__(self, loaded: ConfigFile, group: click.Group, ctx: click.Context) -> None:
        self.loaded, self._ctx = loaded, ctx
        # By the command's name: the sections of the default map that it stands for, each with its options.
        self._commands = {
            name: list(_leaf_commands((name,), command, ctx))
            for name in group.list_commands(ctx)
            if (command := _command_named(name, group, ctx)) is not None
        }

    def read(self, settings: Mapping[Any, Any]) -> None:
        """All of it; the top first, since sections win over it."""
        sections: dict[str, Mapping[Any, Any]] = {}
        for key, value in self._entries("", settings):
            if key == CLUSTERS:
                continue
            if key == CONTEXT and isinstance(value, str):
                self.loaded.context = value
                continue
            if key in self._commands and (isinstance(value, dict) or value is None):
                sections[key] = value or {}
            else:
                self._set_top(key, value)
        for name, section in sections.items():
            self._read_section((name,), section)
        self._read_clusters(settings.get(CLUSTERS))

    def _entries(self, where: str, section: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
        """Keys with their values. An option that stands there in two spellings is a problem, and has the first's."""
        spelled: dict[str, str] = {}
        for raw_key, value in section.items():
            key = str(raw_key)
            first = spelled.setdefault(key.replace("_", "-"), key)
            if first == key:
                yield key, value
            else:
                self._problem(f"{where}{first} and {key} are the same option: expected one of them")

    def _set_top(self, key: str, value: Any) -> None:
        name = key.replace("-", "_")
        having = [(path, has) for leaves in self._commands.values() for path, has in leaves if name in has]
        if having:
            problems = {path[0]: self._set(path, has[name], value, key, ValueSource.FILE) for path, has in having}
            self._report_top_problems(problems)
            return
        if key in self._commands:
            self._problem(f"{key}: expected a section of options, got {reprlib.repr(value)}")
            return
        known = {name for leaves in self._commands.values() for _, has in leaves for name in has}
        self._unknown("", key, known, (*self._commands, CLUSTERS), "; or a command's name with a section")

    def _read_section(self, command: tuple[str, ...], section: Mapping[Any, Any]) -> None:
        """One of a command; of a group it may hold sections of the commands in it, which win over it."""
        leaves = [(path, has) for path, has in self._commands[command[0]] if path[: len(command)] == command]
        within = {path[len(command)] for path, _ in leaves if len(path) > len(command)}
        inner: dict[str, Mapping[Any, Any]] = {}
        for key, value in self._entries(": ".join(command) + ": ", section):
            if key in within and (isinstance(value, dict) or value is None):
                inner[key] = value or {}
            else:
                self._set_in(command, leaves, key, value)
        for key, value in inner.items():
            self._read_section((*command, key), value)

    def _set_in(
        self, command: tuple[str, ...], leaves: list[tuple[tuple[str, ...], Options]], key: str, value: Any
    ) -> None:
        where, name = ": ".join(command) + ": ", key.replace("-", "_")
        having = [(path, has) for path, has in leaves if name in has]
        for path, has in having:
            if problem := self._set(path, has[name], value, where + key, ValueSource.FILE_SECTION):
                self._problem(problem)
        if not having:
            self._unknown(where, key, {name for _, has in leaves for name in has})

    def _read_clusters(self, clusters: Any) -> None:
        if clusters is None:
            return
        if not isinstance(clusters, dict) or not clusters:
            came = "none" if clusters == {} else type(clusters).__name__
            self._problem(f"{CLUSTERS}: expected a map of names to options of run, got {came}")
            return
        from agent.config.values import parse_cluster

        for raw_name, entry in clusters.items():
            name = str(raw_name)
            try:
                parse_cluster(name)
            except ValueError as error:
                self._problem(f"{CLUSTERS}: {error}")
                continue
            if not isinstance(entry, dict):
                self._problem(f"{CLUSTERS}: {name}: expected options of run, got {type(entry).__name__}")
                continue
            self.loaded.run.clusters[name] = self._cluster(f"{CLUSTERS}: {name}: ", entry)

    def _cluster(self, where: str, entry: Mapping[Any, Any]) -> GivenValues:
        from agent.cli.run_options import RUN_OPTIONS

        values: GivenValues = {}
        for key, value in self._entries(where, entry):
            option = key.replace("_", "-")
            if option not in RUN_OPTIONS:
                self._unknown(where, key, {name.replace("-", "_") for name in PER_CLUSTER})
            elif option == "cluster":
                self._problem(f"{where}{key}: the name of a cluster is its key")
            elif option not in PER_CLUSTER:
                self._problem(f"{where}{key}: the same for all clusters: write it above {CLUSTERS}")
            else:
                try:
                    taken = coerce(RUN_OPTIONS[option], value, self._ctx, self.loaded.path.parent)
                except ValueError as error:
                    self._problem(f"{where}{key}: {error}")
                    continue
                if taken is not None:
                    values[option] = GivenValue(
                        taken[1], ValueSource.FILE_CLUSTER, f"{self.loaded.path}: {where}{key}"
                    )
        return values

    def _set(
        self, path: tuple[str, ...], option: click.Option, value: Any, where: str, rank: ValueSource
    ) -> str | None:
        """Set a parameter's default as the command line would; an option without a value stays as it is.

        Gives the problem, if there is one.
        """
        try:
            taken = coerce(option, value, self._ctx, self.loaded.path.parent)
        except ValueError as error:
            return f"{where}: {error}"
        if taken is None:
            return None
        defaults = self.loaded.defaults
        for name in path:
            defaults = defaults.setdefault(name, {})
        assert option.name is not None, "a parameter has a name"
        defaults[option.name], typed = taken
        if path == (RUN,):
            self.loaded.run.options[long_name(option)] = GivenValue(typed, rank, f"{self.loaded.path}: {where}")
        return None

    def _report_top_problems(self, problems: Mapping[str, str | None]) -> None:
        """What is wrong with a key at the top, once, whichever commands (by name) it is wrong for."""
        # Of several lists of what it can be, the longest.
        by_length = sorted((problem for problem in problems.values() if problem is not None), key=len)
        said = {problem.partition(" is not one of ")[0]: problem for problem in by_length}
        takers = [name for name, problem in problems.items() if problem is None and name != CONTEXT]
        # Commands may mean different things by one name.
        more = f"; {', '.join(takers)} would take it: write it in a command's section" if takers else ""
        for problem in said.values():
            self._problem(problem + more)

    def _unknown(
        self, where: str, key: str, known: Iterable[str], others: Iterable[str] = (), more: str = ""
    ) -> None:
        self._problem(where + unknown_key(key, known, others, more))

    def _problem(self, text: str) -> None:
        said = text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
        self.loaded.problems.append(f"{self.loaded.path}: {said}")


class _YamlTexts:
    """Values of YAML as texts, with what they refer to put in. Raises `ValueError`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.has_reference = False

    def list_of_texts(self, value: Any, *, is_named: bool) -> list[str]:
        """Of an option that may be repeated: a list, or one; names with values where each is NAME=VALUE."""
        if is_named and isinstance(value, dict):
            # `property: {security.protocol: SASL_SSL}` reads better than a list of NAME=VALUE.
            texts = _each(self.text_of, value.values())
            return [f"{name}={text}" for name, text in zip(value, texts, strict=True)]
        return _each(self.text_of, value if isinstance(value, list) else [value])

    def text_of(self, value: Any) -> str:
        """A scalar as the command line would have it."""
        from agent.config.secrets import resolve_reference

        text = resolve_reference(value, os.environ, self._directory)
        if text is not None:
            self.has_reference = True
            return text
        if isinstance(value, bool):
            # librdkafka's own words.
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise ValueError(f"expected a text or a number, got {type(value).__name__}")


def _command_named(name: str, group: click.Group, ctx: click.Context) -> click.Command | None:
    if name == RUN:
        from agent.cli.run_options import declared

        return declared
    return group.get_command(ctx, name)


def _leaf_commands(
    path: tuple[str, ...], command: click.Command, ctx: click.Context
) -> Iterator[tuple[tuple[str, ...], Options]]:
    """Each command that does something, with its options."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            within = command.get_command(ctx, name)
            if within is not None:
                yield from _leaf_commands((*path, name), within, ctx)
        return
    yield (
        path,
        {
            flag.removeprefix("--").replace("-", "_"): parameter
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for flag in parameter.opts
            if flag.startswith("--")
        },
    )
