"""A Dockerfile's instructions, and its steps on this machine: no engine, no isolation, other directories.

Only what ours is written with is understood; all else is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """`RUN`, `COPY` and so on, with the rest of its line; lines that go on are joined."""

    name: str
    text: str


def instructions(text: str) -> list[Instruction]:
    """All of them, comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines()]


def stages(text: str) -> list[list[Instruction]]:
    """By FROM; what stands before the first is none of a stage's."""
    out: list[list[Instruction]] = []
    for it in instructions(text):
        if it.name == "FROM":
            out.append([])
        if out:
            out[-1].append(it)
    return out


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether .dockerignore keeps a path at the top out of the context: `*`, then `!name` for what comes in."""
    return "*" in patterns and f"!{path}" not in patterns


@dataclass
class Step:
    """What a command printed."""

    command: str
    output: str


@dataclass
class Machine:
    """A stage's file system as directories below `root`: the paths in `places` lie there, the others where they are.

    `python` is a directory with the base image's python and pip in it.
    """

    root: Path
    python: Path
    places: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    steps: list[Step] = field(default_factory=list)

    def there(self, path: str) -> Path:
        """Where a path of the image lies."""
        return self.root / path.lstrip("/")

    def moved(self, text: str) -> str:
        """A command with the image's paths as they lie here."""
        for place in self.places:
            text = re.sub(rf"(?<![\w./-]){re.escape(place)}(?=[/\s\"';:]|$)", str(self.there(place)), text)
        return text

    def play(
        self, stage: Sequence[Instruction], context: Path, ignore: Sequence[str], others: Mapping[str, Machine]
    ) -> None:
        """Every instruction in turn."""
        for name, text in stage:
            match name:
                case "ARG":
                    key, _, value = text.partition("=")
                    self.arguments.setdefault(key, value)
                case "ENV":
                    for key, value in re.findall(r"(\w+)=(\S+)", text):
                        value = value.replace("$PATH", self.environment.get("PATH", str(self.python)))
                        self.environment[key] = re.sub(r"\$\{(\w+)\}", lambda it: self.arguments[it[1]], value)
                case "WORKDIR":
                    self.directory = text
                    self.there(text).mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(text.split(), context, ignore, others)
                case "RUN":
                    command = self.moved(text)
                    elsewhere = [
                        it for it in re.findall(r"(?<=\s)/\S+", command) if not it.startswith(str(self.root))
                    ]
                    assert not elsewhere, f"this machine's own {elsewhere} must be left alone"
                    self.run(["sh", "-ec", command])
                case "FROM" | "LABEL" | "USER" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                    continue
                case _:
                    raise NotImplementedError(f"{name} {text}")

    def run(self, command: Sequence[str], **more: str) -> str:
        """Run a command as the stage would; what it printed. Raises `AssertionError` where it fails."""
        there = self.there(self.directory)
        there.mkdir(parents=True, exist_ok=True)
        env = self.running_environment() | more
        told = subprocess.run(command, cwd=there, env=env, capture_output=True, text=True, check=False, timeout=300)
        self.steps.append(Step(" ".join(command), told.stdout + told.stderr))
        assert told.returncode == 0, f"{' '.join(command)}: {told.stdout[-2000:]}{told.stderr[-2000:]}"
        return told.stdout

    def running_environment(self) -> dict[str, str]:
        """The environment of the stage's commands; the base's python is found, and sh."""
        outer = {key: value for key, value in os.environ.items() if key in ("HOME", "LANG") or "PROXY" in key.upper()}
        outer |= {
            key: value for key, value in os.environ.items() if key in ("PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE")
        }
        inner = {key: self.moved(value) for key, value in self.environment.items() if key != "PATH"}
        own = [self.moved(part) for part in self.environment.get("PATH", "").split(":") if part]
        return {**outer, **inner, "PATH": ":".join((*own, str(self.python), "/usr/bin", "/bin"))}

    def _copy(self, words: list[str], context: Path, ignore: Sequence[str], others: Mapping[str, Machine]) -> None:
        if words[0].startswith("--from="):
            other = others[words.pop(0).removeprefix("--from=")]
            (source,), target = words[:-1], words[-1]
            shutil.copytree(other.there(source), self.there(target), symlinks=True, dirs_exist_ok=True)
            return
        *sources, target = words
        into = self.there(os.path.normpath(os.path.join(self.directory, target)))
        for source in sources:
            assert not ignored(source, ignore), f"{source} is not in the context: .dockerignore"
            if (context / source).is_dir():
                skip = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")
                shutil.copytree(context / source, into, ignore=skip, dirs_exist_ok=True)
            else:
                shutil.copy(context / source, into / source if target.endswith("/") else into)
