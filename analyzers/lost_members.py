"""What the analyzers of timeouts share: members that a group lost to one kind of them, lately."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.inference.origins import Origin
from agent.core.protocol.client_libraries import spell_settings
from agent.core.shadow.transitions import Transition
from agent.core.state_fields import StateFields
from analyzers.api import Analyzer, Condition, GroupContext, Settings, Verdict, setting
from analyzers.formatting import distinct_names, milliseconds, names_text
from analyzers.origins import with_origins
from analyzers.windows import ClientIdentity, LostMember, LostMembers, found_members


@dataclass(frozen=True, slots=True, kw_only=True)
class LostMembersSettings(Settings):
    """The window is the hysteresis: a loss is news for as long as it counts. Told with 0.65 and
    more, 98 of 100 sessions and 84 of 100 stalls were right on the rig, whose timeouts are nearer than people's."""

    close_after_s: float = setting(0.0, "seconds that it must be gone before the finding closes")
    window_s: float = setting(3600.0, "seconds for which a timeout counts", least=1)
    min_confidence: float = setting(0.65, "least confidence of the inferred cause, 0 to 1")
    repeats: int = setting(2, "timeouts of one client within window_s that make it a repeat offender", least=2)


class Losses(NamedTuple):
    """The members that were lost in the window, where they sat, and which seats are repeat offenders. `group_type`
    is None where the group is gone."""

    members: Sequence[LostMember]
    seats: Sequence[ClientIdentity]
    repeaters: Sequence[ClientIdentity]
    group_type: str | None

    @property
    def who(self) -> str:
        """Clients and hosts, for a sentence. Brokers write Java's form of an address, with a slash before it."""
        hosts = names_text(it.member.client_host.removeprefix("/") for it in self.members)
        return f"{names_text(seat.name for seat in self.seats)} on {hosts}"

    @property
    def again(self) -> str:
        """A clause about the repeat offenders; empty without any."""
        return f"; repeatedly: {names_text(seat.name for seat in self.repeaters)}" if self.repeaters else ""

    def numbers(self, window_s: float) -> dict[str, Any]:
        """The numbers that say who it was."""
        return {
            "departures": len(self.members),
            "window_s": window_s,
            "clients": distinct_names(seat.client_id for seat in self.seats),
            "hosts": distinct_names(it.member.client_host for it in self.members),
            "instance_ids": distinct_names(seat.instance_id for seat in self.seats if seat.instance_id is not None),
            "repeat_offenders": distinct_names(seat.name for seat in self.repeaters),
        }


class LostMembersAnalyzer(Analyzer):
    """Watches for one cause of departures."""

    STATE: ClassVar = StateFields(
        {
            "_losses": LostMembers,
            "_condition": Condition | None,
        }
    )

    cause: ClassVar[Cause]
    settings: LostMembersSettings

    __slots__ = ("_condition", "_losses")

    def __init__(self, settings: LostMembersSettings) -> None:
        super().__init__(settings)
        self._losses = LostMembers(
            self.cause, settings.min_confidence, milliseconds(settings.window_s), settings.repeats
        )
        self._condition: Condition | None = None

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """Note who went, and who came back."""
        for member in found_members(transition, group):
            self._losses.find(member)
        self._losses.observe(transition, group.now_ms)

    def judge(self, group: GroupContext) -> Verdict:
        """Whether anyone was lost lately."""
        self._losses.prune(group.now_ms)
        if self._losses.changed:
            self._losses.changed = False
            view, seats = group.view, self._losses.identities()
            group_type = None if view is None else view.group_type
            found = Losses(list(self._losses.recent), seats, self._losses.repeat_offenders(), group_type)
            self._condition = self._spelled(found, group.origins) if found.members else None
        return Verdict(self._condition, self._losses.recent.expires_ms)

    def _spelled(self, losses: Losses, known: Mapping[str, Origin]) -> Condition:
        condition = self._describe(losses)
        if known:
            ids = [it.member.member_id for it in losses.members]
            origins = [known[it] for it in ids if it in known]
            is_session = self.cause is Cause.SESSION_TIMEOUT
            condition = with_origins(condition, origins, len(ids), without_goodbye=is_session, explains=is_session)
        libraries = {it.member.client_library for it in losses.members}
        return replace(
            condition,
            summary=spell_settings(condition.summary, libraries),
            advice=spell_settings(condition.advice, libraries),
        )

    @abstractmethod
    def _describe(self, losses: Losses) -> Condition:
        """The condition that these losses are."""
