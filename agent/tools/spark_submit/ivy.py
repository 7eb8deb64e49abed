"""Settings of Ivy, by which `spark-submit` downloads packages.

Spark's own look into ~/.m2 before they ask a repository, and `spark.jars.ivy` does not change that: POMs without
jars, as Maven leaves them there, end the job then. Ours ask the central repository (or DEFAULT_ARTIFACT_REPOSITORY,
as Spark's do) and keep all in the directory they are told.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import quoteattr

from agent.common.files import whole_or_not
from agent.tools.spark_submit.errors import SubmitError


def settings_file(home: Path, environ: Mapping[str, str] | None = None) -> Path:
    """KSHADOW_IVY_SETTINGS, or a file of ours in `home`. Raises `SubmitError`."""
    environ = os.environ if environ is None else environ
    if own := environ.get("KSHADOW_IVY_SETTINGS"):
        path = Path(own).absolute()
        if not path.is_file():
            raise SubmitError(f"KSHADOW_IVY_SETTINGS is {own}: expected a file, there is none")
        return path
    root = environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    where = f" root={quoteattr(root.rstrip('/') + '/')}" if root else ""
    text = (
        '<ivysettings><settings defaultResolver="central"/>'
        f'<resolvers><ibiblio name="central" m2compatible="true"{where}/></resolvers></ivysettings>\n'
    )
    path = home.absolute() / "kshadow-ivysettings.xml"
    try:
        home.mkdir(parents=True, exist_ok=True)
        _write(path, text)
    except OSError as error:
        raise SubmitError(f"cannot write {path}: {error.strerror}; --ivy-home names another directory") from error
    return path


def _write(path: Path, text: str) -> None:
    """Another process may read it at this moment."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    with whole_or_not(path) as file:
        file.write(text.encode())
