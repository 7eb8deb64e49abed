"""Which events a one-shot reading keeps."""

from __future__ import annotations

from agent.runtime.offline import load
from tests.unit.cli.running import SEGMENTS


def test_of_one_group_only_its_own() -> None:
    def read(**options: object) -> list[dict[str, object]]:
        return load([str(SEGMENTS)], on_problem=lambda text: None, **options).events()  # type: ignore[arg-type]

    every = read()
    assert read(group="fraud-848") == [event for event in every if event["group"] == "fraud-848"] != []
    assert read(group="nobody") == read(keep_events=False) == []
