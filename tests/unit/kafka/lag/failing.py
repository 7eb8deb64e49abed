"""A fault of ours, once."""

from __future__ import annotations


class FailsOnce:
    """Called for the first time it raises `KeyError`, and then answers always the same."""

    def __init__(self, answer: bool) -> None:
        self._answer = answer
        self.calls = 0

    def __call__(self, *_: object) -> bool:
        self.calls += 1
        if self.calls == 1:
            raise KeyError("group")
        return self._answer
