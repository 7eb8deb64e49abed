"""Our code for the driver and the executors: one zip of three packages, and the file that `spark-submit` runs.

They lie in a directory that is named after their content, so that what runs does not change when kshadow is upgraded
meanwhile. The main file is a copy: Python puts the directory of what it runs first on its path, and that of
`spark_jobs` holds modules with names that others have too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agent.common.packages import package_directory
from agent.tools.spark_submit.errors import SubmitError

PACKAGES = ("agent", "analyzers", "spark_jobs")
ARCHIVE, MAIN = "kshadow.zip", "main.py"

_MAIN_FILE = "spark_jobs/main.py"
_LEFT_OUT = frozenset({".pyc", ".pyo", ".md", ".c", ".so"})
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file in the archive: the first that the format knows. The same content is the same bytes then."""


class Code(NamedTuple):
    """What `spark-submit` is given of ours."""

    archive: Path
    main: Path


def build(cache: Path) -> Code:
    """The archive and the main file, in a directory below `cache`; made if they are not there yet.

    Raises `SubmitError`.
    """
    files = contents([_folder(name) for name in PACKAGES])
    directory = cache / f"code-{_digest(files)}"
    try:
        if not directory.is_dir():
            _make(directory, files)
    except OSError as error:
        raise SubmitError(
            f"cannot write {directory}: {error.strerror}; set KSHADOW_CACHE to a directory of yours"
        ) from error
    return Code(directory / ARCHIVE, directory / MAIN)


def contents(folders: Sequence[Path]) -> dict[str, bytes]:
    """Name in the archive → content, sorted by name, of all files of packages: source and data. The
    compiled part stays out: jobs need none, and executors may be other machines."""
    found = {
        f"{folder.name}/{path.relative_to(folder).as_posix()}": path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix not in _LEFT_OUT and path.is_file()
    }
    return {name: found[name].read_bytes() for name in sorted(found)}


def _folder(package: str) -> Path:
    if (directory := package_directory(package)) is None:
        raise SubmitError(f"the package {package} is not installed as files: install kshadow anew")
    return directory


def _digest(files: Mapping[str, bytes]) -> str:
    summed = hashlib.sha256()
    for name, content in files.items():
        summed.update(f"{name}\0{len(content)}\0".encode())
        summed.update(content)
    return summed.hexdigest()[:16]


def _make(directory: Path, files: Mapping[str, bytes]) -> None:
    """Whole or not at all: another process may do the same, and this one may be killed."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        with zipfile.ZipFile(partial / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, _TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, content)
        (partial / MAIN).write_bytes(files[_MAIN_FILE])
        # Others may read it, as they may read what is installed.
        partial.chmod(0o755)
        try:
            os.rename(partial, directory)
        except OSError:
            if not directory.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
