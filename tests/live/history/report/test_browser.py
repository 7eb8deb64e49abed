"""The report's page in a browser: names that mean harm are text, and no request leaves the page."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.history.report.browser import CHROMIUM, Browser, browser
from tests.unit.history.report import hostile

pytestmark = pytest.mark.usefixtures("process")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile.page(tmp_path_factory.mktemp("hostile"))


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


DARK = [{"name": "prefers-color-scheme", "value": "dark"}]
LEAK = "http://leak.test/x"


def asked(tmp_path: Path, look: Callable[[Browser], None]) -> tuple[bytes, str]:
    """What a proxy was sent while a browser showed a page, and the browser's own log of the network.

    A browser asks its maker this and that as well: what counts is whether anything of the page is among it.
    """
    log = tmp_path / "net.json"
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        listener = threading.Thread(target=_listen, args=(proxy, sent))
        listener.start()
        options = [
            f"--proxy-server=127.0.0.1:{proxy.getsockname()[1]}",
            "--proxy-bypass-list=<-loopback>",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"--log-net-log={log}",
        ]
        try:
            with browser(tmp_path / "home", options) as it:
                look(it)
        finally:
            proxy.shutdown(socket.SHUT_RDWR)
            listener.join(30)
    return b"".join(sent), log.read_text(encoding="utf-8")


def _listen(proxy: socket.socket, sent: list[bytes]) -> None:
    """A proxy that hangs up on everybody, until it is shut down."""
    while True:
        try:
            connection, _ = proxy.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.settimeout(5)
            sent.append(connection.recv(1 << 16))


@needs_chromium
def test_a_request_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "leaks.html"
    page.write_text(f"<img src={LEAK}>")

    def look(it: Browser) -> None:
        it.open(page, 1440)
        assert LEAK in it.addresses()
        assert it.complaints()

    sent, log = asked(tmp_path, look)
    assert LEAK.encode() in sent
    assert LEAK in log


@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(1440, False), (360, True)])
def test_in_a_browser(page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    def look(it: Browser) -> None:
        it.open(page, width, dark=dark)
        assert it.complaints() == []
        assert {url.partition(":")[0] for url in it.addresses()} == {"file", "data"}
        assert it.run("document.querySelectorAll('script, iframe, object, embed, svg').length") == 0
        assert it.run("Array.from(document.images).every(it => it.complete && it.naturalWidth > 0)")
        assert it.run("document.images.length") >= 3
        assert it.run("document.documentElement.scrollWidth") <= width
        ground = it.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
        # The policy holds, should anything slip through.
        it.run("window.made = document.createElement('script'); made.text = 'window.ran = 1'; 1")
        it.run(f"document.body.append(made); new Image().src = '{LEAK}'; 1")
        assert it.run("window.ran") is None
        # On paper plots are the light ones, whatever the screen shows.
        shown = (
            "Array.from(document.images).filter(it => it.checkVisibility() && it.className).map(it => it.className)"
        )
        size = "wide" if width > 640 else "narrow"
        assert set(it.run(shown)) == {f"{size} {'dark' if dark else 'light'}"}
        it.ask("Emulation.setEmulatedMedia", media="print", features=DARK if dark else [])
        assert set(it.run(shown)) == {"wide light"}
        it.pdf(tmp_path / "page.pdf")

    sent, log = asked(tmp_path, look)
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert b"leak.test" not in sent
    # What the page holds as text is in no address.
    assert "leak.test" not in log
