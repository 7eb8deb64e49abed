"""The ledger: what the rig did and what its clients said about it, in order, as NDJSON.

An entry is `{"t": epoch ms, "what", "group", "client", …}`. What the rig did: `scenario` (a play begins: `kind`,
settings), `join` (a client was started: `client`, `instance`), `ask_close`, `kill`, `freeze` and `thaw` (SIGSTOP,
SIGCONT), `poll_exceed` (told to stay away from poll for longer than `max.poll.interval.ms`), `slow_poll` (for less
than that), `resub`, `unsubscribe`, `partitions_added`, `topic_matched`, `admin_remove`, `delete_group`,
`static_bounce`, `upgrade`, `end`. Said by clients: `assigned`, `revoked`, `lost`, `stalls`, `stalled`, `close`,
`closed`, `error`, `commit_failed`. The capture's ledger has the same words, but there `close` is what the runner did.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

Entry = dict[str, Any]

_UUID_LENGTH = 37  # "-" and the UUID that the broker puts behind the client id or the instance id


class Ledger:
    """Writes entries; usable from several threads."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("w")
        self._lock = threading.Lock()

    def note(self, what: str, group: str | None = None, client: str | None = None, **more: Any) -> None:
        """Something the rig does, now."""
        self.write({"t": time.time_ns() // 1_000_000, "what": what, "group": group, "client": client, **more})

    def write(self, entry: Entry) -> None:
        """An entry with its own time."""
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps({k: v for k, v in entry.items() if v is not None}) + "\n")
                self._file.flush()

    def close(self) -> None:
        """No more entries."""
        with self._lock:
            self._file.close()


def read_ledger(path: Path) -> list[Entry]:
    """The entries of a rig's `ledger.ndjson` or of a capture's `ledger.json`."""
    text = path.read_text()
    if path.suffix == ".json":
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines()]


class Book:
    """A ledger to ask: what explains a departure or a rejoin that the log shows but does not explain.

    Each entry explains one thing at most, so a second departure of a client is not taken for the first's.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._scenarios: dict[str, Entry] = {}
        self._of: dict[str, list[Entry]] = defaultdict(list)
        self._clients: dict[tuple[str, str], str] = {}
        self._used: set[int] = set()
        for entry in entries:
            group = entry.get("group")
            if group is None:
                continue
            if entry["what"] == "scenario":
                self._scenarios[group] = entry
                continue
            self._of[group].append(entry)
            client = entry.get("client")
            if client and entry.get("instance"):
                self._clients[group, entry["instance"]] = client
            if client and entry.get("member"):
                self._clients[group, entry["member"]] = client

    def kind(self, group: str) -> str:
        """The scenario that used this group."""
        return str(self._scenarios.get(group, {}).get("kind", "?"))

    def is_cooperative(self, group: str) -> bool:
        """Whether its members revoke only what they lose, so that a second round follows."""
        scenario = self._scenarios.get(group, {})
        if "cooperative" in scenario:
            return bool(scenario["cooperative"])
        return scenario.get("kind") == "coop"

    def settings(self, group: str) -> Entry:
        """What the `scenario` entry says."""
        return self._scenarios.get(group, {})

    def client_of(self, group: str, member_id: str) -> str:
        """The client that had a member id: what the client said, else the id without its UUID."""
        stem = member_id[:-_UUID_LENGTH]
        return self._clients.get((group, member_id)) or self._clients.get((group, stem)) or stem

    def leave_cause(self, group: str, member_id: str, at_ms: int) -> str:
        """Why a member sent LeaveGroup without a reason: it was away from poll, an admin did it, or it closed."""
        client = self.client_of(group, member_id)
        latest = None
        for entry in self._of[group]:
            if entry["t"] > at_ms + 1000:
                break
            everyone = entry["what"] == "admin_remove" and client in entry.get("clients", ())
            if (entry.get("client") == client or everyone) and entry["what"] in _LEAVES:
                latest = entry
        if latest is None or id(latest) in self._used:
            return "member_left"
        if latest["what"] != "close":
            self._used.add(id(latest))
        return _LEAVES[latest["what"]]

    def rejoin_cause(self, group: str, member_id: str, at_ms: int) -> str | None:
        """Why a member that was in the group joined again, None where nothing the rig did explains it."""
        client = self.client_of(group, member_id)
        for entry in self._of[group]:
            if id(entry) in self._used or not entry["t"] - 100 <= at_ms <= entry["t"] + _REJOIN_WINDOW_MS:
                continue
            if entry["what"] == "resub" and entry.get("client") == client:
                self._used.add(id(entry))
                return "subscription_changed"
            if entry["what"] == "topic_matched":
                self._used.add(id(entry))
                return "subscription_changed"
            if entry["what"] == "partitions_added":
                self._used.add(id(entry))
                return "partitions_changed"
        return None


_LEAVES = {
    "poll_exceed": "poll_timeout",
    "admin_remove": "admin_removed",
    "close": "member_left",
    "unsubscribe": "member_left",
}
_REJOIN_WINDOW_MS = 15_000
