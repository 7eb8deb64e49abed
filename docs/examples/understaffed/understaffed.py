"""An analyzer of your own: groups that have lost many of their members, and did not get them back.

It watches one group, and there is one instance for each. It owns no clock: times are `group.now_ms`, epoch
milliseconds of what is in the log, so that a replay of the same log finds the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agent.core.shadow.transitions import Transition
from analyzers.api import Analyzer, Condition, GroupContext, Settings, Severity, Verdict, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstaffedSettings(Settings):
    """Thresholds, each with its default, what it means, and the least that makes sense; set by --tune."""

    open_after_s: float = setting(60.0, "seconds that the condition must hold before a finding opens")
    window_s: float = setting(3600.0, "seconds in which the group had more members", least=1)
    part: float = setting(0.5, "part of its members, 0 to 1, with which a group is understaffed")


class Understaffed(Analyzer):
    """Looks for groups that shrank."""

    name = "understaffed"
    rule = "A group has at most `part` of the members that it had at its largest within `window_s`, but still some."
    false_alarms = "Groups that are scaled down on purpose, for as long as `window_s`."
    settings_class = UnderstaffedSettings
    settings: UnderstaffedSettings

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._members = 0
        # When the group ceased to be so large: each entry is smaller than the one before, so there are few.
        self._larger: deque[tuple[int, int]] = deque()

    def observe(self, transition: Transition, group: GroupContext) -> None:
        """The group changed: remember how large it was up to now."""
        members = len(group.view.members) if group.view is not None else 0
        if members == self._members:
            return
        while self._larger and self._larger[-1][1] <= self._members:
            self._larger.pop()
        self._larger.append((group.now_ms, self._members))
        self._members = members

    def judge(self, group: GroupContext) -> Verdict:
        """Whether the condition holds now, and when to ask again if nothing happens before."""
        window_ms = int(self.settings.window_s * 1000)
        while self._larger and self._larger[0][0] < group.now_ms - window_ms:
            self._larger.popleft()
        if not self._larger:
            return Verdict()
        until_ms, most = self._larger[0]
        if not 0 < self._members <= most * self.settings.part:
            return Verdict(None, until_ms + window_ms + 1)
        condition = Condition(
            Severity.WARNING,
            f"{self._members} of {most} members are left.",
            "Look for why the others do not come back, or set understaffed.part lower.",
            {"members": self._members, "most": most},
        )
        return Verdict(condition, until_ms + window_ms + 1)
