"""Builds tools by Go, each in a module of its own under the cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.harness.tools.catalogue import Tool
from tests.harness.tools.places import place

_TIMEOUT_S = 1800
# In Kubernetes' own go.mod: a repository that lies in a directory beside it there, and is a module for all others.
_STAGED = re.compile(r"^\t(k8s\.io/[a-z0-9-]+) => \./staging", re.MULTILINE)


class BuildError(Exception):
    """A tool that Go did not build: which, and the last lines that Go said."""


def build(tool: Tool, low_priority: bool = False) -> Path:
    """Build it, or find it built.

    Args:
        tool: What to build.
        low_priority: Whether everything else on the machine goes before.

    Returns:
        The program's file.

    Raises:
        BuildError: Go is missing, or it failed.
    """
    target = place(tool.name)
    if os.access(target, os.X_OK):
        return target
    if shutil.which("go") is None:
        raise BuildError(f"{tool.name} {tool.label}: Go is needed to build it, and is not on PATH")
    work = target.parent / "build"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run = _Go(tool, work, ["nice", "-n", "19"] if low_priority else [])
    run("mod", "init", "kshadow/tools")
    for replaced in tool.replace:
        run("mod", "edit", "-replace", replaced)
    if tool.staged:
        _take_staged(tool, run)
    if tool.lacks:
        _complete(tool, work, run)
    if tool.program:
        shutil.copy(Path(__file__).with_name(tool.program), work / "main.go")
        run("get", f"{tool.path}@{tool.version}", *tool.requires)
        run("get", ".")  # what else it imports is of the same versions
    else:
        run("get", "-tool", f"{tool.path}@{tool.version}")
    flags = " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in tool.stamp.items())])
    built = work / tool.name
    tags = ["-tags", tool.tags] if tool.tags else []
    run("build", *tags, "-trimpath", "-ldflags", flags, "-o", str(built), "." if tool.program else tool.path)
    built.replace(target)  # whole or not at all
    shutil.rmtree(work, ignore_errors=True)
    return target


class _Go:
    def __init__(self, tool: Tool, work: Path, before: list[str]) -> None:
        self._tool = tool
        self._work = work
        self._before = before

    def __call__(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [*self._before, "go", *arguments],
                cwd=self._work,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(f"{self._tool.name}: go {arguments[0]} took longer than {_TIMEOUT_S} s") from error
        if done.returncode:
            # What a proxy answers has its address in it; the rest says enough.
            said = re.sub(r"https?://\S+", "…", done.stderr.strip())
            last = "\n".join(said.splitlines()[-5:])
            raise BuildError(f"{self._tool.name} {self._tool.label}: go {arguments[0]} failed:\n{last}")
        return done.stdout


def _complete(tool: Tool, work: Path, run: _Go) -> None:
    """A copy of the module with what it lacks, to be taken in its place."""
    described = json.loads(run("mod", "download", "-json", f"{tool.module}@{tool.version}"))
    own = work / "module"
    shutil.copytree(described["Dir"], own)
    for path in (own, *own.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)  # Go keeps its copy read-only
    for name, content in tool.lacks.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(content)
    run("mod", "edit", "-replace", f"{tool.module}@{tool.version}={own}")


def _take_staged(tool: Tool, run: _Go) -> None:
    """1.36.3 of k8s.io/kubernetes goes with 0.36.3 of each staging repository."""
    described = json.loads(run("mod", "download", "-json", f"{tool.module}@{tool.version}"))
    own = Path(described["GoMod"]).read_text()
    beside = "v0." + tool.version.removeprefix("v1.")
    for module in _STAGED.findall(own):
        run("mod", "edit", "-replace", f"{module}={module}@{beside}")
    run("mod", "edit", "-require", f"{tool.module}@{tool.version}")
