"""Groups as the Admin API shows them, as records: the source of `--source admin`, where nobody may read the topic.

A `TopicReader` of another kind: the same questions, and batches of records that `SampledMirror` replays. Owns what is
asked when, within a budget of requests, and what becomes a record: every look at a group, and every committed offset
that moved since the last. The questions go through a process of their own (`child`), whose client may abort.

- *Sweeps* ask which groups are rebalancing, one request to each broker whatever the number of groups.
- *Lists* show all groups and their states: those that came, went, emptied, or reconcile.
- *Looks* ask for members and committed offsets of one group. Groups that a sweep or list shows to move come first,
  and again until their rebalance is told, for three quarters of the budget; then committed offsets, of groups that
  rebalanced lately and of others in turn; then descriptions, which show what was missed.

Brokers leave groups and topics out of their answers that this client may not see, as if there were none. So what is
missing in one is asked for by name before it is told to be gone; what may not be seen any more is forgotten
(`GroupLook.is_withheld`), and a group that appears counts as new only where all groups may be seen. So is, after
`STALE_S`, a group that no list has and whose coordinator does not answer.

Offsets of records ascend, over restarts too: they are made of the time. Their times do not go back, and run no faster
than time does, unless the clock of this machine is set by much, or another cluster answers: then all begins anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median
from typing import Protocol

import msgspec

from agent.common import clock
from agent.common.pacing import Interval, StandstillDetector
from agent.common.text import named
from agent.core.protocol.states import GroupState, GroupType
from agent.core.records import LogId, RecordBatch
from agent.core.shadow.sampled import AT_REST, GroupLook, SeenMember
from agent.core.shadow.sampled_mirror import PARTITIONS, look_key, look_value, shard_of
from agent.core.wire.errors import WireError
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.kafka.admin_api.answers import (
    MADE_UP,
    AdminAnswer,
    AdminOutcome,
    DescribedGroup,
    FetchedOffset,
    FetchedOffsets,
    ListedGroup,
    Refusal,
)
from agent.kafka.admin_api.asking import AdminSession, PeriodicQuestion
from agent.kafka.admin_api.child import monotonic_ms
from agent.kafka.admin_api.describe_scheduler import RateLimiter
from agent.kafka.admin_api.divergence import ObserverReading
from agent.kafka.admin_api.look_scheduler import GroupTraits, Kind, LookScheduler
from agent.kafka.source.assignment import ChooseStarts
from agent.kafka.source.errors import SourceDenied, SourceError, SourceUnreachable
from agent.kafka.source.progress import GroupsBegunAnew, LogBounds, ReaderNotice

log = logging.getLogger("kshadow")

REQUESTS_PER_S = 50.0
"""Requests a second over all brokers, unless told otherwise."""
SWEEP_S, LIST_S, CLUSTER_S, RETRY_S = 0.25, 1.0, 60.0, 5.0
"""The shortest time between two sweeps, lists and looks at the cluster itself; and after one that failed."""
SWEEP_SHARE, LIST_SHARE = 0.3, 0.1
"""Of the budget, what sweeps and lists take at the most: with many brokers they come less often."""
PAUSE_FACTOR, LIST_PAUSE_FACTOR = 4.0, 10.0
"""Times as long as one takes there is none: what is slow for the brokers is asked for less often."""
TIMED = 5
"""How many of the last of a kind tell how long one takes, by their median: that one was slow says little."""
COST_RATIOS = 0.25, 2.0
"""What questions may be found to cost, in terms of what is expected: a coordinator that is known is not asked for."""
TICK_S = 0.05
MAX_QUESTIONS, GROUPS_PER_QUESTION = 12, 5
"""Questions that may be under way, and groups of one: a coordinator that is slow holds up no more than these."""
STALE_S = 60.0
"""After so long without an answer nothing is current any more, of all groups or of one."""
FAR_MS = 300_000
"""By how much the wall may fall behind the last look, or step ahead, before groups are looked at anew. Until then
time stands still, or passes at once, which costs less than all that is known."""
NAMES_LOGGED = 5
"""Groups that may not be seen, or topics, that are named in the log; /readyz has the number of groups."""
OFFSETS_PER_MS = 1_000
TOPIC_ID = "admin-api"
"""In place of a topic's id: what the records of a state are from."""
LOG_BOUNDS = LogBounds(0, 2**62)


ShowsGroup = Callable[[str], bool]
"""Whether anything is to be known of a group of a name."""


class KnownGroups(Protocol):
    """What the mirror has from before this source began."""

    def groups(self) -> Mapping[str, bool]:
        """Every group, and whether it has members."""

    def positions(self, group: str) -> Mapping[tuple[str, int], int]:
        """Its committed offsets, by topic and partition."""


class _GroupStatus:
    """What was last heard of one group, and what is still to be told of it."""

    __slots__ = (
        "group_type",
        "has_offsets",
        "is_described",
        "is_done",
        "is_missing",
        "is_moving",
        "moving_ms",
        "positions",
        "rested_ms",
        "state",
        "told_state",
        "unseen_since_s",
    )

    def __init__(self, it: ListedGroup) -> None:
        self.group_type, self.state = _type(it.group_type), it.state
        self.is_missing = False
        """Whether the last whole list lacks it, while it is asked whether it is gone."""
        self.unseen_since_s: float | None = None
        """Since when no list has it, whole or not, and no question for it is answered."""
        self.told_state: str | None = None
        """As a record had it last; None: none was written."""
        self.is_moving = False
        self.moving_ms: int | None = None
        self.rested_ms: int | None = None
        """When it was seen to rebalance last, and at rest again, until its members were looked at."""
        self.positions: dict[tuple[str, int], FetchedOffset] | None = None
        self.has_offsets = self.is_described = self.is_done = False
        """Which questions for it were answered once; and whether all were, it was refused, or nobody answers."""

    @property
    def traits(self) -> GroupTraits:
        return GroupTraits(self.state != GroupState.EMPTY, self.group_type != GroupType.CLASSIC)


class Pauses:
    """How long after it was asked a question about all groups is asked again."""

    def __init__(self, least_s: float, share: float, factor: float) -> None:
        """`least_s` at the least; so that it takes no more than that share of the budget; and `factor` times as long
        as the brokers usually take."""
        self._least_s, self._share, self._factor = least_s, share, factor
        self._took_s: deque[float] = deque(maxlen=TIMED)

    def after(self, took_s: float, brokers: int, requests_per_s: float) -> float:
        """Seconds from one question to the next, where the last answer took that long."""
        self._took_s.append(took_s)
        return max(self._least_s, brokers / (self._share * requests_per_s), self._factor * median(self._took_s))


class SampledReader:
    """Asks from `connect` to `close`. One thread calls `poll`; the properties may be read from others.

    Needs Describe on groups. Making one connects to nothing yet.
    """

    def __init__(
        self,
        conf: Mapping[str, str],
        known: KnownGroups,
        *,
        requests_per_s: float = REQUESTS_PER_S,
        shows_group: ShowsGroup = lambda group: True,
        start: ChooseStarts | None = None,
    ) -> None:
        """`conf`: librdkafka properties. `known`: what a mirror that was restored has already. `shows_group`: others
        are not asked for. `start` is asked as `TopicReader`'s is."""
        self._wake = threading.Event()
        self._session = AdminSession(conf, self._wake.set, self._on_loss)
        self._known, self._shows_group, self._start = known, shows_group, start
        self._rate = RateLimiter(requests_per_s)
        self._scheduler = LookScheduler()
        self._sweep = PeriodicQuestion("list_rebalancing", SWEEP_S)
        self._list = PeriodicQuestion("list", LIST_S)
        self._cluster = PeriodicQuestion("cluster", CLUSTER_S)
        self._sweep_pauses = Pauses(SWEEP_S, SWEEP_SHARE, PAUSE_FACTOR)
        self._list_pauses = Pauses(LIST_S, LIST_SHARE, LIST_PAUSE_FACTOR)
        self._brokers = 1
        self._tick = Interval(TICK_S)
        self._questions: dict[int, tuple[Kind, list[str]]] = {}
        self._groups: dict[str, _GroupStatus] = {}
        self._unnameable: set[str] = set()
        self._has_told_none = False
        self._withheld: set[str] = set()
        self._unanswered: set[str] = set()
        self._withheld_topics: set[str] = set()
        # When the latest whole sweep and list were asked, by the wall; and what the sweep showed.
        self._swept_ms: int | None = None
        self._listed_ms: int | None = None
        # Whether lists show all groups (None: not asked yet), and when one that did was asked last.
        self._sees_all: bool | None = None
        self._listed_all_ms: int | None = None
        # Whether the latest whole list showed any group, shown or not.
        self._lists_any = False
        self._rows: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
        self._next_offset = 0
        self._last_ms = 0
        # Of the steady clock, as of the last step.
        self._wall_ahead_ms: int | None = None
        self._notices: list[ReaderNotice] = []
        self._sent = 0
        self._sent_before = 0
        # Requests that questions were expected to lead to since the client told last how many there were.
        self._expected = 0.0
        self._cost_ratio = 1.0
        self._has_caught_up = False
        self._answered_at: float | None = None
        self._standstill = StandstillDetector()
        # Until when this process stood still, and for how long; None once all groups were listed since.
        self._stood_still: tuple[float, float] | None = None
        self._log_id: LogId | None = None
        self._rebalancing: dict[str, int] = {}
        self.sweep_ms = round(SWEEP_S * 1000)
        """How often rebalances of classic groups are looked for, as of late: milliseconds."""
        self.list_ms = round(LIST_S * 1000)
        """The same of all groups and their states."""

    # What an agent asks of any source.

    @property
    def log_id(self) -> LogId | None:
        """Which cluster's groups these are; None before `connect`."""
        return self._log_id

    @property
    def caught_up(self) -> bool:
        """Whether every group that there was at first was asked for once, whichever came since."""
        return self._has_caught_up

    @property
    def pending(self) -> int:
        """How many groups have yet to be asked for."""
        return sum(not it.is_done for it in self._groups.values())

    @property
    def withheld(self) -> frozenset[str]:
        """Groups that were listed, and may not be seen for want of a right."""
        return frozenset(self._withheld)

    @property
    def lists_nothing(self) -> bool:
        """Whether lists show no group, which may be for want of a right."""
        return self._sees_all is False and not self._groups and not self._lists_any

    @property
    def unanswered(self) -> int:
        """How many groups were listed, and are not seen any more since their coordinators do not answer."""
        return len(self._unanswered)

    @property
    def caught_up_partitions(self) -> dict[int, bool]:
        """No partition of the topic is read."""
        return {}

    @property
    def current_partitions(self) -> dict[int, bool]:
        """Likewise."""
        return {}

    @property
    def positions(self) -> dict[int, int]:
        """Likewise."""
        return {}

    @property
    def behind_records(self) -> dict[int, int]:
        """Likewise."""
        return {}

    @property
    def read_until_s(self) -> Mapping[int, float]:
        """For each shard up to when (`time.monotonic`) all is known that looks can show."""
        return {} if self._answered_at is None else dict.fromkeys(range(PARTITIONS), self._answered_at)

    @property
    def healthy(self) -> bool:
        """Whether the brokers answer."""
        return self.last_error is None

    def is_stopped(self, partition: int) -> bool:
        """Whether brokers do not answer, so that it is not known what groups of a shard do."""
        return not self.healthy

    @property
    def last_error(self) -> SourceError | None:
        """Why nothing is current; None while it is."""
        if self._answered_at is None:
            return SourceUnreachable("no answer to a list of groups yet")
        now, since = time.monotonic(), self._answered_at
        if (stood_still := self._stood_still) is not None:
            since, lasted_s = stood_still
            if now - since <= STALE_S:
                return SourceUnreachable(
                    f"groups are not listed again yet: this process stood still for {lasted_s:.0f} s"
                )
        silent_s = now - since
        if silent_s <= STALE_S:
            return None
        refusal = self._session.last_refusal
        why = "" if refusal is None else f": {refusal.reason}"
        return SourceUnreachable(f"no answer from the brokers for {silent_s:.0f} s{why}")

    @property
    def requests_sent(self) -> int:
        """How many requests went to the brokers, by the client's own count."""
        return self._sent_before + self._sent

    def readings(self) -> ObserverReading:
        """What a scrape exports of the questions."""
        requests = {str(outcome): count for outcome, count in self._session.outcomes.items()}
        return ObserverReading(
            requests=requests, compared_groups=0, divergences={}, rebalancing=dict(self._rebalancing)
        )

    def take_notices(self) -> list[ReaderNotice]:
        """That all begins anew."""
        notices, self._notices = self._notices, []
        return notices

    def change_rate(self, requests_per_s: float) -> None:
        """From now on send so many requests a second."""
        self._rate.per_s = requests_per_s

    def connect(self, timeout_s: float = 10.0) -> None:
        """Learn which cluster it is and which groups it has. Raises `SourceUnreachable`, `SourceDenied`."""
        deadline = time.monotonic() + timeout_s
        while self._listed_ms is None or self._log_id is None:
            if time.monotonic() > deadline:
                refusal = self._session.last_refusal
                self.close()
                what = "asking for a list of groups"
                if refusal is not None and refusal.outcome is AdminOutcome.DENIED:
                    raise SourceDenied(f"{what}: {refusal.reason}", right="ACL operation Describe on the groups")
                raise SourceUnreachable(f"{what}: {'no broker answers' if refusal is None else refusal.reason}")
            self._step(time.monotonic())
            self._wake.wait(TICK_S)
            self._wake.clear()

    def poll(self, timeout_s: float = 1.0) -> list[RecordBatch]:
        """The next records, in the order of each shard; empty after `timeout_s` without any."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._step(time.monotonic())
            if self._rows or self._notices:
                return self._take_batches()
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return []
            self._wake.wait(min(left_s, TICK_S))
            self._wake.clear()

    def close(self) -> None:
        """Ask no more."""
        self._session.close()

    # Asking.

    def _step(self, now: float) -> None:
        if lasted_s := self._standstill.lasted_s(now):
            self._stood_still = now, lasted_s
        wall_ms = clock.now_ms()
        before_ms, self._wall_ahead_ms = self._wall_ahead_ms, wall_ms - monotonic_ms()
        if before_ms is not None and (ahead_ms := self._wall_ahead_ms - before_ms) > FAR_MS:
            # All would have been silent for as long.
            self._begin_anew(f"the clock of this machine went ahead by {ahead_ms / 60_000:.0f} min")
        elif (behind_ms := self._last_ms - wall_ms) > FAR_MS:
            self._begin_anew(f"the clock of this machine went back by {behind_ms / 60_000:.0f} min")
        process = self._session.process(now)
        if process is None:
            return
        for answer in process.take_answers():
            self._take(answer, now)
        if not self._has_caught_up:
            self._has_caught_up = self._listed_ms is not None and self.pending == 0
        if not self._tick.due(now):
            return
        # A question for a group of a cluster that has none would make the offsets topic.
        self._cluster.ask(process, now, [MADE_UP] if self._groups else [])
        if self._log_id is None:
            return
        for question in (self._list, self._sweep):
            if question.interval.remaining_s(now) == 0 and not question.is_open:
                self._rate.available(now)
                self._spend(self._brokers)
                question.ask(process, now)
        room = MAX_QUESTIONS - len(self._questions)
        available = self._rate.available(now) / self._cost_ratio
        if room <= 0 or available <= 0:
            return
        batches: dict[Kind, list[str]] = {}
        for it in self._scheduler.next_questions(available, room * GROUPS_PER_QUESTION, now):
            self._spend(self._scheduler.cost(it))
            batches.setdefault(it.kind, []).append(it.group)
        for kind, groups in batches.items():
            for at in range(0, len(groups), GROUPS_PER_QUESTION):
                some = groups[at : at + GROUPS_PER_QUESTION]
                topics = {} if kind is Kind.DESCRIBE else {group: self._committed_topics(group) for group in some}
                self._questions[process.ask(str(kind), some, topics)] = kind, some

    def _spend(self, requests: float) -> None:
        self._expected += requests
        self._rate.spend(requests * self._cost_ratio)

    def _count_sent(self, sent: int) -> None:
        """Take the client's own count, which it makes now and then, and learn from it what questions cost."""
        if sent <= self._sent:
            return
        if self._expected and self._sent:
            least, most = COST_RATIOS
            found = min(max((sent - self._sent) / self._expected, least), most)
            self._cost_ratio += (found - self._cost_ratio) / 4
        self._sent, self._expected = sent, 0.0

    def _begin_anew(self, reason: str) -> None:
        """Forget all groups, and that they were listed. Offsets go on."""
        self._notices.append(GroupsBegunAnew(reason))
        self._drop_questions()
        self._scheduler = LookScheduler()
        self._groups, self._rows, self._last_ms = {}, {}, 0
        self._withheld, self._unanswered, self._withheld_topics = set(), set(), set()
        self._listed_ms = self._listed_all_ms = self._sees_all = None
        self._has_caught_up = False

    def _on_loss(self) -> None:
        self._drop_questions()
        self._sent_before, self._sent, self._expected = self._sent_before + self._sent, 0, 0.0

    def _drop_questions(self) -> None:
        for question in (self._list, self._sweep, self._cluster):
            question.drop()
        if self._log_id is None:
            self._cluster.interval.restart_in(0.0, time.monotonic())
        self._questions.clear()
        self._scheduler.dropped()
        # What was between the last answer and the next one's first is not known.
        self._swept_ms = None
        self._rebalancing = {}

    # Answers.

    def _take(self, it: AdminAnswer, now: float) -> None:
        self._count_sent(it.sent)
        for refusal in it.refusals:
            self._refused(refusal, "a question about all groups")
        if self._cluster.take(it):
            if it.cluster_id or it.brokers:
                self._take_cluster(it)
            self._cluster.interval.restart_in(CLUSTER_S if self._sees_all else RETRY_S, now)
        elif self._list.take(it):
            self._pace(self._list, self._list_pauses, it, now)
            if it.groups or not it.refusals:
                self._answered(it, now)
                self._take_list(it, now)
            if not it.refusals and self._stood_still is not None and it.asked_ms >= self._stood_still[0] * 1000:
                self._stood_still = None
        elif self._sweep.take(it):
            self._pace(self._sweep, self._sweep_pauses, it, now)
            if it.refusals:
                self._session.brokers_away()
            else:
                self._answered(it, now)
            self._take_sweep(it, now)
        elif it.number in self._questions:
            _, groups = self._questions.pop(it.number)
            self._scheduler.answered(groups)
            for group in groups:
                self._take_group(group, it, now)

    def _pace(self, question: PeriodicQuestion, pauses: Pauses, it: AdminAnswer, now: float) -> None:
        took_s = (it.answered_ms - it.asked_ms) / 1000
        pause_s = pauses.after(took_s, self._brokers, self._rate.per_s)
        question.interval.restart_in(max(RETRY_S if it.refusals else 0.0, pause_s - took_s), now)

    def _answered(self, it: AdminAnswer, now: float) -> None:
        self._session.answered(now)
        # Where this process stood still, it may have come long before.
        self._answered_at = it.answered_ms / 1000

    def _take_cluster(self, it: AdminAnswer) -> None:
        self._brokers = max(it.brokers, 1)
        if self._listed_ms is not None:
            if self._sees_all is None and it.sees_all_groups:
                self._listed_all_ms = self._listed_ms
            self._sees_all = it.sees_all_groups
        if self.lists_nothing and not self._has_told_none:
            self._has_told_none = True
            log.warning("no group is listed: there is none, or ACL operation Describe on the groups is missing")
        found = LogId(it.cluster_id, TOPIC_ID)
        if self._log_id is not None and it.cluster_id and found != self._log_id:
            before, self._log_id = self._log_id, None
            self._begin_anew(f"another cluster answers: expected {before.cluster_id}, got {it.cluster_id}")
        elif self._log_id is None:
            self._log_id = found
            starts = {} if self._start is None else self._start(found, dict.fromkeys(range(PARTITIONS), LOG_BOUNDS))
            self._next_offset = max([self._next_offset, *starts.values()])
            for group, has_members in self._known.groups().items():
                state = GroupState.STABLE if has_members else GroupState.EMPTY
                # What it is now the first list tells; whether it still is there.
                self._groups[group] = _GroupStatus(ListedGroup(str(GroupType.CLASSIC), str(state)))

    def _take_list(self, it: AdminAnswer, now: float) -> None:
        asked_ms, at_ms = _wall(it.asked_ms), _wall(it.answered_ms)
        listed = {group: row for group, row in it.groups.items() if self._is_shown(group)}
        moved: list[str] = []
        for group, row in listed.items():
            status = self._groups.get(group)
            if status is None:
                status = self._groups[group] = _GroupStatus(row)
            if status.is_missing and group in self._withheld:
                # Lists show it again, so there may be a right again.
                self._scheduler.resume(group)
                moved.append(group)
            before, status.state, status.group_type = status.state, row.state, _type(row.group_type)
            status.is_missing, status.unseen_since_s = False, None
            if status.told_state is None or row.state != before:
                self._add_state(group, status, at_ms, self._listed_ms if status.told_state else self._listed_all_ms)
                if status.told_state is not None and self._listed_ms is not None:
                    moved.append(group)
            elif status.group_type != GroupType.CLASSIC and row.state not in AT_REST:
                moved.append(group)
        for group in self._groups.keys() - listed.keys():
            self._unseen(group, self._groups[group], at_ms, now)
            if not it.refusals:
                self._missed(group, self._groups[group])
                moved.append(group)
        if not it.refusals:
            if self._listed_ms is None:
                self._cluster.interval.restart_in(0.0, now)
            else:
                self.list_ms += round((max(asked_ms - self._listed_ms, 1) - self.list_ms) / 8)
            self._listed_ms, self._lists_any = asked_ms, bool(it.groups)
            self._listed_all_ms = asked_ms if self._sees_all else None
        self._scheduler.set_groups({group: status.traits for group, status in self._groups.items()})
        self._scheduler.moved(moved, now)

    def _take_sweep(self, it: AdminAnswer, now: float) -> None:
        asked_ms, at_ms = _wall(it.asked_ms), _wall(it.answered_ms)
        is_whole = not it.refusals
        moving = {group: row for group, row in it.groups.items() if group in self._groups}
        for group, row in moving.items():
            status = self._groups[group]
            is_new = not status.is_moving
            is_other = status.state != row.state
            status.is_moving, status.state = True, row.state
            if status.rested_ms is None:
                status.moving_ms = at_ms
            if is_new or is_other:
                self._add_state(group, status, at_ms, self._swept_ms)
                status.moving_ms, status.rested_ms = at_ms, None
        rested = []
        if is_whole:
            for group, status in self._groups.items():
                if status.is_moving and group not in moving:
                    status.is_moving, status.rested_ms = False, at_ms
                    rested.append(group)
        self._scheduler.moved([*moving, *rested], now)
        self._rebalancing = {"PreparingRebalance": 0, "CompletingRebalance": 0} if is_whole else {}
        for row in moving.values():
            self._rebalancing[row.state] = self._rebalancing.get(row.state, 0) + 1
        if is_whole:
            if self._swept_ms is not None:
                self.sweep_ms += round((max(asked_ms - self._swept_ms, 1) - self.sweep_ms) / 8)
            self._swept_ms = asked_ms
        else:
            self._swept_ms = None

    def _take_group(self, group: str, it: AdminAnswer, now: float) -> None:
        status = self._groups.get(group)
        if status is None:
            return
        described, offsets = it.descriptions.get(group), it.offsets.get(group)
        for answer, what in ((described, "a description"), (offsets, "the offsets")):
            if isinstance(answer, Refusal):
                self._group_refused(group, status, answer, f"{what} of group {group[:200]!r}", now)
            elif answer is not None:
                self._answered(it, now)
                status.unseen_since_s = None
        refusals = [answer for answer in (described, offsets) if isinstance(answer, Refusal)]
        if any(it.outcome is AdminOutcome.TIMED_OUT for it in refusals):
            self._session.timed_out(group, now)
        elif described is not None or offsets is not None:
            self._session.heard_of(group)
        at_ms = _wall(it.answered_ms)
        if (denied := next((it for it in refusals if it.outcome is AdminOutcome.DENIED), None)) is not None:
            self._withhold(group, status, denied, at_ms, now)
            return
        is_missing = status.is_missing
        is_dead = isinstance(described, DescribedGroup) and described.state == GroupState.DEAD
        # A name that cannot be asked for, or one that a group of a kind has by now which lists do not show.
        is_other = isinstance(described, Refusal) and described.outcome is AdminOutcome.UNSUPPORTED
        if is_dead or (is_missing and is_other):
            # What a coordinator says of a group that it has not got; a list without it says that it is gone.
            self._withheld.discard(group)
            self._unanswered.discard(group)
            self._scheduler.settled(group)
            if is_missing:
                del self._groups[group]
                self._add(group, at_ms, None)
            return
        if is_missing and not isinstance(described, DescribedGroup):
            return  # offsets alone: a group that is gone has none
        has_offsets = isinstance(offsets, FetchedOffsets)
        if group in self._withheld and not isinstance(described, DescribedGroup) and status.state != GroupState.EMPTY:
            return  # a topic that hides its members hides none of the other offsets
        if self._is_forgotten(group) and (isinstance(described, DescribedGroup) or has_offsets):
            self._withheld.discard(group)
            self._unanswered.discard(group)
            self._scheduler.resume(group)
            if len(self._withheld) + len(self._unanswered) < NAMES_LOGGED:
                log.info("group %r is seen again", group[:200])
            self._add_state(group, status, at_ms, None)
        if isinstance(offsets, FetchedOffsets):
            self._take_offsets(group, status, offsets, at_ms)
        if isinstance(described, DescribedGroup):
            self._take_description(group, status, described, at_ms, has_offsets=has_offsets)
        elif has_offsets:
            self._add(group, at_ms, self._look(status, before_ms=None, has_offsets=True))
        status.has_offsets |= has_offsets
        status.is_described |= isinstance(described, DescribedGroup)
        if status.has_offsets and (status.is_described or status.state == GroupState.EMPTY):
            status.is_done = True

    def _missed(self, group: str, status: _GroupStatus) -> None:
        """A whole list lacks it: it is gone, or there is no right to see it any more, or its coordinator moves. Only
        who is asked for it by name says which."""
        if not status.is_missing:
            status.is_missing = True
            self._scheduler.resume(group)

    def _unseen(self, group: str, status: _GroupStatus, at_ms: int, now: float) -> None:
        """A list lacks it, perhaps since its broker did not answer: how it stands is known for a while still."""
        if status.unseen_since_s is None:
            status.unseen_since_s = now
        elif now - status.unseen_since_s > STALE_S and not self._is_forgotten(group):
            self._forget(group, status, at_ms, now)
            self._unanswered.add(group)
            status.is_done = True
            if len(self._unanswered) <= NAMES_LOGGED:
                log.warning(
                    "group %r has not been seen for %.0f s, nothing is told of it until it is: "
                    "its coordinator does not answer",
                    group[:200],
                    STALE_S,
                )

    def _is_forgotten(self, group: str) -> bool:
        return group in self._withheld or group in self._unanswered

    def _withhold(self, group: str, status: _GroupStatus, refusal: Refusal, at_ms: int, now: float) -> None:
        """There is no right to see the group, or a topic that it subscribes to."""
        self._unanswered.discard(group)
        if group in self._withheld:
            return
        self._forget(group, status, at_ms, now)
        self._withheld.add(group)
        if len(self._withheld) <= NAMES_LOGGED:
            log.warning(
                "group %r cannot be seen, nothing is told of it until it can: ACL operation Describe on it, and on "
                "its topics, is needed (%s)",
                group[:200],
                refusal.reason,
            )

    def _forget(self, group: str, status: _GroupStatus, at_ms: int, now: float) -> None:
        """Nothing of the group can be seen, so what was known of it is not current: it is forgotten, and not told to
        be gone."""
        look = self._look(status, before_ms=None)
        self._add(group, at_ms, msgspec.structs.replace(look, is_withheld=True))
        status.positions = {}
        status.is_moving, status.moving_ms, status.rested_ms = False, None, None
        # Groups that appear may have been there, until it is known again that all may be seen.
        self._sees_all = False
        self._cluster.interval.restart_in(RETRY_S, now)

    def _committed_topics(self, group: str) -> set[str]:
        status = self._groups.get(group)
        return set() if status is None else {topic for topic, _ in self._positions_of(group, status)}

    def _positions_of(self, group: str, status: _GroupStatus) -> dict[tuple[str, int], FetchedOffset]:
        if status.positions is None:
            status.positions = {
                (topic, partition): FetchedOffset(topic, partition, offset, -1)
                for (topic, partition), offset in self._known.positions(group).items()
            }
        return status.positions

    def _take_description(
        self, group: str, status: _GroupStatus, it: DescribedGroup, at_ms: int, *, has_offsets: bool
    ) -> None:
        status.group_type, status.state = _type(it.group_type), it.state
        is_at_rest = it.state in AT_REST
        if status.is_moving and is_at_rest:
            status.is_moving, status.rested_ms = False, at_ms
        elif not is_at_rest and status.group_type == GroupType.CLASSIC:
            status.is_moving = True
        members = tuple(
            SeenMember(
                name,
                client.client_id,
                client.host,
                client.instance_id,
                {topic: tuple(numbers) for topic, numbers in it.members[name].items()},
                None
                if (target := it.targets.get(name)) is None
                else {topic: tuple(numbers) for topic, numbers in target.items()},
            )
            for name, client in it.clients.items()
        )
        look = self._look(
            status, before_ms=self._swept_ms, has_offsets=has_offsets, members=members, protocol=it.protocol or None
        )
        status.told_state = it.state
        status.moving_ms = status.rested_ms = None
        self._add(group, at_ms, look)
        if is_at_rest:
            self._scheduler.settled(group)

    def _take_offsets(self, group: str, status: _GroupStatus, offsets: FetchedOffsets, at_ms: int) -> None:
        """Records for what moved since the last look, tombstones for what is gone, and a look that says what may not
        be seen any more."""
        known = self._positions_of(group, status)
        seen = {(it.topic, it.partition): it for it in offsets.positions}
        for slot, it in seen.items():
            before = known.get(slot)
            if before is not None and before.offset == it.offset:
                continue
            try:
                key = commit_key(group, it.topic, it.partition)
                value = commit_value(it.offset, at_ms, it.leader_epoch)
            except (WireError, UnicodeEncodeError):
                continue
            self._put(group, at_ms, key, value)
        for topic, partition in known.keys() - seen.keys():
            if topic not in offsets.withheld:
                self._put(group, at_ms, commit_key(group, topic, partition), None)
        self._withheld_topics -= {topic for topic, _ in seen}
        if offsets.withheld:
            if news := set(offsets.withheld) - self._withheld_topics:
                self._withheld_topics |= news
                log.warning(
                    "offsets in topics %s cannot be seen any more: ACL operation Describe on them is needed",
                    named(news, NAMES_LOGGED),
                )
            look = self._look(status, before_ms=None)
            self._add(group, at_ms, msgspec.structs.replace(look, withheld_topics=offsets.withheld))
        status.positions = seen

    def _group_refused(self, group: str, status: _GroupStatus, refusal: Refusal, what: str, now: float) -> None:
        if refusal.outcome is AdminOutcome.DENIED:
            self._session.refused(refusal)  # `_withhold` says so
        else:
            self._refused(refusal, what)
        if refusal.outcome in (AdminOutcome.DENIED, AdminOutcome.UNSUPPORTED):
            status.is_done = True
            self._scheduler.suspend(group, now)

    def _refused(self, refusal: Refusal, what: str) -> None:
        if self._session.refused(refusal):
            log.warning("no answer to %s: %s; others are tried", what, refusal.reason)

    # Records.

    def _look(
        self,
        status: _GroupStatus,
        *,
        before_ms: int | None,
        has_offsets: bool = False,
        members: tuple[SeenMember, ...] | None = None,
        protocol: str | None = None,
    ) -> GroupLook:
        return GroupLook(
            state=status.state,
            every_ms=self.sweep_ms if status.group_type == GroupType.CLASSIC else self.list_ms,
            group_type=status.group_type,
            before_ms=before_ms,
            moving_ms=status.moving_ms,
            rested_ms=status.rested_ms,
            protocol=protocol,
            members=members,
            has_offsets=has_offsets,
        )

    def _add_state(self, group: str, status: _GroupStatus, at_ms: int, before_ms: int | None) -> None:
        self._add(group, at_ms, self._look(status, before_ms=before_ms))
        status.told_state = status.state

    def _add(self, group: str, at_ms: int, look: GroupLook | None) -> None:
        if self._is_forgotten(group):
            return
        self._put(group, at_ms, look_key(group), None if look is None else look_value(look))

    def _put(self, group: str, at_ms: int, key: bytes, value: bytes | None) -> None:
        self._last_ms = at_ms = max(at_ms, self._last_ms)
        self._rows.setdefault(shard_of(group), []).append((at_ms, key, value))

    def _take_batches(self) -> list[RecordBatch]:
        rows, self._rows = self._rows, {}
        out = []
        for shard, some in rows.items():
            first = max(self._next_offset, clock.now_ms() * OFFSETS_PER_MS)
            self._next_offset = first + len(some)
            times, keys, values = zip(*some, strict=True)
            out.append(RecordBatch(shard, list(range(first, self._next_offset)), list(times), keys, values))
        return out

    def _is_shown(self, group: str) -> bool:
        if not self._shows_group(group) or group in self._unnameable:
            return False
        try:
            look_key(group)
        except (WireError, UnicodeEncodeError):
            self._unnameable.add(group)
            return False
        return True


def _wall(at_monotonic_ms: int) -> int:
    """A time of the observer's clock on the wall, epoch milliseconds."""
    return clock.now_ms() - (monotonic_ms() - at_monotonic_ms)


def _type(name: str) -> str:
    # Brokers that know one type do not say which.
    return str(GroupType.CLASSIC) if name == "unknown" else name
