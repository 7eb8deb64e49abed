"""The full screen over a source that ends in a mistake of ours: `python -m tests.live.cli.watch_crashing`."""

from __future__ import annotations

from agent.cli.tui.app import WatchApp
from agent.cli.tui.poller import Poller
from tests.unit.cli.tui.made import Answers


class Wrong(Answers):
    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[dict[str, object]]:
        password = "".join(["hunt", "er2"])
        raise RuntimeError(f"a mistake with \x1b[2J and a password of {len(password)} letters")


if __name__ == "__main__":
    app = WatchApp(Poller(Wrong(), lambda: 0), 0.2)
    app.run()
    raise SystemExit(app.return_code)
