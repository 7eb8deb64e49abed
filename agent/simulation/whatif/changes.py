"""Other settings, each as a function from a script to the script under them.

`CHANGES` is the one table: the command's options, the documentation and the tests derive from it. What happened to
the clients stays as it was; only how they and the broker are set changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.presentation.narrative.words import duration
from agent.simulation.groups.script import (
    BrokerSettings,
    ClientSettings,
    Close,
    GroupProtocol,
    Kill,
    Script,
    Stall,
    Start,
)

Apply = Callable[[Script, Any], Script]

CLIENTS = "in every client's configuration"
BROKERS = "in every broker's configuration, for all groups"

ASSIGNOR_CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""By name, as Java's consumer wants them; librdkafka takes the name."""


class SettingChange(Struct, frozen=True):
    """One setting. `kind` is what its option takes: nothing (`flag`), a `duration` in milliseconds, or a choice.

    `key` is the setting's name in the configuration `where`. `label` makes its words in a table of a value; `assumes`
    says what it takes for granted, `note` what must be known to write it. `each`, of what differs by client: that it
    does.
    """

    name: str
    key: str
    kind: str
    help: str
    apply: Apply
    label: Callable[[Any], str]
    assumes: str
    choices: tuple[str, ...] = ()
    note: str = ""
    where: str = CLIENTS
    each: str = ""


class Alternative(Struct, frozen=True):
    """Changes with their values, made together; none is today's settings."""

    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """As a table names it."""
        return ", ".join(CHANGES[name].label(value) for name, value in self.values.items()) or "today's settings"

    def apply(self, script: Script) -> Script:
        """The script under these settings."""
        for name, value in self.values.items():
            script = CHANGES[name].apply(script, value)
        return script

    def config_lines(self, heartbeat_ms: int) -> tuple[str, ...]:
        """`session.timeout.ms=45000` and the like; of what differs by client the setting alone."""
        out = []
        for name, value in self.values.items():
            change = CHANGES[name]
            out.append(change.key if change.each else f"{change.key}={ASSIGNOR_CLASSES.get(value, value)}")
            if name == "session-timeout" and heartbeat_ms > value // 3:
                out.append(f"heartbeat.interval.ms={value // 3}")
        return tuple(out)

    @property
    def where(self) -> str:
        """Whose configuration they belong in. The standard set never changes clients and brokers together."""
        changed = [CHANGES[name] for name in self.values]
        where = BROKERS if any(it.where == BROKERS for it in changed) else CLIENTS
        return ", ".join([where, *(it.each for it in changed if it.each)])

    @property
    def has_part_in_detection(self) -> bool:
        """Whether they decide when a death is noticed: with others it may fall into another join phase, by chance."""
        return not self.values.keys() <= {"assignor", "initial-delay"}

    @property
    def notes(self) -> list[str]:
        """What must be known to write them, in the order of the table."""
        return [change.note for name, change in CHANGES.items() if name in self.values and change.note]


CURRENT_SETTINGS = Alternative({})


def format_setting(ms: int) -> str:
    """A duration that somebody set: `30 s`, `1.5 s`, `2 min`, `500 ms`."""
    if 0 < ms < 1_000:
        return f"{ms} ms"
    return f"{ms / 1000:g} s" if ms < 60_000 else duration(ms)


def _with_clients(script: Script, change: Callable[[str, ClientSettings], ClientSettings]) -> Script:
    """Another script with each client's settings changed, by the client's name."""
    steps = (
        replace(step, settings=change(step.client, step.settings)) if isinstance(step, Start) else step
        for step in script.steps
    )
    return replace(script, steps=tuple(steps))


def _with_client(script: Script, **settings: Any) -> Script:
    return _with_clients(script, lambda _, before: replace(before, **settings))


def _with_broker(script: Script, **settings: int) -> Script:
    return replace(script, broker=replace(script.broker, **settings))


def _static(script: Script, _: Any) -> Script:
    taken = {it.settings.instance_id for it in starts(script)}

    def change(client: str, settings: ClientSettings) -> ClientSettings:
        name = client
        while name in taken:
            name += "'"
        return settings if settings.instance_id is not None else replace(settings, instance_id=name)

    return _with_clients(script, change)


def _session_timeout(script: Script, session_ms: int) -> Script:
    def change(_: str, settings: ClientSettings) -> ClientSettings:
        beat_ms = min(settings.heartbeat_interval_ms, max(session_ms // 3, 1))
        return replace(settings, session_timeout_ms=session_ms, heartbeat_interval_ms=beat_ms)

    return allow_session_timeouts(_with_clients(_with_broker(script, consumer_session_timeout_ms=session_ms), change))


def allow_session_timeouts(script: Script) -> Script:
    """With a broker that allows every session timeout in the script, as the one must that it was recorded on."""
    sessions = [step.settings.session_timeout_ms for step in starts(script)]
    broker: BrokerSettings = script.broker
    least, most = broker.min_session_timeout_ms, broker.max_session_timeout_ms
    return _with_broker(
        script,
        min_session_timeout_ms=min([least, *sessions]),
        max_session_timeout_ms=max([most, *sessions]),
    )


def starts(script: Script) -> Iterable[Start]:
    """Each start of a client."""
    return (step for step in script.steps if isinstance(step, Start))


CHANGES: Mapping[str, SettingChange] = {
    change.name: change
    for change in (
        SettingChange(
            "static",
            "group.instance.id",
            "flag",
            "Static membership: every client has a group.instance.id.",
            _static,
            lambda _: "static membership",
            "static membership: a client that closes keeps its place and its partitions until its session ends; "
            "a restart under another name would keep the same group.instance.id",
            note="an id must be the same after a restart",
            each="an id of its own for each",
        ),
        SettingChange(
            "session-timeout",
            "session.timeout.ms",
            "duration",
            "session.timeout.ms of every client (KIP-848: group.consumer.session.timeout.ms).",
            _session_timeout,
            lambda ms: f"session timeout {format_setting(ms)}",
            "session timeout: brokers allow it (group.min/max.session.timeout.ms, 6 s to 30 min by default; KIP-848: "
            "group.consumer.min/max.session.timeout.ms, 45 s to 60 s), and clients send heartbeats at least three "
            "times in it",
        ),
        SettingChange(
            "poll-timeout",
            "max.poll.interval.ms",
            "duration",
            "max.poll.interval.ms of every client.",
            lambda script, ms: _with_client(script, max_poll_interval_ms=ms),
            lambda ms: f"poll timeout {format_setting(ms)}",
            "poll timeout: a client that stalled would have polled again when it came back",
        ),
        SettingChange(
            "heartbeat-interval",
            "heartbeat.interval.ms",
            "duration",
            "heartbeat.interval.ms of every client.",
            lambda script, ms: _with_client(
                _with_broker(script, consumer_heartbeat_interval_ms=ms), heartbeat_interval_ms=ms
            ),
            lambda ms: f"heartbeat interval {format_setting(ms)}",
            "heartbeat interval: it is well below the session timeout",
        ),
        SettingChange(
            "assignor",
            "partition.assignment.strategy",
            "choice",
            "partition.assignment.strategy of every client.",
            lambda script, name: _with_client(script, assignors=(name,)),
            lambda name: f"{name} assignor",
            "assignor: every client uses it alone; the way there, a deploy of its own, is not counted",
            tuple(ASSIGNOR_CLASSES),
            "from an eager assignor it takes two rolling restarts",
        ),
        SettingChange(
            "initial-delay",
            "group.initial.rebalance.delay.ms",
            "duration",
            "group.initial.rebalance.delay.ms of the brokers.",
            lambda script, ms: _with_broker(script, initial_rebalance_delay_ms=ms),
            lambda ms: f"initial delay {format_setting(ms)}",
            "initial delay: it is a setting of the brokers and holds for every group",
            where=BROKERS,
        ),
        SettingChange(
            "protocol",
            "group.protocol",
            "choice",
            "group.protocol of every client; consumer is KIP-848.",
            lambda script, name: _with_client(script, group_protocol=GroupProtocol(name)),
            lambda name: "KIP-848" if name == "consumer" else "classic protocol",
            "KIP-848: brokers and clients support it, and each new group epoch counts as a rebalance",
            ("classic", "consumer"),
            "it needs brokers from 4.0 on, and the brokers set the session timeout and the assignor",
        ),
    )
}
"""By name, which is also the option's."""

SESSIONS_MS = (10_000, 45_000, 120_000)
DELAYS_MS = (3_000, 10_000)
ROUND_MS = (10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000)
"""Values that people set."""


def standard_alternatives(script: Script) -> list[Alternative]:
    """What is worth a try, without what the script has already."""
    settings = [it.settings for it in starts(script)]
    sessions = {it.session_timeout_ms for it in settings}
    out: list[dict[str, Any]] = []
    is_dynamic = any(it.instance_id is None for it in settings)
    if is_dynamic:
        out.append({"static": True})
    covering = _round_above(_downtimes(script))
    if covering is not None and covering > max(sessions):
        out.append({**({"static": True} if is_dynamic else {}), "session-timeout": covering})
    out += [{"session-timeout": ms} for ms in SESSIONS_MS if sessions != {ms}]
    stalls = [
        it.duration_ms
        for it in script.steps
        if isinstance(it, Stall) and it.at_ms + it.duration_ms <= script.until_ms
    ]
    if (poll := _round_above(stalls)) is not None and poll > max(it.max_poll_interval_ms for it in settings):
        out.append({"poll-timeout": poll})
    if any(it.assignors != ("cooperative-sticky",) for it in settings):
        out.append({"assignor": "cooperative-sticky"})
        if is_dynamic:
            out.append({"static": True, "assignor": "cooperative-sticky"})
    out += [{"initial-delay": ms} for ms in DELAYS_MS if ms != script.broker.initial_rebalance_delay_ms]
    if any(it.group_protocol is not GroupProtocol.CONSUMER for it in settings):
        out.append({"protocol": "consumer"})
        if is_dynamic:
            out.append({"static": True, "protocol": "consumer"})
    unique = {tuple(values.items()): Alternative(values) for values in out}
    return list(unique.values())


def _downtimes(script: Script) -> list[int]:
    """How long clients were away that came back."""
    gone: dict[str, int] = {}
    out = []
    for step in script.steps:
        match step:
            case Start(at_ms=at_ms, client=client):
                if client in gone:
                    out.append(at_ms - gone.pop(client))
            case Kill(at_ms=at_ms, client=client) | Close(at_ms=at_ms, client=client):
                gone[client] = at_ms
            case _:
                pass
    return out


def _round_above(values_ms: Iterable[int]) -> int | None:
    """The least round value above all of those that any is above."""
    most = max((it for it in values_ms if it < ROUND_MS[-1]), default=None)
    return None if most is None else next(it for it in ROUND_MS if it > most)
