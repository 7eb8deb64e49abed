"""The full screen over a source that ends in a mistake of ours: `python -m tests.watch.crashing`."""

from __future__ import annotations

from agent.watching.app import WatchApp
from agent.watching.asking import Asker
from tests.watch.made import Answers


class Wrong(Answers):
    def findings(self, since_ms: int | None = None, *, group: str | None = None) -> list[dict[str, object]]:
        password = "".join(["hunt", "er2"])
        raise RuntimeError(f"a mistake with \x1b[2J and a password of {len(password)} letters")


if __name__ == "__main__":
    app = WatchApp(Asker(Wrong(), lambda: 0), 0.2)
    app.run()
    raise SystemExit(app.return_code)
