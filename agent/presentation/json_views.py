"""Groups, members and offsets as the JSON of the contract: what the CLI prints and the HTTP API answers.

Which fields there are, and their order, is said by the schemas (`agent.presentation.schemas.views`); most have the
names that views have.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from agent.core.end_offsets import EndOffsets, LagNote
from agent.core.open_transactions import OpenTransactions
from agent.core.protocol.states import GroupType
from agent.core.queries import JsonObject
from agent.core.shadow.transitions import ORIGIN, origin_form
from agent.core.shadow.views import UNKNOWN_NUMBER, CommittedOffset, GroupView, Member, known_ms
from agent.core.share_positions import SharePosition
from agent.core.wire.json_form import uuid_text
from agent.core.wire.primitives import ZERO_UUID
from agent.presentation.narrative.staleness import open_transaction_json
from agent.presentation.schemas.views import LAG_FIELDS, MEMBER_LISTS, OFFSETS_SEEN, QUARANTINED, STALE, VIEW_DEFS

LagOf = Callable[[CommittedOffset], JsonObject]
"""What is known of the lag of a committed offset: all fields of `NO_LAG`."""

NO_LAG: JsonObject = {**dict.fromkeys(LAG_FIELDS), "lag_seconds_at_least": False}
"""Of an offset whose lag is not known."""


def group_json(view: GroupView, lag: int | None = None) -> JsonObject:
    """One row of `groups`. Times are epoch milliseconds; `generation` is the epoch in newer group types; `lag` is in
    records over all partitions, as far as known."""
    return {name: getattr(view, name, None) for name in VIEW_DEFS["group"]["required"]} | {
        "group_type": str(view.group_type),
        "coordinator_partition": _known(view.coordinator_partition),
        "generations_skipped": _known(view.generations_skipped),
        "state": str(view.state),
        "members": len(view.members),
        "lag": lag,
        "anomalies": len(view.anomalies),
        **({} if view.offsets_seen_ms is None else {OFFSETS_SEEN: view.offsets_seen_ms}),
    }


def with_stale(form: JsonObject, hiding: OpenTransactions) -> JsonObject:
    """A group's row, or all of it, with what hides what was written of it lately, if anything does."""
    it = hiding.get(form["coordinator_partition"])
    return form if it is None else {**form, STALE: open_transaction_json(it)}


def with_quarantined(form: JsonObject, passed: Mapping[int, int]) -> JsonObject:
    """The same, with how many records of its partition were passed over, if any; `passed` has that by partition."""
    records = passed.get(form["coordinator_partition"])
    return form if records is None else {**form, QUARANTINED: {"records": records}}


def _known(number: int) -> int | None:
    return None if number == UNKNOWN_NUMBER else number


def describe_json(view: GroupView, offsets: tuple[CommittedOffset, ...], lag: LagOf | None = None) -> JsonObject:
    """All of a group: its row with `members` and `offsets` in full."""
    known = [NO_LAG if lag is None else lag(item) for item in offsets]
    return group_json(view, lag_total(known)) | {
        "leader": view.leader,
        "target_generation": view.target_generation,
        "members": [_member_json(member, view) for member in view.members],
        "offsets": [
            {
                name: of_lag[name] if name in of_lag else getattr(item, name)
                for name in VIEW_DEFS["offset"]["required"]
            }
            for item, of_lag in zip(offsets, known, strict=True)
        ],
        "anomalies": [asdict(item) for item in view.anomalies],
    }


def lag_total(offsets: Iterable[Mapping[str, Any]]) -> int | None:
    """Records behind over all of these, at the least: without those whose lag is not known. None where none has
    anything to read of which that is known, and of others it is not; in topics that were deleted there is nothing."""
    every = [it["lag"] for it in offsets if it["lag_note"] != LagNote.TOPIC_DELETED]
    total = sum(filter(None, every))
    return total if total or (every and None not in every) else None


def _member_json(member: Member, view: GroupView) -> JsonObject:
    """A member with its timeouts (milliseconds), subscription and assignment."""
    form: JsonObject = {name: getattr(member, name) for name in VIEW_DEFS["member"]["required"]}
    form |= {"subscription": list(member.subscription), "assignment": _lists(member.assignment)}
    if view.is_sampled and view.group_type != GroupType.CLASSIC:
        # Members of both protocols may be in it, and librdkafka's description says not which is which.
        form["uses_classic_protocol"] = None
    if view.origins is not None:
        form[ORIGIN] = origin_form(view.origins.get(member.member_id))
    return form | {name: _lists(held) for name in MEMBER_LISTS if (held := getattr(member, name)) is not None}


def _lists(assignment: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in sorted(assignment.items())}


def share_offsets(shares: Iterable[SharePosition]) -> tuple[CommittedOffset, ...]:
    """Share groups' positions as `describe` shows positions: the start offset, and when the state was written."""
    return tuple(
        CommittedOffset(
            it.topic,
            it.partition,
            it.state.start_offset,
            it.state.leader_epoch,
            "",
            known_ms(it.state.written_ms),
            uuid_text(it.topic_id),
        )
        for it in shares
    )


def unread_lag_json(it: CommittedOffset) -> JsonObject:
    """For `describe_json`: where what the group committed lately cannot be read."""
    return {**NO_LAG, "lag_note": str(LagNote.NOT_READ)}


def lag_json(
    ends: EndOffsets,
    now_ms: int,
    *,
    are_newer: bool = False,
    looked: Mapping[tuple[str, int], int] | None = None,
    shares: Iterable[SharePosition] = (),
) -> LagOf:
    """For `describe_json`: the lag of each commit at `now_ms` (epoch milliseconds) by these ends.

    `are_newer`: the ends were asked for when the commits were there already. `looked`: what was committed as they
    were looked at. `shares`: the positions that are a share group's.
    """
    of_shares = {(it.topic, it.partition): it for it in shares}

    def of(it: CommittedOffset) -> JsonObject:
        topic_id = ZERO_UUID if it.topic_id is None else urlsafe_b64decode(it.topic_id + "==")
        committed_ms = 0 if are_newer else (it.committed_ms or 0)
        share = of_shares.get((it.topic, it.partition))
        if share is not None:
            lag = share.lag(ends, now_ms)
        else:
            then = None if looked is None else looked.get((it.topic, it.partition))
            lag = ends.lag(it.topic, it.partition, it.offset, committed_ms, topic_id, now_ms, looked=then)
        end = ends.end(it.topic, it.partition, now_ms)
        form = {
            **NO_LAG,
            "lag": lag.records,
            "lag_seconds": None if lag.seconds is None else round(lag.seconds, 3),
            "lag_seconds_at_least": lag.at_least,
            "lag_note": None if lag.note is None else str(lag.note),
        }
        if end is not None:
            form |= {"log_start": end.start, "end": end.end}
        if lag.records is not None:
            form |= {"held_back": lag.held_back, "lost": lag.lost}
        return form

    return of
