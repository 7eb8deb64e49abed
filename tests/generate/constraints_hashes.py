"""The files that the image's build takes hashes from: what it may hold, and what builds it, as in `constraints.txt`.

    pip install uv
    python -m tests.generate.constraints_hashes

uv asks the package index for the hashes of every wheel and source of a version: for all of Python's versions and
machines that an image may be of. A test holds the files to `constraints.txt` and `pyproject.toml`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT

HASHES, BUILD = ROOT / "constraints-hashes.txt", ROOT / "requirements-build.txt"
EXTRAS = ("aws", "delta", "gcp", "history", "kubernetes", "otlp", "parquet", "spark")
"""What `EXTRAS` of the Dockerfile may name, and its target `spark`."""
BUILT_WITH = ("cyclonedx-bom", "hatchling", "pip", "ziglang")
HEADER = """\
# {what}, as in constraints.txt, with the hashes of its files: pip takes no other.
# Written by python -m tests.generate.constraints_hashes, after each change of constraints.txt.
"""


def normalized(name: str) -> str:
    """A distribution's name as packages are compared by it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Version by name, of a file of `name==version` lines, with or without hashes."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", text, re.MULTILINE)
    return {normalized(name): version for name, version in found}


def hashes(text: str) -> dict[str, list[str]]:
    """SHA-256 of each file by the name of its distribution, of a file with hashes."""
    out: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"([A-Za-z0-9][\w.-]*)==", line):
            name = normalized(match[1])
            out[name] = []
        elif match := re.match(r"\s+--hash=sha256:([0-9a-f]{64})(?: \\)?$", line):
            out[name].append(match[1])
    return out


def _entries(compiled: str) -> Iterator[str]:
    """Of what uv wrote, each requirement with its hashes, without the condition under which it is one: there
    `constraints.txt` decides. What only Windows or a browser needs is left out."""
    for entry in re.split(r"\n(?=\S)", compiled.strip()):
        first, _, rest = entry.partition("\n")
        if not re.search(r"sys_platform == '(win32|emscripten)'", first):
            yield f"{first.partition(' ')[0]} \\\n{rest.rstrip()}\n"


def _compiled(given: str, *more: str) -> str:
    """The requirements on standard input or of files, and what they need, in the versions of `constraints.txt`."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv if uv.exists() else "uv"), "pip", "compile", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--allow-unsafe"]
    command += ["--constraints", "constraints.txt", *more]
    told = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, check=False)
    if told.returncode:
        raise SystemExit(told.stderr)
    entries = list(_entries(told.stdout))
    pinned = pins((ROOT / "constraints.txt").read_text())
    if others := {it: pin for entry in entries for it, pin in pins(entry).items() if pinned.get(it) != pin}:
        raise SystemExit(f"constraints.txt lacks {others}: add them there first")
    return "".join(entries)


def main() -> None:
    """Write both files anew."""
    extras = [it for extra in EXTRAS for it in ("--extra", extra)]
    held = _compiled("", "--no-emit-package", "kshadow", *extras, "pyproject.toml")
    HASHES.write_text(HEADER.format(what="What the image may hold") + held)
    built_with = _compiled("".join(f"{it}\n" for it in BUILT_WITH), "-")
    BUILD.write_text(HEADER.format(what="What the image is built with") + built_with)


if __name__ == "__main__":
    main()
