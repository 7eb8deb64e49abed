"""How the user called us, for commands that are printed to be copied."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "kshadow"


def program_name() -> str:
    """`kshadow` where the shell finds this one by that name, else the path to it, as short as it may be."""
    called = Path(sys.argv[0])
    if called.name != NAME or not called.is_file():
        return NAME  # `python -m`, a zipapp, a test
    found = shutil.which(NAME)
    if found is not None and os.path.samefile(found, called):
        return NAME
    path = called.absolute()
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
