"""What things look like on every dashboard: fixed colours for states, causes and severities, told apart by people who
do not see all colours (Okabe and Ito's, and some of Paul Tol's)."""

from __future__ import annotations

from typing import Final, NamedTuple

from grafana_foundation_sdk.models.dashboard import Threshold, ValueMap, ValueMapping, ValueMappingResult

from agent.core.diagnosis.severity import Severity
from agent.core.protocol.states import GroupState

BLUE: Final = "#0072B2"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
YELLOW: Final = "#F0E442"
ORANGE: Final = "#E69F00"
VERMILION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "#999999"


class Shown(NamedTuple):
    """How a value of a metric is shown: the number that a query makes of it, and its colour."""

    code: int
    color: str


STATES: Final = {
    GroupState.DEAD: Shown(1, "#555555"),
    GroupState.EMPTY: Shown(2, GREY),
    GroupState.STABLE: Shown(3, BLUE),
    GroupState.NOT_READY: Shown(4, VERMILION),
    GroupState.ASSIGNING: Shown(5, ORANGE),
    GroupState.PREPARING_REBALANCE: Shown(6, ORANGE),
    GroupState.COMPLETING_REBALANCE: Shown(7, YELLOW),
    GroupState.RECONCILING: Shown(8, YELLOW),
}
"""Where two agents do not agree the greater number is shown: the one that is on the move."""
OTHER_STATE: Final = Shown(0, PURPLE)

SEVERITIES: Final = {
    Severity.INFO: Shown(1, SKY),
    Severity.WARNING: Shown(2, ORANGE),
    Severity.CRITICAL: Shown(3, VERMILION),
}
CLOSED: Final = Shown(0, "#4D4D4D")


def value_map(of: dict[str, tuple[str, str]]) -> list[ValueMapping]:
    """Values shown as text in a colour."""
    return [
        ValueMap(
            {
                value: ValueMappingResult(text=text, color=color, index=index)
                for index, (value, (text, color)) in enumerate(of.items())
            }
        )
    ]


def state_names() -> dict[str, tuple[str, str]]:
    """The numbers of `STATES`: how they are called, and their colours."""
    named = {str(shown.code): (str(state), shown.color) for state, shown in STATES.items()}
    return {str(OTHER_STATE.code): ("another state", OTHER_STATE.color), **named}


def state_map() -> list[ValueMapping]:
    """The numbers of `STATES` as their names."""
    return value_map(state_names())


def severity_map() -> list[ValueMapping]:
    """The numbers of `SEVERITIES` as their names; 0 is a finding that was closed."""
    named = {str(shown.code): (str(severity), shown.color) for severity, shown in SEVERITIES.items()}
    return value_map({str(CLOSED.code): ("closed", CLOSED.color), **named})


def steps(base: str, *above: tuple[float, str]) -> list[Threshold]:
    """A colour, and others from some values on."""
    return [Threshold(value=None, color=base), *(Threshold(value=value, color=color) for value, color in above)]
