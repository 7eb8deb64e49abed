"""Pictures of the full screen, from the capture: `python -m tests.harness.watch_shot --out DIR`.

Needs Chromium on PATH, which draws what textual exports.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from agent.cli.tui.app import WatchApp
from agent.cli.tui.poller import Poller
from tests.unit.cli.tui.scene import Film

SIZES = {"120x30": (120, 30), "80x24": (80, 24), "140x45": (140, 45), "40x10": (40, 10)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the pictures go")
    parser.add_argument("--size", choices=SIZES, action="append", help="only these")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    for name in arguments.size or SIZES:
        size = SIZES[name]
        for picture, svg in asyncio.run(pictures(size)).items():
            path = out / f"watch-{picture}-{name}.png"
            draw(svg, path)
            print(path)


async def pictures(size: tuple[int, int]) -> dict[str, str]:
    """The screens as SVG: the fleet, a group while it rebalances, its explanation, all keys."""
    film = Film(47)
    app = WatchApp(Poller(film, lambda: film.now_ms), 3600)
    out = {}
    async with app.run_test(size=size) as pilot:

        async def settle() -> None:
            app.poll_thread.hurry()
            for _ in range(8):
                await pilot.pause(0.05)

        async def take(name: str) -> None:
            await settle()
            out[name] = app.export_screenshot()

        async def roll(*seconds: float) -> None:
            for at in seconds:
                film.at(at)
                await settle()

        await settle()
        await pilot.press("slash", *"coop", "enter")
        await take("filter")
        await pilot.press("enter")
        await settle()
        await roll(*range(48, 74))
        await take("group")
        await pilot.press("escape", "escape")
        await take("fleet")
        await pilot.press("e")
        await take("explain")
        await pilot.press("escape", "question_mark")
        await take("keys")
        await pilot.press("escape", "f")
        await take("findings")
    return out


def draw(svg: str, path: Path) -> None:
    """An SVG as PNG. Its fonts are elsewhere: one that is here takes their place."""
    found: Any = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    width, height = (round(float(it)) for it in found.groups())
    svg = re.sub(r"@font-face\s*{[^}]*}", "", svg).replace("Fira Code", "DejaVu Sans Mono")
    path = path.resolve()
    page = path.with_suffix(".html")
    page.write_text(f"<!DOCTYPE html><meta charset='utf-8'><body style='margin:0'>{svg}", encoding="utf-8")
    chromium = shutil.which("chromium") or "chromium-browser"
    subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
            f"--screenshot={path}",
            page.as_uri(),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=120,
    )
    page.unlink()


if __name__ == "__main__":
    main()
