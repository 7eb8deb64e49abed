"""The pages under `docs/reference`, from the tables that the code itself reads; and in pages that people write, what
stands between marks: diagrams drawn from the code, and what commands print.

python -m tests.generate.docs.render           writes them anew
python -m tests.generate.docs.render --check   says which are not as they would be written, and fails then
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from tests import ROOT
from tests.generate.docs import alerts_page, analyzers_page, commands_page, events_page, metrics_page, options_page
from tests.generate.docs.blocks import filled, names
from tests.generate.docs.markdown import pages

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/commands.md": commands_page.page,
    "docs/reference/options.md": options_page.page,
    "docs/reference/metrics.md": metrics_page.page,
    "docs/reference/events.md": events_page.page,
    "docs/reference/analyzers.md": analyzers_page.page,
    "docs/reference/alerts.md": alerts_page.page,
}
"""Each generated page, and what makes it."""

NOTE = "<!-- Written by python -m tests.generate.docs.render; a change here is lost. -->\n"


def every() -> list[str]:
    """Each page that is made, or has something in it that is, from the repository's root."""
    with_blocks = [page for page in pages() if names(page.read_text(encoding="utf-8"))]
    return [*PAGES, *(str(page.relative_to(ROOT)) for page in with_blocks)]


def rendered(name: str) -> str:
    """A page as it shall be."""
    if name in PAGES:
        return NOTE + PAGES[name]()
    return filled((ROOT / name).read_text(encoding="utf-8"))


def is_stale(name: str) -> bool:
    """Whether the page in the repository is another one."""
    path = ROOT / name
    return not path.exists() or path.read_text(encoding="utf-8") != rendered(name)


def main(arguments: list[str]) -> int:
    """Write, or check."""
    stale = [name for name in every() if is_stale(name)]
    for name in stale:
        print(name)
        if "--check" not in arguments:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(rendered(name), encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
