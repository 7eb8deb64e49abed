"""Tools of other projects that tests run: helm, kubeconform, prometheus, a Kubernetes API server and the like.

Owns which versions, how they are built (by Go, from its module proxy) and where they lie: in kshadow's cache, each
under its version, so that they are built once. `python -m tests.harness.tools` (`make tools`) builds what is missing;
`find(name)` and `need(name)` only look.
"""

from __future__ import annotations

from tests.harness.tools.build import BuildError, build
from tests.harness.tools.catalogue import TOOLS, Tool
from tests.harness.tools.places import find, need, place

__all__ = ["TOOLS", "BuildError", "Tool", "build", "find", "need", "place"]
