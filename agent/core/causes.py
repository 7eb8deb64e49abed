"""The causes of rebalances and departures: the one table of what is known, said and shown of each.

To add a cause: a row of `Cause`, and the rule that infers it (`agent.core.inference`). The schema's and the command
line's enumerations, sentences, pictures, plots, dashboards and docs/reference/events.md are derived from the rows.
Pure data, light to import; an event of a newer version may carry a cause that is no row here: see `cause_info`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Self

from msgspec import Struct


class PlotBar(NamedTuple):
    """A cause's bars in a report's plots: how many causes are stacked below it, and its colour."""

    position: int
    color: str


class Mark(NamedTuple):
    """How a cause is drawn: class of its colour in the style sheet, outline, and sign in it (`svg.glyphs` has
    both)."""

    kind: str = "other"
    outline: str = "square"
    sign: str = "dot"


class CauseInfo(Struct, frozen=True, kw_only=True):
    """What is said and shown of a cause. What is None is not said of it."""

    label: str
    """A word or two, beside its mark."""
    about: str = ""
    """A sentence for the reference."""
    because: str
    """`A rebalance happened …`."""
    reason: str | None = None
    """What set off a rebalance that nobody's coming or going explains."""
    came_first: str | None = None
    """Which of several causes set a rebalance off."""
    departed: tuple[str, str] | None = None
    """`A member …`, `Members …`; None: no cause of a departure."""
    answer: tuple[str, str] | None = None
    """`A member …`, `Members …`, with the `{group}` and `{when}`: how an explanation begins."""
    departure_noun: tuple[str, str] | None = None
    """What is to be shown of a departure, one and many."""
    new_case: str | None = None
    """What came after a finding was told, by the analyzer that finds departures of this cause."""
    else_it_was: str | None = None
    """What a departure may have been instead."""
    mark: Mark = Mark()
    severity_rank: int
    """The worst is 1, as far as causes are better or worse: the order in legends, and which is drawn where only one
    can."""
    terminal: tuple[str, str] = ("~", "info")
    """Glyph and style in `kshadow watch`."""
    dashboard_color: str = "#999999"
    plot_bar: PlotBar | None = None
    """Causes without one are "others" in reports' plots. These and the dashboards' colours are mostly Okabe's and
    Ito's, which people tell apart who see few."""


class Cause(StrEnum):
    """Every cause of the contract, in its order; `info` is its row."""

    info: CauseInfo

    def __new__(cls, name: str, info: CauseInfo) -> Self:
        """A row: the name in events, metrics and options, and what is said of it."""
        cause = str.__new__(cls, name)
        cause._value_, cause.info = name, info
        return cause

    MEMBER_JOINED = (
        "member_joined",
        CauseInfo(
            label="joined",
            about="A member joined that was not in the group.",
            because="because a member joined",
            came_first="the join came first",
            mark=Mark("joined", "circle", "plus"),
            severity_rank=7,
            terminal=("+", "good"),
            dashboard_color="#0072B2",
            plot_bar=PlotBar(0, "#56b4e9"),
        ),
    )
    MEMBER_LEFT = (
        "member_left",
        CauseInfo(
            label="left",
            about="A member closed or unsubscribed: it sent LeaveGroup.",
            because="because a member left",
            came_first="the departure came first",
            departed=("left", "left"),
            answer=("left {group} {when}", "left {group} {when}"),
            departure_noun=("Departure", "Departures"),
            else_it_was="a timeout",
            mark=Mark("left", "circle", "arrow"),
            severity_rank=4,
            terminal=("-", ""),
            dashboard_color="#56B4E9",
            plot_bar=PlotBar(1, "#0072b2"),
        ),
    )
    SESSION_TIMEOUT = (
        "session_timeout",
        CauseInfo(
            label="session timed out",
            about="The broker heard nothing of a member for `session.timeout.ms`: it crashed, was killed or cut off, "
            "or paused.",
            because="because a member's session timed out",
            came_first="the session timeout came first",
            departed=(
                "was removed because its session timed out",
                "were removed because their sessions timed out",
            ),
            answer=(
                "was removed from {group} {when}: its session timed out",
                "were removed from {group} {when}: their sessions timed out",
            ),
            departure_noun=("Session timeout", "Session timeouts"),
            new_case="a session timed out",
            else_it_was="a poll timeout or a LeaveGroup",
            mark=Mark("session", "circle", "cross"),
            severity_rank=1,
            terminal=("✖", "bad"),
            dashboard_color="#D55E00",
            plot_bar=PlotBar(2, "#d55e00"),
        ),
    )
    POLL_TIMEOUT = (
        "poll_timeout",
        CauseInfo(
            label="did not poll in time",
            about="A member did not poll for `max.poll.interval.ms`, and its client left the group.",
            because="because a member did not poll in time",
            came_first="the poll timeout came first",
            departed=("left because it did not poll in time", "left because they did not poll in time"),
            answer=(
                "left {group} {when}: it did not poll within max.poll.interval.ms",
                "left {group} {when}: they did not poll within max.poll.interval.ms",
            ),
            departure_noun=("Poll timeout", "Poll timeouts"),
            new_case="a member did not poll in time",
            else_it_was="a session timeout or a LeaveGroup",
            mark=Mark("poll", "square", "hourglass"),
            severity_rank=2,
            terminal=("✖", "bad"),
            dashboard_color="#E69F00",
            plot_bar=PlotBar(3, "#e69f00"),
        ),
    )
    SUBSCRIPTION_CHANGED = (
        "subscription_changed",
        CauseInfo(
            label="subscription changed",
            about="A member that stayed wants other topics, or a static member came back with other assignors.",
            because="because a subscription changed",
            reason="a subscription changed",
            severity_rank=8,
            dashboard_color="#009E73",
            plot_bar=PlotBar(5, "#cc79a7"),
        ),
    )
    PARTITIONS_CHANGED = (
        "partitions_changed",
        CauseInfo(
            label="partitions changed",
            about="A topic that the group reads got more partitions, was created or was deleted; or a share group's "
            "state of its partitions was made.",
            because="because the topics or their partitions changed",
            reason="the topics or their partitions changed",
            severity_rank=9,
            dashboard_color="#BBCC33",
            plot_bar=PlotBar(6, "#f0e442"),
        ),
    )
    COOPERATIVE_FOLLOWUP = (
        "cooperative_followup",
        CauseInfo(
            label="second round",
            about="The second round of a cooperative rebalance: it assigns the partitions revoked in the first.",
            because="as the second round of a cooperative rebalance",
            reason="second round of a cooperative rebalance",
            severity_rank=10,
            dashboard_color="#DDDDDD",
            plot_bar=PlotBar(4, "#009e73"),
        ),
    )
    LEADER_REJOINED = (
        "leader_rejoined",
        CauseInfo(
            label="leader rejoined",
            about="The leader joined again, with nothing else changed.",
            because="because the leader rejoined",
            reason="the leader rejoined",
            severity_rank=11,
            dashboard_color="#F0E442",
        ),
    )
    PROTOCOL_MIGRATED = (
        "protocol_migrated",
        CauseInfo(
            label="protocol changed",
            about="The group changed from the classic protocol to KIP-848, or back.",
            because="because the group changed its protocol",
            reason="the group changed its protocol",
            severity_rank=12,
            dashboard_color="#FFAABB",
        ),
    )
    ADMIN_REMOVED = (
        "admin_removed",
        CauseInfo(
            label="removed by an admin",
            about="An admin removed the member through the Admin API.",
            because="because an admin removed a member",
            came_first="the removal came first",
            departed=("was removed by an admin", "were removed by an admin"),
            answer=("was removed from {group} {when} by an admin", "were removed from {group} {when} by an admin"),
            departure_noun=("Removal", "Removals"),
            else_it_was="a LeaveGroup or a timeout",
            mark=Mark("removed", "diamond", "minus"),
            severity_rank=5,
            terminal=("✖", "warn"),
            dashboard_color="#AAAA00",
        ),
    )
    REJOIN_TIMEOUT = (
        "rejoin_timeout",
        CauseInfo(
            label="did not rejoin in time",
            about="A member did not rejoin within the group's rebalance timeout, and the broker removed it: it sent "
            "heartbeats, and its processing did not return.",
            because="because a member did not rejoin in time",
            came_first="the rejoin timeout came first",
            departed=(
                "was removed because it did not rejoin in time",
                "were removed because they did not rejoin in time",
            ),
            answer=(
                "was removed from {group} {when}: it did not rejoin within the rebalance timeout",
                "were removed from {group} {when}: they did not rejoin within the rebalance timeout",
            ),
            departure_noun=("Rejoin timeout", "Rejoin timeouts"),
            new_case="a member did not rejoin in time",
            else_it_was="a session timeout or a LeaveGroup",
            mark=Mark("poll", "square", "hourglass"),
            severity_rank=3,
            terminal=("✖", "bad"),
            dashboard_color="#AA3377",
        ),
    )
    UNKNOWN_DEPARTURE = (
        "unknown_departure",
        CauseInfo(
            label="left, reason unknown",
            about="A member left, and the evidence does not show why.",
            because="because a member left for an unknown reason",
            reason="cause unknown",
            came_first="the unexplained departure came first",
            departed=("left for an unknown reason", "left for an unknown reason"),
            answer=("left {group} {when} for an unknown reason", "left {group} {when} for an unknown reason"),
            mark=Mark("unknown", "circle", "question"),
            severity_rank=6,
            terminal=("?", "warn"),
            dashboard_color="#CC79A7",
        ),
    )
    UNKNOWN = (
        "unknown",
        CauseInfo(
            label="cause unknown",
            about="The evidence does not show what came first.",
            because="for an unknown reason",
            reason="cause unknown",
            came_first="which came first is unknown",
            mark=Mark("unknown", "circle", "question"),
            severity_rank=13,
            terminal=("?", "warn"),
            dashboard_color="#999999",
        ),
    )


TIMEOUT_CAUSES = (Cause.SESSION_TIMEOUT, Cause.POLL_TIMEOUT, Cause.REJOIN_TIMEOUT)
"""Of departures that the member did not choose: it sent no heartbeat, or did not poll, in time."""
UNKNOWN_CAUSES = (Cause.UNKNOWN, Cause.UNKNOWN_DEPARTURE)
DEPARTURE_CAUSES = frozenset(cause for cause in Cause if cause.info.departed is not None)


_INFO = {str(cause): cause.info for cause in Cause}


def cause_info(cause: str) -> CauseInfo:
    """The row of a cause in an event; one that is not known here is called by its name."""
    label = cause.replace("_", " ")[:40]
    return _INFO.get(cause) or CauseInfo(label=label, because=f"because of {cause}", severity_rank=len(Cause) + 1)
