"""Pictures of what people see, of a real agent on a real broker: `python -m tests.harness.docs_shots --out
docs/images`.

The page (fleet, a group, findings; light and dark; as wide as a phone and as a desk), `kshadow watch` and a report.
Of the agent that `--url` names; without it `kshadow demo` is played first (a minute and a half), and ended then.
`--few` takes only those that README and docs have. Needs Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import IO
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Browser

from tests import ROOT
from tests.harness.browser import SIZES, Scheme, chromium, opened
from tests.unit.cli.running import COMMAND, environment

GROUP = "checkout-crash-loop"
"""The group of the demo that most happens to."""

WIDTH, HEIGHT = 1200, 780
PLAYS_S = 240


PATHS = {"fleet": "/", "group": f"/groups/{GROUP}", "findings": "/findings"}
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
FEW = ("fleet", "group")
"""Those that README and docs have, in both schemes; and `watch`."""


def pages(browser: Browser, url: str, out: Path) -> Iterator[Path]:
    """The page's pictures, each of the whole page."""
    for scheme, width in product(SCHEMES, SIZES):
        with opened(browser, url, width=width, scheme=scheme) as (page, seen):
            for name, path in PATHS.items():
                page.goto(url + path)
                page.wait_for_load_state("load")
                file = out / f"{name}-{scheme}-{width}.png"
                page.screenshot(full_page=True, path=file)
                yield file
            assert seen.wrong() == [], f"{scheme}, {width}: {seen.wrong()}"


def every(url: str, out: Path) -> Iterator[Path]:
    """All there are."""
    # Before there is a browser, whose driver has the thread's event loop.
    yield from watch(url, out, ("watch-fleet", "watch-group"))
    with chromium() as browser:
        yield from pages(browser, url, out)
        yield report(browser, url, out / "report.png")


def few(url: str, out: Path) -> Iterator[Path]:
    """Those of README and docs: of the page what a screen shows at first."""
    yield from map(small, watch(url, out, ("watch-fleet",)))
    with chromium() as browser:
        for name, scheme in product(FEW, SCHEMES):
            with opened(browser, url + PATHS[name], width=WIDTH, height=HEIGHT, scheme=scheme) as (page, seen):
                page.wait_for_load_state("load")
                file = out / f"{name}-{scheme}.png"
                page.screenshot(path=file)
                assert seen.wrong() == [], f"{name}, {scheme}: {seen.wrong()}"
                yield small(file)


def watch(url: str, out: Path, names: Sequence[str], size: tuple[int, int] = (120, 30)) -> Iterator[Path]:
    """`kshadow watch` as it is after the demo's faults: the fleet, and the group."""
    from tests.harness.watch_shot import draw

    drawn = asyncio.run(_screens(url, size))
    for name in names:
        path = out / f"{name}.png"
        draw(drawn[name], path)
        yield path


async def _screens(url: str, size: tuple[int, int]) -> dict[str, str]:
    """Each screen as SVG, once it has everything of the group."""
    from agent.cli.agent_client import AgentClient
    from agent.cli.tui.app import WatchApp
    from agent.cli.tui.poller import Poller

    client = AgentClient(url, {})
    client.raises_when_away = True
    app = WatchApp(Poller(client, lambda: time.time_ns() // 1_000_000), 3600)
    async with app.run_test(size=size) as pilot:

        async def until(text: str) -> str:
            deadline = time.monotonic() + 60
            while text not in plain(picture := app.export_screenshot()):
                assert time.monotonic() < deadline, f"{text!r} expected on the screen: {plain(picture)}"
                await pilot.pause(0.2)
            await pilot.pause(1.0)
            return app.export_screenshot()

        fleet = await until(GROUP)
        await pilot.press("slash", *GROUP, "enter", "enter")
        return {"watch-fleet": fleet, "watch-group": await until("generation")}


def plain(svg: str) -> str:
    """What a picture of a terminal says."""
    text = re.sub(r"<style>.*?</style>|<[^>]+>", "", svg, flags=re.DOTALL).replace("&#160;", " ")
    return "\n".join(line for line in text.splitlines() if line.strip())


def report(browser: Browser, url: str, path: Path) -> Path:
    """A report of the same group, from its beginning."""
    with urlopen(f"{url}/api/v1/groups/{GROUP}/timeline", timeout=60) as answer:
        began_ms = json.load(answer)[0]["at_ms"]
    with tempfile.TemporaryDirectory() as directory:
        html = Path(directory) / "report.html"
        command = [*COMMAND, "report", GROUP, "--agent", url, "--since", str(began_ms - 1_000), "--out", str(html)]
        done = subprocess.run(
            command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        with opened(browser, html.as_uri(), width=WIDTH) as (page, _):
            page.screenshot(full_page=True, path=path)
            return path


def small(path: Path) -> Path:
    """The picture with a palette: half the bytes, and no difference that eyes see in what is mostly text."""
    with Image.open(path) as image:
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    palette.save(path, optimize=True)
    return path


def colours(path: Path) -> int:
    """How many there are of which more than a speck is: one or two on a page without anything on it."""
    with Image.open(path) as image:
        counts = image.convert("RGB").getcolors(image.width * image.height)
    assert counts is not None
    return sum(count > 20 for count, _ in counts)


@contextmanager
def demo() -> Iterator[str]:
    """`kshadow demo --keep` once its faults are over: the agent's address."""
    command = [*COMMAND, "demo", "--keep"]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=ROOT
        ) as process,
    ):
        try:
            yield _over(process, said)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _over(process: subprocess.Popen[str], said: IO[str]) -> str:
    deadline = time.monotonic() + PLAYS_S
    while True:
        said.seek(0)
        text = said.read()
        if found := re.search(r"(http://127\.0\.0\.1:\d+)[^\n]*Ctrl-C|Ctrl-C[^\n]*(http://127\.0\.0\.1:\d+)", text):
            return found[1] or found[2]
        assert process.poll() is None, text
        assert time.monotonic() < deadline, f"the demo is not over: {text}"
        time.sleep(0.5)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the pictures go")
    parser.add_argument("--url", help="an agent that watches a demo")
    parser.add_argument("--few", action="store_true", help="only those of README and docs")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with _agent(arguments.url) as url:
        for path in (few if arguments.few else every)(url, out):
            print(f"{path}: {path.stat().st_size:,} bytes")


@contextmanager
def _agent(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url.rstrip("/")
        return
    with demo() as started:
        yield started


if __name__ == "__main__":
    main()
