"""Named clusters in a file: where it is, what may stand in it, how it is read and written.

    current: prod
    contexts:
      prod: {agent: "https://kshadow.example:9308", agent-user: sre}
      test: {bootstrap-server: "test:9093", command-config: /etc/kafka/test.properties}

An entry has the names of options that say which cluster is asked and how. No secret stands in it: only `${NAME}`,
which is looked up in the environment, or `{file: PATH}`. Knows nothing of which command takes what.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, field

from agent.common.files import locked, whole_or_not

PATH_VARIABLE = "KSHADOW_CONTEXTS"
SOURCES = ("agent", "bootstrap-server", "from")
"""In the order in which a command that takes several asks: an agent knows already."""
AGENT_KEYS = ("agent-user", "agent-password-file", "agent-ca", "agent-cert", "agent-key")
BROKER_KEYS = ("command-config", "property", "group-partitioner")
KEYS = (*SOURCES, *AGENT_KEYS, *BROKER_KEYS, "output")
PATHS = frozenset({"from", "agent-password-file", "agent-ca", "agent-cert", "agent-key", "command-config"})
"""Keys whose values are files: kept whole, since the directory of tomorrow is another."""

Entry = dict[str, Any]

_NAME = re.compile(r"\w[\w.@-]{0,99}")


class ContextError(click.UsageError):
    """The file, or what should go into it, is not as it must be; says what to do."""


class Contexts(Struct):
    """What the file holds; empty where there is none."""

    path: Path
    current: str | None = None
    entries: dict[str, Entry] = field(default_factory=dict)

    def entry(self, name: str) -> Entry:
        """One by its name. Raises `ContextError`."""
        if name not in self.entries:
            near = get_close_matches(name, self.entries, n=1)
            there = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(self.entries)) or 'none'}"
            raise ContextError(f"no context {name!r} in {self.path}; {there}; kshadow context set {name} … makes one")
        return self.entries[name]

    def save(self) -> None:
        """Write the file: whole or not at all, readable by nobody else. Raises `ContextError`."""
        import yaml

        if str(self.path).startswith("~"):
            raise ContextError(f"there is no home directory to keep contexts in; {PATH_VARIABLE} names a file")
        form: dict[str, Any] = {"current": self.current} if self.current is not None else {}
        text = yaml.safe_dump({**form, "contexts": self.entries}, sort_keys=False, allow_unicode=True)
        path = Path(os.path.realpath(self.path))
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with whole_or_not(path, 0o600) as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ContextError(
                f"{self.path} cannot be written: {error.strerror}; {PATH_VARIABLE} names another file"
            ) from None


def _contexts_path() -> Path:
    if named := os.environ.get(PATH_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    # The XDG specification: what is not absolute is to be ignored.
    # Unlike Path.home, this raises nothing for a user who has no home, as in a container.
    home = Path(os.path.expanduser("~"))
    return (Path(base) if base.startswith("/") else home / ".config") / "kshadow" / "contexts.yaml"


def load_contexts() -> Contexts:
    """Read the file. Raises `ContextError` with the place and what is wrong there."""
    path = _contexts_path()
    try:
        is_there = path.exists()
    except OSError:
        is_there = False  # whoever may not look into the directory has none there
    if not is_there:
        return Contexts(path)
    from agent.cli.config_file import parse_yaml, unknown_key

    try:
        form = parse_yaml(path)
    except ValueError as error:
        raise ContextError(f"{path}: {error}") from None
    for key in form:
        if key not in ("current", "contexts"):
            raise ContextError(f"{path}: {unknown_key(str(key), ('current', 'contexts'))}")
    entries, current = form.get("contexts") or {}, form.get("current")
    if not isinstance(entries, dict):
        raise ContextError(f"{path}: contexts: expected a map of names, got {type(entries).__name__}")
    if not isinstance(current, str | None):
        raise ContextError(f"{path}: current: expected a name, got {type(current).__name__}")
    out = Contexts(path, current)
    for name, entry in entries.items():
        where = f"{path}: {name}: "
        try:
            check_name(str(name))
            out.entries[str(name)] = check_entry(entry)
        except ContextError as error:
            raise ContextError(where + str(error)) from None
    return out


@contextmanager
def changed_by_one() -> Iterator[Contexts]:
    """The file, to be changed and saved: meanwhile nobody else does so, or of two that change it one is lost.

    Where its directory takes no lock, as on some network's file systems, all go on without one.
    """
    path = _contexts_path()
    directory = Path(os.path.realpath(path)).parent
    with ExitStack() as held:
        with suppress(OSError):
            if not str(path).startswith("~"):  # `save` refuses it
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.callback(os.close, locked(directory, fcntl.LOCK_EX))
        yield load_contexts()


def check_name(name: str) -> str:
    """A name as one types it. Raises `ContextError`."""
    if not _NAME.fullmatch(name):
        raise ContextError(f"expected a name of letters, digits and . _ - @, got {name[:100]!r}")
    return name


def check_entry(entry: Any) -> Entry:
    """An entry whose keys are known, and that holds no secret. Raises `ContextError`."""
    from agent.cli.config_file import unknown_key

    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise ContextError(f"expected options by name, got {type(entry).__name__}")
    out: Entry = {}
    for raw_key, value in entry.items():
        key = str(raw_key).replace("_", "-")
        if key not in KEYS:
            raise ContextError(unknown_key(str(raw_key), KEYS))
        if key == "property":
            _check_properties(value)
        elif isinstance(value, str) and "://" in value and "@" in value and ":" in _user_of_url(value):
            raise ContextError(f"{key}: no password in a URL: KSHADOW_AGENT_PASSWORD or agent-password-file has it")
        out[key] = value
    return out


def _user_of_url(url: str) -> str:
    return url.partition("://")[2].rpartition("@")[0]


def _check_properties(value: Any) -> None:
    from agent.config.secrets import holds_secret, variable_name

    if not isinstance(value, dict):
        raise ContextError(f"property: expected names with values, got {type(value).__name__}")
    for name, item in value.items():
        if holds_secret(str(name)) and not isinstance(item, dict) and variable_name(str(item)) is None:
            variable = re.sub(r"\W+", "_", str(name)).upper()
            raise ContextError(
                f"property {name} is a secret, and is not kept here: give it as {name}='${{{variable}}}', which is "
                f"looked up in the environment, or keep it in a file of properties and name that by command-config"
            )
