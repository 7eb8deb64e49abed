"""Our dataclasses against the definitions that Kafka 4.4.0's classes are made from, as `record_schemas` kept them."""

from __future__ import annotations

import json

import pytest

from tests.generate.record_schemas.comparing import compare, our_schemas
from tests.generate.record_schemas.definitions import Fields, Schemas
from tests.generate.record_schemas.recorded import SCHEMAS

THEIRS: Schemas = json.loads(SCHEMAS.read_text(encoding="utf-8"))
EPOCH = "17 streams_group_metadata value 0"
TAG = "storedDescriptionTopologyEpoch"


def test_ours_are_kafkas() -> None:
    """Names, order, types, which may be null, tags, and what stands for a field that is not there."""
    assert compare(THEIRS, our_schemas()) == ([], [])


def _without(*names: str) -> Fields:
    return {name: text for name, text in THEIRS[EPOCH].items() if name not in names}


@pytest.mark.parametrize(
    ("fields", "wrong", "newer"),
    [
        ({**THEIRS[EPOCH], "more": "int8, tag 9, else 0"}, "more is missing (int8, tag 9, else 0)", None),
        ({**THEIRS[EPOCH], TAG: "int64, tag 2, else -1"}, f"{TAG} is 'int32, tag 2, else -1' here", None),
        (dict(reversed(THEIRS[EPOCH].items())), "fields in the order", None),
        (_without("metadataHash"), "metadataHash is only here", None),
        (_without(TAG), None, f"{TAG} is only here"),
        (_without("lastAssignmentConfigs.value"), None, "lastAssignmentConfigs.value is only here"),
    ],
)
def test_what_differs_is_told(fields: Fields, wrong: str | None, newer: str | None) -> None:
    """What a newer Kafka has in a tag, an older one passes over; all else would be read as something else."""
    found = compare({**THEIRS, EPOCH: fields}, our_schemas())
    for texts, expected in zip(found, (wrong, newer), strict=True):
        assert len(texts) == (expected is not None)
        assert all(text.startswith(f"{EPOCH}: {expected}") for text in texts)


def test_a_record_or_version_that_only_one_has() -> None:
    more = {**THEIRS, "24 new_group_metadata value 0": {}}
    assert compare(more, our_schemas()) == (["24 new_group_metadata value 0: missing"], [])
    less = {title: fields for title, fields in THEIRS.items() if title != "2 group_metadata value 4"}
    assert compare(less, our_schemas()) == ([], ["2 group_metadata value 4: only here"])
