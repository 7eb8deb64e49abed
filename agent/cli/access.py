"""Where the answers of a query command come from: files, a broker that is read to its end, or a running agent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPException
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

import click
from click.core import ParameterSource

from agent.cli.connecting import OPTIONS, connection, why
from agent.cli.options import chosen_analyzers, client_properties, one_of
from agent.cli.output import UNREACHABLE, printable, warn

if TYPE_CHECKING:
    from agent.moments import Moment
    from agent.shadow.told import Witness
    from agent.whatif.recorder import Recorder

Form = dict[str, Any]

AGENT_TIMEOUT_S = 30.0
MOST_EVENTS = 10_000
COMPLETE_SINCE = "Kshadow-Complete-Since"
"""As `agent.http` has them, which takes long to import."""

SOURCES = ("from_path", "bootstrap_server", "agent")

_ADVICE = {
    401: "; --agent-user says who asks, KSHADOW_AGENT_PASSWORD or --agent-password-file has the password",
    429: "; try again in a while",
    503: "; try again in a while",
}

NO_SUCH_GROUP = {"error": "no such group"}

# What the tables need of an agent's answers. More fields may come, and do.
_ROW: dict[str, type | UnionType] = {
    "group": str,
    "group_type": str,
    "state": str,
    "generation": int,
    "state_since_ms": int,
    "last_commit_ms": int | None,
}
_LISTS: dict[str, dict[str, type | UnionType]] = {
    "members": {"member_id": str, "assignment": dict},
    "offsets": {"topic": str, "partition": int, "offset": int, "committed_ms": int | None, "lag": int | None},
    "anomalies": {"kind": str, "message": str, "offset": int, "at_ms": int},
}


class Past(NamedTuple):
    """Events of one group in order, and from when on they are all there are (None: from the log's beginning)."""

    events: list[Form]
    complete_since_ms: int | None


class Last(NamedTuple):
    """A group as it was when it last had members.

    `as_of_ms`: the last millisecond of that, None where the log has no times. `form`: None where the source cannot
    be read again to see.
    """

    as_of_ms: int | None
    form: Form | None


class Answers(Protocol):
    """What a query command asks."""

    where: str

    @property
    def live(self) -> bool:
        """Whether answers are of now, and not of where files end."""

    @property
    def now_ms(self) -> int:
        """What durations are counted back from, epoch milliseconds: now, or the newest record of files."""

    def past(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Past | None:
        """One group's events of a range, bounds included; None if there is and was no such group."""

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Form]:
        """The newest event of each finding that was open in the range; without a range, of each that is open."""

    def groups(self) -> list[Form]:
        """Every group's row, by name."""

    def describe(self, group: str) -> Form | None:
        """One group in full; None if there is no such group."""

    @property
    def as_of_ms(self) -> int | None:
        """What time is told of, where one was asked for; epoch milliseconds, never later than what there is."""

    def last(self, group: str) -> Last | None:
        """The group asked for, which has no members, when it last had some; None if it is not known to have had."""

    def report(self, say: Callable[[str], None]) -> bool:
        """Say what was wrong with the data; whether anything was."""


@contextmanager
def reaching() -> Iterator[None]:
    """Turn a source that cannot be read into a message and the exit code of the contract."""
    from agent.source.errors import SourceDenied, SourceError, SourceUnreachable

    try:
        yield
    except SourceUnreachable as error:
        fail(f"{error}; kshadow doctor tries what a connection needs, step by step, and says how to fix it")
    except SourceDenied as error:
        fail(str(error))
    except SourceError as error:
        if isinstance(error.__cause__, PermissionError):
            fail(f"{error}; run kshadow as a user who may read it")
        raise click.UsageError(printable(str(error))) from None


def fail(text: str) -> NoReturn:
    """Say what cannot be reached or is not allowed, and end."""
    warn(f"Error: {text}")
    raise click.exceptions.Exit(UNREACHABLE) from None


@contextmanager
def ask(
    ctx: click.Context,
    group: str | None = None,
    *,
    history: bool = False,
    until: Moment | None = None,
    recorder: Recorder | None = None,
    witness: Witness | None = None,
    lag: bool = False,
) -> Iterator[Answers]:
    """The answers of the one source that the command was given.

    `group`: only that one will be asked for. `history`: events and findings will be, too. `until`: as it was then.
    `recorder` follows its group through what is read here, and `witness` testifies to it; an agent has read already.
    `lag`: a broker is asked for the ends of what the group has committed.
    """
    from_path, bootstrap_server, agent = (ctx.params[name] for name in SOURCES)
    kind = one_of(ctx, *SOURCES)
    check_options(ctx, kind)
    if kind == "agent" and until is not None:
        raise click.UsageError("--until goes with --from and --bootstrap-server; an agent knows groups as they are")
    # An agent has its own; and to look for them all takes long.
    looks = history and kind != "agent"
    chosen = chosen_analyzers(ctx.params["analyzer_names"], ctx.params["tuned"]) if looks else None
    with reaching():
        match kind:
            case "from_path":
                from agent.cli.reading import offline

                yield offline(from_path, group, chosen, until, recorder, witness)
            case "bootstrap_server":
                from agent.cli.reading import live

                conf = client_properties(bootstrap_server, ctx.params["properties"])
                yield live(conf, group, chosen, until, recorder, witness, lag=lag)
            case _:
                yield AgentAnswers(agent, {name: ctx.params.get(name) for name in OPTIONS})


def check_options(ctx: click.Context, kind: str) -> None:
    """Raise `click.UsageError` for options on the command line that go with another kind of source."""
    if kind != "bootstrap_server" and ctx.get_parameter_source("properties") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--property goes with --bootstrap-server")
    if kind != "bootstrap_server" and ctx.get_parameter_source("command_config") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--command-config goes with --bootstrap-server")
    tuning = ("analyzer_names", "tuned")
    if kind == "agent" and any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in tuning):
        raise click.UsageError("--analyzers and --tune go with --from and --bootstrap-server; an agent has its own")
    if kind != "agent":
        for name in OPTIONS:
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --agent")


def now_ms() -> int:
    """By the clock on the wall, epoch milliseconds."""
    return time.time_ns() // 1_000_000


class AgentAnswers:
    """Asks a running agent over HTTP. What comes back is checked: it may be anyone who listens there."""

    live = True
    as_of_ms = None

    def __init__(self, url: str, options: Mapping[str, Any], timeout_s: float = AGENT_TIMEOUT_S) -> None:
        """`options`: of `agent.cli.connecting`, by name. `timeout_s`: of each read."""
        self._timeout_s = timeout_s
        self.now_ms = now_ms()
        self._headers: Message = Message()
        self._connection = connection(url, options)
        self.url = self._connection.url
        self.where = f"at {self.url}"

    def groups(self) -> list[Form]:
        """`GET /api/v1/groups`."""
        url, rows = self._get("/api/v1/groups")
        if not isinstance(rows, list) or not all(_has(row, _ROW) for row in rows):
            self._no_agent(url, "a list of groups")
        answer: list[Form] = rows
        return answer

    def describe(self, group: str) -> Form | None:
        """`GET /api/v1/groups/{group}`."""
        try:
            name = quote(group, safe="")
        except UnicodeEncodeError:
            # An argument that is no text can be no group's name.
            return None
        url, form = self._get(f"/api/v1/groups/{name}")
        if form == NO_SUCH_GROUP:
            return None
        if not _has(form, _ROW) or not all(_lists(form, name, shape) for name, shape in _LISTS.items()):
            self._no_agent(url, "a group")
        answer: Form = form
        return answer

    def past(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Past | None:
        """`GET /api/v1/groups/{group}/timeline`."""
        try:
            name = quote(group, safe="")
        except UnicodeEncodeError:
            return None
        query = _query(since=since_ms, until=until_ms, limit=MOST_EVENTS)
        url, events = self._get(f"/api/v1/groups/{name}/timeline{query}")
        if events == NO_SUCH_GROUP:
            if self.describe(group) is not None:
                # Before there was this route, the group `NAME/timeline` was what was asked for.
                self._no_agent(url, "a timeline")
            return None
        complete = self._headers.get(COMPLETE_SINCE, "")
        known = complete.isascii() and complete.isdecimal() and len(complete) < 20
        return Past(self._events(url, events), int(complete) if known else None)

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Form]:
        """`GET /api/v1/findings`."""
        url, events = self._get("/api/v1/findings" + _query(since=since_ms, until=until_ms, group=group))
        if not all(event["type"] == "finding" for event in self._events(url, events)):
            self._no_agent(url, "findings")
        found: list[Form] = events
        return found

    def _events(self, url: str, events: Any) -> list[Form]:
        from agent.story.reading import is_event

        if not isinstance(events, list) or not all(map(is_event, events)):
            self._no_agent(url, "a list of events")
        answer: list[Form] = events
        return answer

    def last(self, group: str) -> None:
        """The agent keeps no members that went."""

    def report(self, say: Callable[[str], None]) -> bool:
        """The agent reports bad data as metrics and in its log, not to whoever asks."""
        return False

    def _get(self, path: str) -> tuple[str, Any]:
        url = self.url + path
        try:
            with self._connection.open(path, self._timeout_s) as response:
                self._headers = response.headers
                return url, json.load(response)
        except HTTPError as error:
            body = error.read(2000).decode(errors="replace").strip()
            try:
                answer = json.loads(body)
            except (ValueError, RecursionError):
                answer = None
            if error.code == 404 and answer == NO_SUCH_GROUP:
                return url, answer
            said = answer["error"] if _has(answer, {"error": str}) else body or "nothing more"
            advice = _ADVICE.get(error.code, "")
            self._fail(f"{url} answered {error.code} {error.reason}: {said}{advice}")
        except (ValueError, RecursionError) as error:
            self._no_agent(url, f"JSON ({error})")
        except (OSError, HTTPException) as error:
            self._fail(f"no agent answers at {self.url}: {why(error, tls=self.url.startswith('https'))}")

    def _no_agent(self, url: str, expected: str) -> NoReturn:
        self._fail(f"{url}: expected {expected}, came something else: no kshadow agent, or one of another version")

    def _fail(self, text: str) -> NoReturn:
        """What cannot be reached ends the command; what asks again and again has another idea."""
        fail(text)


def _query(**parameters: int | str | None) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _has(form: Any, shape: Mapping[str, type | UnionType]) -> bool:
    """Whether a JSON object has all fields of a shape, each of its type."""
    return isinstance(form, dict) and all(
        name in form and isinstance(form[name], kind) for name, kind in shape.items()
    )


def _lists(form: Form, name: str, shape: Mapping[str, type | UnionType]) -> bool:
    rows = form.get(name)
    return isinstance(rows, list) and all(_has(row, shape) for row in rows)
