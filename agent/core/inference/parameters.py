"""The numbers of the inference: what clients and brokers usually do. Nothing else in `agent.core.inference` has any.

The end of a name is its unit: `_ms` milliseconds, `_share`, `_probability` and `_confidence` parts of 1, `_odds` and
`_factor` how many times; the rest are counts. The text below each says what it is, then where it comes from: a
*default* of Kafka or of its clients, *rig* (estimated, and judged by how well `python -m tests.harness.rig` then
does: random faults on real brokers, the truth read from their logs; November 2026), or *chosen*.

*Weight* is how much the result depends on it: of 815 causes (a captured broker's and 120 generated groups'), so many
differ where the number is halved, and where it is doubled (of a share: where what it leaves of 1 is halved). Measured
2026-11-22. What has no weight there matters in cases that those logs lack, such as groups of KIP-848 or broker's
logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.protocol.client_libraries import StallEnd


def _by_cause(shares: Mapping[Cause, float]) -> Mapping[Cause, float]:
    return field(default_factory=lambda: MappingProxyType(shares))


class InferenceParameters(Struct, frozen=True, kw_only=True):
    """See the module. `PARAMETERS` is the one instance that is used."""

    # Clients and brokers: what they do when, as far as nobody configured it.

    heartbeat_interval_ms: int = 3_000
    """Heartbeats of a member of a classic group: so long it takes to notice a rebalance. Default:
    heartbeat.interval.ms. Weight 0, 4."""

    commit_interval_ms: int = 5_000
    """Between two commits of a client. Default: auto.commit.interval.ms. Weight 0."""

    shortest_commit_interval_ms: int = 250
    """No client is taken to commit more often. Chosen. Weight 0."""

    longest_commit_interval_ms: int = 90_000
    """A longer mean between two commits is of a topic that was idle, and tells no pace. Chosen: half as much again as
    the longest interval that clients are commonly given, a minute."""

    kip848_session_timeout_ms: int = 45_000
    """Session timeout of groups of KIP-848's kind, which the log does not hold. Default:
    group.consumer.session.timeout.ms. Weight 0."""

    kip848_usual_session_share: float = 0.85
    """How many groups have that one; the others any from the shortest to the longest. Chosen."""

    kip848_known_session_share: float = 0.98
    """How many have the one that the brokers tell: they tell what is set now, and not since when. Chosen."""

    kip848_shortest_session_timeout_ms: int = 6_000
    kip848_longest_session_timeout_ms: int = 60_000
    """What operators may set it to. Default: group.min.session.timeout.ms, group.consumer.max.session.timeout.ms.
    Weight 0."""

    kip848_heartbeat_interval_ms: int = 5_000
    """Heartbeats of members of such groups; goodbyes that a stalled poll loop asks for go with them. Default:
    group.consumer.heartbeat.interval.ms. Weight 0."""

    # Times.

    timer_precision_ms: int = 20
    """So far apart two times of one coordinator may be that mean one moment: a timer, and what it does. Rig. Weight
    0."""

    log_time_tolerance_ms: int = 250
    """The same of a time in the broker's log, or of one that a client's request took to arrive. Rig. Weight 0."""

    slow_close_ms: int = 1_000
    """The same of clients that take long to close, at the most. Rig. Weight 2, 0."""

    poll_check_ms: int = 600
    """So late a classic client may notice that max.poll.interval.ms has run out. Rig. Weight 0."""

    late_heartbeat_ms: int = 200
    """So much later than an interval a heartbeat may come. Rig. Weight 0."""

    busy_ms: int = 5_000
    """Mean time until a member that is busy notices a rebalance. Rig. Weight 6, 6."""

    followup_at_once_ms: int = 20
    """From one cooperative round to the next: members give up what they have to, and join again. Rig: of librdkafka
    and franz-go 2 ms as a median, of Java 20."""

    followup_ms: int = 400
    """The same where they are at work on what they polled, at the most. Rig. Weight 0."""

    cooperative_rejoin_ms: int = 20_000
    """The same where the broker's log tells: within this time members poll, and so rejoin. Chosen. Weight 0."""

    process_start_ms: int = 250
    """A process takes so long to start and join, at the least. Rig: programs in Go and C."""

    restart_at_once_ms: int = 5_000
    """A client that a supervisor or a deploy starts again at once is back by then. Chosen."""

    restarts_at_once_share: float = 0.5
    """How many of those that are started again are so at once. Chosen."""

    restart_ms: int = 30_000
    """A client that went and is started again is back by then. Chosen. Weight 0."""

    longest_without_coordinator_ms: int = 600_000
    """So long a group may have no coordinator: a broker that was killed recovers its logs. Chosen."""

    reconnect_ms: int = 12_000
    """So long after a coordinator is there again a client may come back to it. Default: reconnect.backoff.max.ms of
    librdkafka and its jitter of a fifth. Rig: 9 s."""

    shortest_own_limit_ms: int = 5_000
    """No client limits the time between two polls to less, where the log does not tell it. Chosen: a sixtieth of the
    default."""

    idle_poll_ms: int = 6_000
    """So much later than its last commit a client may have polled: it had nothing to commit. Chosen: an
    auto.commit.interval.ms and a second. Weight 0."""

    longest_sync_ms: int = 1_800_000
    """From the end of a join phase to the assignment, at the most: an older time in a record is not its end. Default:
    group.max.session.timeout.ms, since a leader that dies is removed by then."""

    # How members go.

    departure_shares: Mapping[Cause, float] = _by_cause(
        {Cause.MEMBER_LEFT: 0.5, Cause.SESSION_TIMEOUT: 0.25, Cause.POLL_TIMEOUT: 0.25, Cause.ADMIN_REMOVED: 0.05}
    )
    """How often members go in each way, before anything is known: the prior. Rig. Weight 6, 6 at the most, one
    cause's alone."""

    rejoin_timeout_shares: Mapping[StallEnd, float] = field(
        default_factory=lambda: MappingProxyType(
            {
                StallEnd.REBALANCE_TIMEOUT: 0.005,
                StallEnd.OWN_LIMIT: 0.05,
                StallEnd.SESSION_TIMEOUT: 0.05,
                StallEnd.NOTHING: 0.25,
            }
        )
    )
    """The same of members that are dropped because they did not rejoin, by what ends a stall of their library: those
    that leave by themselves when their rebalance timeout is over are hardly ever there to be dropped. Rig."""

    rejoin_timeout_unknown_share: float = 0.1
    """The same of members of a library that is not known. Chosen."""

    kip848_rejoin_timeout_share: float = 0.25
    """The same of members of KIP-848 groups that go before they reached their target. Chosen: as often as they
    stall."""

    hangs_later_share: float = 0.01
    """How many of those do it that went on with their work when they were asked, and fell silent later. Chosen."""

    skipped_generation_shares: Mapping[Cause, float] = _by_cause(
        {Cause.MEMBER_LEFT: 0.3, Cause.SESSION_TIMEOUT: 1.0, Cause.POLL_TIMEOUT: 0.3, Cause.ADMIN_REMOVED: 0.1}
    )
    """The same, on top, of members of a generation that never completed: it mostly waits for a leader that died.
    Rig. Weight 2, 2 at the most, one cause's alone."""

    same_way_share: float = 0.8
    """How often all that go in one rebalance go in the same way: an application is stopped, a host dies. Rig. Weight
    0."""

    one_dead_odds: float = 0.6
    """So much less often than all that are left die at once does one die while the others are closed, so that nothing
    tells the two apart. Chosen: enough that neither is sure."""

    uncertain_confidence: float = 0.75
    """No more sure is a timeout where it may be the other; which of two came first, where one left and another joined
    in its place; and how each of several went while a generation never completed, or in several ways while another
    coordinator began their sessions anew. Chosen: less than is relied on."""

    heartbeats_in_step_share: float = 0.5
    """How often those that stay send heartbeats at whole intervals since their generation began, of which a session
    timeout is a multiple: then they rejoin as a session would end. Chosen: four of 14 rebalances of idle groups."""

    other_silence_share: float = 0.004
    """How many fell silent for some other reason before they went. Rig. Weight 0, 51."""

    lone_silence_share: float = 0.04
    """The same where nobody stayed that works as well, so that nothing tells whether its topics fell idle. Chosen."""

    silence_of_all_share: float = 0.4
    """The same where those that stayed fell silent as well: nothing comes to the topics any more. Chosen."""

    closed_as_joined_share: float = 0.1
    """So many leave as their generation begins, for each that leaves later without a commit, where a cooperative
    round is due. Rig: one of 16 to one of three."""

    slow_close_share: float = 0.4
    """Of those that close without a commit, how many take up to `slow_close_ms`. Rig. Weight 0, 14."""

    late_timer_share: float = 0.05
    """How many sessions end later than `timer_precision_ms` after their time, up to `log_time_tolerance_ms`. Rig."""

    idle_member_share: float = 0.1
    """How many members have partitions in which nothing came for some commit intervals. Chosen."""

    falls_idle_share: float = 0.03
    """How many members whose positions moved so far have partitions to which nothing comes any more. Chosen."""

    falls_idle_with_all_share: float = 0.8
    """The same where no other member's positions moved since, or there is none to tell. Chosen."""

    later_heartbeat_share: float = 0.65
    """Of the heartbeats that ought to follow the last commit of a member that dies, so many do. Rig. Weight 2, 2."""

    transactional_share: float = 0.02
    """How many of those that die committed in transactions (`sendOffsetsToTransaction`, Streams' exactly_once_v2),
    which renews no session: it runs from their last heartbeat. Chosen: enough that a goodbye is not sure there."""

    held_up_commit_share: float = 0.3
    """How many of those that stall and committed as a coordinator was there again had stalled before. Chosen."""

    dies_at_once_share: float = 0.5
    """How many of those that die without a commit die before they had time for one. Chosen. Weight 0."""

    rejoins_after_removal_share: float = 0.9
    """How many of those that an admin takes out join again at once. Chosen: their next heartbeat tells them to.
    Weight 22, 0."""

    leaves_all_the_same_share: float = 0.03
    """How many say goodbye though their library does not by default (Streams' CloseOptions), or not of static members
    (KIP-1092). Chosen: none of 41 did."""

    removed_alone_factor: float = 0.02
    """So much less often than an admin takes out members is it one without group.instance.id while others stay:
    admins' clients name single members by their instance (KIP-345), and take others out only all at once (KIP-571).
    Chosen: restarts are as quick, and usual."""

    unlikely_factor: float = 0.2
    """So much less likely is what only another explanation would leave room for: an admin where a timeout may have
    run out and no commit tells; anything but a stall where a member that rejoined in the background fell silent
    before. Rig. Weight 0."""

    # How those that stay behave.

    commits_on_revoke_share: float = 0.85
    """How many clients commit as they give up their partitions. Rig. Weight 6, 6."""

    notices_in_time_share: float = 0.94
    """How many notice a rebalance within a heartbeat interval; the others within `busy_ms` or so. Rig. Weight 6,
    0."""

    slow_commits_ms: int = 10_000
    """Members that commit less often may be at work on what they polled for as long as that, and notice a rebalance
    only then; or little comes to their topics. Chosen: twice auto.commit.interval.ms."""

    paced_by_records_share: float = 0.4
    """How many of those commit as records come, so that they have nothing to commit as they close, and wait for the
    next as long as it happens to take. Chosen: of simulated members of KIP-848 groups that closed, 1 % rather than
    16 % are told as died and sure, and of those that died a third rather than two thirds."""

    busy_group_share: float = 0.9
    """How many of those that are so at work notice no rebalance before they have done. Chosen."""

    slower_notice_share: float = 0.15
    """How many notice later than members of the group have so far, but within a heartbeat interval. Chosen. Weight
    0."""

    notice_margin_factor: float = 10
    """With n members seen to notice a rebalance, the longest time that they took is stretched by the nth root of
    this: nine of ten times that is no less than what they can take. Chosen. Weight 0."""

    slow_rejoin_share: float = 0.01
    """How many take long to rejoin once they have given up their partitions. Rig. Weight 6, 18."""

    overdue_commit_factor: float = 0.1
    """So likely it is, other things alike, that a member that stays has missed a commit. Chosen. Weight 6, 6."""

    followup_share: float = 0.95
    """How many rounds that left partitions without an owner are followed by another within `followup_ms`. Rig. Weight
    0."""

    followup_of_gone_factor: float = 0.3
    """So much less often are they where all that were to give up partitions are gone. Chosen: none of seven was, but
    six were librdkafka's, which goes only once it has joined."""

    followup_at_once_share: float = 0.95
    """How many of those are so within `followup_at_once_ms`. Rig."""

    replacement_odds: float = 3.0
    """So much more often, where one goes and one comes, it is the departure that comes first. Rig. Weight 0."""

    early_restart_odds: float = 3.0
    """So much more often the client of a dead member is started again before its session runs out than after. Rig.
    Weight 0."""

    # What is told of it.

    least_departure_confidence: float = 0.5
    """Below this a departure is an `unknown_departure`. Chosen: more likely than not. Weight 1, 14."""

    least_traceless_confidence: float = 0.8
    """The same of a member that never committed: only its time and what its group does tell of it. Chosen."""

    least_confidence_without_commits: float = 0.95
    """The same where nobody in the group commits: the moment alone can tell. Chosen."""

    least_trigger_confidence: float = 0.5
    """Below this it is `unknown` what set a rebalance off. Chosen: more likely than not. Weight 0, 7."""

    candidate_probability: float = 0.1
    """From here on a cause is named among those that are possible. Chosen. Weight 0."""

    assumed_session_probability: float = 0.03
    """From here on no other cause is sure where a session may have run out of which nobody told how long it is.
    Chosen: of 139 goodbyes that were right and sure one is less sure, of those that were wrong all six."""

    doubtful_timeout_share: float = 0.3
    """So probable, as a share of one timeout, the other must be by a member's own times to keep it from being sure,
    however the others of its rebalance went. Rig: of 2,664 departures that were right and sure seven are less so."""

    timeout_odds: float = 2
    """So many times likelier than the other a timeout must be to be told: a session's and a poll loop's differ in
    nothing but length, and where the two are near each other the likelier of them is a guess. Rig. Weight 0."""

    most_confidence: float = 0.97
    """What is inferred is never certain. Chosen."""

    sure_departure_confidence: float = 0.85
    """From here on a departure's time is taken for the beginning of its rebalance. Chosen."""

    # How sure a rule is that weighs nothing. All chosen: they say how firm the evidence is, and change no cause.

    followup_confidence: float = 0.95
    """Nobody changed, and partitions were left over for a cooperative round."""

    internal_topics_confidence: float = 0.9
    """Nobody changed after a Streams application's first generation, in which the leader makes internal topics."""

    leader_rejoined_confidence: float = 0.7
    """Nobody changed, and nothing else did: the leader asked, or one came and went again within the rebalance."""

    first_metadata_ms: int = 3_000
    """So soon after its first generation a client that joined without knowing its topic's partitions knows them:
    kafka-python asks while it joins. Rig: 0.1 s. Chosen."""

    metadata_wait_ms: int = 100
    """So long it waits before it asks for them. Default: retry.backoff.ms of kafka-python. Rig: 103 to 108 ms."""

    topics_changed_confidence: float = 0.8
    """An epoch was raised with nobody coming, going or resubscribing."""

    static_removal_confidence: float = 0.9
    """A static member left by a LeaveGroup, which only an admin's client sends for it; or, of a KIP-848 group, had
    left for a restart and was removed before its session can have ended."""

    close_confidence: float = 0.97
    """A member left that had just committed, or was there for less than its poll timeout."""

    recent_commit_confidence: float = 0.95
    """A member left whose last commit lies clearly less than its poll timeout back."""

    barely_recent_commit_confidence: float = 0.8
    """The same, by less than an interval."""

    recent_poll_confidence: float = 0.9
    """A member left that gave its partitions up, and so polled, less than its poll timeout ago."""

    stall_confidence: float = 0.9
    """A member missed a commit, and left about when its poll timeout had run out."""

    stall_without_cadence_confidence: float = 0.8
    """The same where it is not known how often it commits."""

    shown_rejoin_confidence: float = 0.9
    """A member rejoined and the topic shows why; or it shows nothing, so the reason is what such a rejoin means."""

    soon_rejoin_confidence: float = 0.8
    """A cooperative member rejoined soon after a round that was never written."""

    # How finely the posterior is computed: its cost, and which of several that are about as likely is told.

    start_step_ms: float = 200.0
    """Length of the stretches of time in which a rebalance may have begun. Chosen: a fifteenth of a heartbeat
    interval. Weight 10, 10."""

    fine_steps_ms: float = 4_000
    """So far back from the end of the join phase; before that each stretch is longer than the next. Chosen. Weight
    10, 10."""

    step_growth_factor: float = 1.2
    """By this, which is above 1. Chosen."""

    start_margin_ms: int = 10_000
    """A rebalance began at most this, and the longest rebalance timeout, before its join phase ended. Chosen. Weight
    0."""

    narrow_ms: int = 200
    """Intervals as narrow as this are moments: time is cut there, to tell before from after. Chosen. Weight 0."""

    shortest_generation_ms: float = 1_000.0
    """What happens at some time in a generation is spread over this at the least. Chosen. Weight 0."""

    least_likelihood: float = 1e-9
    """For what should not be, so that it is never impossible. Chosen. Weight 0."""

    negligible_start_factor: float = 1e-7
    """Beginnings so much less likely than the likeliest are not looked into. Chosen. Weight 0."""

    starts_kept: int = 8
    """The likeliest beginnings, for members that are not weighed with the others. Chosen. Weight 0."""

    remaining_sampled: int = 24
    """The commits of so many members that stay tell as much as those of all. Chosen. Weight 0."""

    departures_weighed: int = 8
    """Of so many departures every order is weighed; of more, of so many spread evenly over the last commits.
    Chosen. Weight 0."""

    commits_for_cadence: int = 3
    """So many commits of a partition tell how often its owner commits. Chosen. Weight 0."""

    # Groups that are looked at (`--source admin`), of which neither records nor timeouts are known.

    sampled_least_moves: int = 2
    """So often a position must have been seen to move that its standing still tells something. Chosen."""

    sampled_other_limit_share: float = 0.4
    """How many clients have another session timeout or max.poll.interval.ms than their library by default. Chosen."""

    sampled_longest_session_timeout_ms: int = 90_000
    """What session timeouts are set to at the most, but for few. Chosen."""

    sampled_poll_interval_ms: int = 300_000
    """The limit between two polls. Default: max.poll.interval.ms."""

    sampled_least_confidence: float = 0.7
    """Below this a departure that was seen by looks is an `unknown_departure`: limits that nobody told make a wrong
    answer likelier. Chosen."""

    sampled_join_confidence: float = 0.95
    """A member that came is seen before any that went, or none went."""

    sampled_grown_confidence: float = 0.9
    """Nobody came or went, and more partitions of a topic are held."""

    sampled_most_error_ms: int = 1_000
    """Durations between looks that may be off by more than this are not told. Chosen."""


PARAMETERS: Final = InferenceParameters()
