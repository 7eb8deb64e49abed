"""A headless Chromium, told what to do over a pipe: Chrome's DevTools protocol, messages that end in a zero byte."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

Message = dict[str, Any]


class Browser:
    """One page."""

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of, self._last, self._rest = to, of, 0, b""
        self.events: list[Message] = []
        target = self._ask("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self._session = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Message:
        return self._ask(method, parameters, self._session)

    def _ask(self, method: str, parameters: Message, session: str | None) -> Message:
        self._last += 1
        asked = {"id": self._last, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._last:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self.events.append(message)

    def _next(self, within_s: float = 60) -> Message:
        end = time.monotonic() + within_s
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._of], [], [], max(0, end - time.monotonic()))
            assert ready, "Chromium says nothing"
            piece = os.read(self._of, 1 << 20)
            assert piece, "Chromium has ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def open(self, page: Path, width: int, *, dark: bool = False) -> None:
        """Load it, and wait until all of it is there."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        while not any(it.get("method") == "Page.loadEventFired" for it in self.events):
            self.events.append(self._next())

    def run(self, script: str) -> Any:
        """What an expression comes to, by the inspector's leave: the page itself runs no script."""
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def addresses(self) -> list[str]:
        """Of all that was asked for since it was opened."""
        return [
            it["params"]["request"]["url"] for it in self.events if it.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[Message]:
        """What the console holds."""
        told = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [it["params"] for it in self.events if it.get("method") in told]

    def screenshot(self, to: Path) -> None:
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        to.write_bytes(base64.b64decode(data))

    def pdf(self, to: Path) -> None:
        self.ask("Emulation.clearDeviceMetricsOverride")
        data = self.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        to.write_bytes(base64.b64decode(data))


def _pipe() -> tuple[int, int]:
    """Of numbers that are free in the child as well: 3 and 4 are the protocol's there."""
    out = os.pipe()
    high = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 20) for one in out]
    for one in out:
        os.close(one)
    return high[0], high[1]


@contextmanager
def browser(home: Path, options: Sequence[str] = ()) -> Iterator[Browser]:
    """Started and ended."""
    assert CHROMIUM is not None, "looked for before"
    (their_in, our_out), (our_in, their_out) = _pipe(), _pipe()
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
        "--disable-extensions", f"--user-data-dir={home}", "--remote-debugging-pipe", *options,
    ]  # fmt: skip
    # The protocol's pipe is descriptors 3 and 4; the shell puts ours there.
    script = f'exec "$@" 3<&{their_in} 4>&{their_out} {their_in}<&- {their_out}>&-'
    with subprocess.Popen(
        ["bash", "-c", script, "chromium", *command],
        pass_fds=(their_in, their_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(their_in)
        os.close(their_out)
        try:
            yield Browser(our_out, our_in)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            os.close(our_out)
            os.close(our_in)
