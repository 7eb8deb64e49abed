"""What a worker of Spark's holds."""

from __future__ import annotations

import gc
import sys
import zipfile
from pathlib import Path

import pytest

from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.partition_reducer import analyzers_of

ONLY = "org/apache/hadoop/Only.class"
"""A name that no archive of Spark's has: where one ran in this process, their lists are held here."""


def test_no_list_of_what_javas_archives_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "hadoop-client.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(ONLY, b"")
    del archive
    monkeypatch.setattr(sys, "path", [str(jar), *sys.path])
    assert analyzers_of(Diagnosis()).makes
    assert str(jar) not in sys.path
    held = [it for it in gc.get_objects() if isinstance(it, zipfile.ZipInfo) and it.filename == ONLY]
    assert not held
