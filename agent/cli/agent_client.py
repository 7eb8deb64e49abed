"""A running agent, asked over HTTP: whom to trust, who asks, and its answers, which are checked.

A password comes from the environment or a file, never from the command line or an address: those are seen by
everyone on the machine, and kept in shells' histories.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from copy import copy
from email.message import Message
from http.client import HTTPException
from itertools import pairwise
from types import UnionType
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

import click

from agent.cli.answers import Answers, SourceAway, SourceNotReady, Unread, exit_unreachable
from agent.cli.options import AGENT_OPTIONS
from agent.cli.output import warn
from agent.common.clock import now_ms
from agent.common.text import printable_truncated
from agent.common.timespec import LEAST_MS
from agent.config.values import parse_agent_url
from agent.core.queries import NO_KNOWN_GROUP, NO_SUCH_CLUSTER, NO_SUCH_GROUP, Health, JsonObject, Rollouts, Timeline
from agent.serving.web.allowed_hosts import is_loopback

if TYPE_CHECKING:
    import ssl
    from urllib.request import OpenerDirector

    from agent.simulation.whatif.recorder import GroupRecording

READ_TIMEOUT_S = 30.0
_EXPIRED = 10  # OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED
MAX_EVENTS = 10_000
COMPLETE_SINCE_HEADER = "Kshadow-Complete-Since"
"""As `agent.serving.routes` has them, which takes long to import."""

_OTHER = "no kshadow agent, or one of another version"
_MAX_SHOWN = 80
_ADVICE = {
    **dict.fromkeys((301, 302, 303, 307, 308), f"; an agent sends nobody elsewhere: {_OTHER}"),
    404: f"; {_OTHER}",
    401: "; --agent-user says who asks, KSHADOW_AGENT_PASSWORD or --agent-password-file has the password",
    429: "; try again in a while",
    503: "; try again in a while",
}

_NO_GROUP = {"error": NO_SUCH_GROUP}

# What the tables need of an agent's answers. More fields may come, and do.
_GROUP_SHAPE: dict[str, type | UnionType] = {
    "group": str,
    "group_type": str,
    "state": str,
    "generation": int,
    "state_since_ms": int,
    "last_commit_ms": int | None,
    "partitions": int,
    "rebalances": int,
    "coordinator_partition": int | None,
}
_STALE_SHAPE: dict[str, type | UnionType] = {"since_ms": int, "group": str | None, "transactional_ids": list}
_LIST_SHAPES: dict[str, dict[str, type | UnionType]] = {
    "members": {
        "member_id": str,
        "client_id": str,
        "client_host": str,
        "instance_id": str | None,
        "subscription": list,
        "assignment": dict,
    },
    "offsets": {"topic": str, "partition": int, "offset": int, "committed_ms": int | None, "lag": int | None},
    "anomalies": {"kind": str, "message": str, "offset": int, "at_ms": int},
}


class AgentClient(Answers):
    """Asks a running agent over HTTP. What comes back is checked: it may be anyone who listens there."""

    raises_when_away = False
    """Whether a question that cannot be answered raises `SourceAway`; else it ends the command."""

    _status: Any = None
    """The latest answer to `/api/v1/status`."""

    _health: Health | None = None
    """What it said last of whether it is ready."""

    _shown = b""
    """How the latest answer begins."""

    _unseen_reason: str | None = None
    """What the latest answer that knows no such group said of that."""

    def __init__(self, url: str, options: Mapping[str, Any], timeout_s: float = READ_TIMEOUT_S) -> None:
        """`url` may end in `?cluster=NAME`, one of those that the agent reads. `options`: the values of
        `AGENT_OPTIONS`, by name. `timeout_s`: of each read."""
        self._timeout_s = timeout_s
        self._cluster = parse_agent_url(url).cluster
        self._headers: Message = Message()
        self.url, self._opener, self._authorization = _connect(url, options)
        self.where = f"at {self.url}" + ("" if self._cluster is None else f", cluster {self._cluster}")

    @property
    def now_ms(self) -> int:
        """The clock on the wall."""
        return now_ms()

    def of_cluster(self, cluster: str) -> AgentClient:
        """The same connection, for one of the agent's clusters."""
        made = copy(self)
        made._cluster = cluster
        return made

    def ready(self) -> Health:
        """`GET /api/v1/status`: of one of several clusters what it says of that."""
        url, self._status = self._get("/api/v1/status")
        form = self._status_of(url, self._cluster)
        self._health = Health(form["ready"], str(form.get("reason", "")))
        return self._health

    def _status_of(self, url: str, cluster: str | None) -> JsonObject:
        form = self._status
        clusters = form.get("clusters") if isinstance(form, dict) else None
        if isinstance(clusters, dict) and cluster in clusters:
            # What is asked of one cluster is not older for another's trouble.
            form = clusters[cluster]
        if not isinstance(form, dict) or not isinstance(form.get("ready"), bool):
            self._fail_unexpected(url, "whether an agent is ready")
        return form

    def unread(self, cluster: str | None, partition: int | None) -> Unread | None:
        """By `GET /api/v1/status`: partitions' clocks stand still where they are not read on."""
        self.ready()
        form = self._status_of(f"{self.url}/api/v1/status", self._cluster or cluster)
        if form["ready"]:
            return None
        read = form.get("partitions")
        rows = read if isinstance(read, dict) else {}
        wanted: list[Any] = [*rows.values()] if partition is None else [rows.get(str(partition))]
        if wanted and all(
            _matches_shape(it, {"caught_up": bool, "behind_records": int})
            and it["caught_up"]
            and not it["behind_records"]
            for it in wanted
        ):
            # Others are not, as where they have no leader.
            return None
        clocks = [it["clock_ms"] for it in wanted if _matches_shape(it, {"clock_ms": int})]
        return Unread(min(clocks, default=None), str(form.get("reason") or "it is not ready"))

    def reach(self) -> None:
        """Ask whether it is ready, which ends the command where no agent is. One that is away from then on, or does
        not answer yet, raises `SourceAway`."""
        self.raises_when_away = True
        try:
            self.ready()
        except SourceNotReady:
            pass
        except SourceAway:
            # The same once more, and this time it ends the command as it ends others.
            self.raises_when_away = False
            self.ready()
            self.raises_when_away = True

    def report(self, say: Callable[[str], None]) -> bool:
        """Say that its answers are not as of now, where that is so: it goes on telling what it knew last. A command
        that asked `ready` is told of the same."""
        health = self._health or self.ready()
        if not health.ready:
            say(f"({self.url}: {health.reason}; what is told is the last that the agent knew)")
        return not health.ready

    def groups(self) -> list[JsonObject]:
        """`GET /api/v1/groups`."""
        url, rows = self._get("/api/v1/groups")
        if not isinstance(rows, list) or not all(map(_is_group, rows)):
            self._fail_unexpected(url, "a list of groups")
        answer: list[JsonObject] = rows
        return answer

    def describe(self, group: str) -> JsonObject | None:
        """`GET /api/v1/groups/{group}`."""
        if (path := _group_path(group)) is None:
            return None
        url, form = self._get(path)
        if form == _NO_GROUP:
            return None
        if (
            not _is_group(form)
            or not all(_is_list_of_shape(form, name, shape) for name, shape in _LIST_SHAPES.items())
            or not all(_are_numbers(held) for it in form["members"] for held in it["assignment"].values())
        ):
            self._fail_unexpected(url, "a group")
        answer: JsonObject = form
        return answer

    def unseen_reason(self, group: str) -> str | None:
        """What `GET /api/v1/groups/{group}` says beside that there is none."""
        self._unseen_reason = None
        self.describe(group)
        return self._unseen_reason

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        """`GET /api/v1/groups/{group}/timeline`."""
        if (path := _group_path(group)) is None:
            return None
        query = _query_string(since=_asked_ms(since_ms), until=_asked_ms(until_ms), limit=MAX_EVENTS)
        url, events = self._get(f"{path}/timeline{query}")
        if events == _NO_GROUP:
            if self.describe(group) is not None:
                # Before there was this route, the group `NAME/timeline` was what was asked for.
                self._fail_unexpected(url, "a timeline", "that there is no such group")
            return None
        complete_since_ms = self._complete_since_ms()
        return Timeline(self._events(url, events), complete_since_ms)

    def _complete_since_ms(self) -> int | None:
        """What the latest answer said of that."""
        said = self._headers.get(COMPLETE_SINCE_HEADER, "")
        return int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else None

    def rollouts(self, group: str) -> Rollouts | None:
        """`GET /api/v1/groups/{group}/rollouts`; None if there is no group of that name."""
        if (path := _group_path(group)) is None:
            return None
        from agent.presentation.rollouts.rollout_list import is_rollout

        url, found = self._get(f"{path}/rollouts")
        if found == _NO_GROUP:
            if self.describe(group) is not None:
                # Before there was this route, the group `NAME/rollouts` was what was asked for.
                self._fail_unexpected(url, "rollouts", "that there is no such group")
            return None
        if not isinstance(found, list) or not all(map(is_rollout, found)):
            self._fail_unexpected(url, "a list of rollouts")
        return Rollouts(found, self._complete_since_ms())

    def recording(self, group: str) -> GroupRecording | None:
        """`GET /api/v1/groups/{group}/recording`; None where there is none that this version of kshadow reads."""
        from msgspec import convert

        from agent.presentation.narrative.events import NOT_LIKE_IT
        from agent.simulation.whatif.recorder import GroupRecording

        if (path := _group_path(group)) is None:
            return None
        _, form = self._get(f"{path}/recording")
        try:
            found = convert(form, GroupRecording)
        except NOT_LIKE_IT:
            return None
        # A new generation completes a rebalance, of which something is known.
        is_one = all(
            it.inferred is not None or it.view.generation == before.view.generation
            for before, it in pairwise(found.states)
        )
        return found if is_one else None

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        """`GET /api/v1/findings`."""
        query = _query_string(since=_asked_ms(since_ms), until=_asked_ms(until_ms), group=group)
        url, events = self._get(f"/api/v1/findings{query}")
        if not all(event["type"] == "finding" for event in self._events(url, events)):
            self._fail_unexpected(url, "findings")
        found: list[JsonObject] = events
        return found

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        """What `GET /api/v1/findings` says of that, asked for no finding."""
        self._get("/api/v1/findings" + _query_string(until=0, group=group))
        return self._complete_since_ms()

    def _events(self, url: str, events: Any) -> list[JsonObject]:
        from agent.presentation.narrative.events import is_story_event

        if not isinstance(events, list) or not all(map(is_story_event, events)):
            self._fail_unexpected(url, "a list of events")
        answer: list[JsonObject] = events
        return answer

    def _get(self, path: str) -> tuple[str, Any]:
        if self._cluster is not None:
            path += ("&" if "?" in path else "?") + urlencode({"cluster": self._cluster})
        from urllib.request import Request

        url = self.url + path
        headers = {} if self._authorization is None else {"Authorization": self._authorization}
        self._shown = b""
        try:
            # A redirection is an `HTTPError`.
            with self._opener.open(Request(url, headers=headers), timeout=self._timeout_s) as response:
                self._headers = response.headers
                content = response.read()
                self._shown = content[: 4 * _MAX_SHOWN]
                return url, json.loads(content)
        except HTTPError as error:
            body = _beginning_of(error).decode(errors="replace").strip()
            try:
                answer = json.loads(body)
            except (ValueError, RecursionError):
                answer = None
            said = answer["error"] if _matches_shape(answer, {"error": str}) else body or "nothing more"
            if error.code == 404 and said.startswith(NO_SUCH_GROUP):
                self._unseen_reason = said.partition(NO_KNOWN_GROUP)[2] or None
                return url, _NO_GROUP
            advice = "" if said == NO_SUCH_CLUSTER else _ADVICE.get(error.code, "")
            self._fail(f"{url} answered {error.code} {error.reason}: {said}{advice}")
        except (ValueError, RecursionError) as error:
            self._fail_unexpected(url, "JSON", f"{self._came()} ({error})")
        except (OSError, HTTPException) as error:
            self._fail(f"no agent answers at {self.url}: {failure_reason(error, tls=self.url.startswith('https'))}")

    def _came(self) -> str:
        return printable_truncated(" ".join(self._shown.decode(errors="replace").split()), _MAX_SHOWN) or "nothing"

    def _fail_unexpected(self, url: str, expected: str, got: str | None = None) -> NoReturn:
        self._fail(f"{url}: expected {expected}, got {got or self._came()}: {_OTHER}")

    def _fail(self, text: str) -> NoReturn:
        text += _proxy_phrase(self.url)
        if not self.raises_when_away:
            exit_unreachable(text)
        # What an agent says while it catches up, or has too many who ask.
        raise (SourceNotReady if " answered 503 " in text or " answered 429 " in text else SourceAway)(text) from None


def _beginning_of(answer: HTTPError) -> bytes:
    """How an answer that is none begins; nothing where it is broken off."""
    try:
        return answer.read(2000)
    except (OSError, HTTPException):
        return b""


def _group_path(group: str) -> str | None:
    """None for an argument that is no text: it can be no group's name."""
    try:
        return "/api/v1/groups/" + quote(group, safe="")
    except UnicodeEncodeError:
        return None


def _proxy_phrase(url: str) -> str:
    """Who may have answered, or not, in the agent's place."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    if parts.scheme not in getproxies() or proxy_bypass(parts.hostname or ""):
        return ""
    return f"; a proxy was asked, as the variable {parts.scheme}_proxy says: no_proxy names hosts that have none"


def _asked_ms(time_ms: int | None) -> int | None:
    """A time as an agent takes it: one before there was Kafka is the beginning."""
    return 0 if time_ms is not None and time_ms < LEAST_MS else time_ms


def _query_string(**parameters: int | str | None) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _matches_shape(form: Any, shape: Mapping[str, type | UnionType]) -> bool:
    """Whether a JSON object has all fields of a shape, each of its type."""
    return isinstance(form, dict) and all(
        name in form and isinstance(form[name], kind) for name, kind in shape.items()
    )


def _are_numbers(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(it, int) for it in items)


def _is_group(form: Any) -> bool:
    """Whether it is a group's row, or all of one; newer agents say where it is stale or records were passed over."""
    if not _matches_shape(form, _GROUP_SHAPE):
        return False
    if "quarantined" in form and not _matches_shape(form["quarantined"], {"records": int}):
        return False
    return "stale" not in form or (
        _matches_shape(form["stale"], _STALE_SHAPE)
        and all(isinstance(it, str) for it in form["stale"]["transactional_ids"])
    )


def _is_list_of_shape(form: JsonObject, name: str, shape: Mapping[str, type | UnionType]) -> bool:
    rows = form.get(name)
    return isinstance(rows, list) and all(_matches_shape(row, shape) for row in rows)


PASSWORD_VARIABLE = "KSHADOW_AGENT_PASSWORD"
MAX_PASSWORD_BYTES = 4096


def _connect(url: str, options: Mapping[str, Any]) -> tuple[str, OpenerDirector, str | None]:
    """The agent's address without who asks, what opens it, and the header that says who asks, by the values of
    `AGENT_OPTIONS`. Raises `click.UsageError`."""
    parts = parse_agent_url(url).parts
    given = {name for name in AGENT_OPTIONS if options.get(name) is not None}
    tls = given & {"agent_ca", "agent_cert", "agent_key"}
    if parts.scheme == "http" and tls:
        raise click.UsageError(f"{_flag(min(tls))} goes with https://")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    bare = f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/")
    authorization = _authorization(parts, options)
    if authorization is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        warn("(http:// shows the password to whoever is on the way; https:// does not)")
    return bare, _opener(_ssl_context(options) if parts.scheme == "https" else None), authorization


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _authorization(parts: SplitResult, options: Mapping[str, Any]) -> str | None:
    """The header, if there is a user: of `--agent-user`, or of the address."""
    user = options.get("agent_user") or unquote(parts.username or "") or None
    path = options.get("agent_password_file")
    if user is None:
        if path is not None:
            raise click.UsageError("--agent-password-file goes with --agent-user")
        return None
    if ":" in user:
        raise click.UsageError("--agent-user: expected a name without colon")
    password = os.environ.get(PASSWORD_VARIABLE) if path is None else _password_of_file(path)
    if password is None:
        raise click.UsageError(
            f"--agent-user needs a password: {PASSWORD_VARIABLE}, or a file with --agent-password-file"
        )
    text = f"{user}:{password}".encode(errors="surrogateescape")
    return "Basic " + b64encode(text).decode("ascii")


def _password_of_file(path: str) -> str:
    """The file's first and only line."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_PASSWORD_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"--agent-password-file {path}: {error.strerror}") from None
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if not line or b"\n" in line or len(content) > MAX_PASSWORD_BYTES:
        raise click.UsageError(f"--agent-password-file {path}: expected one line")
    return line.decode(errors="surrogateescape")


def _ssl_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    ca, certificate, key = (options.get(name) for name in ("agent_ca", "agent_cert", "agent_key"))
    if ca is not None:
        # Those of the system are not meant, then: the file says whom to trust.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(ca)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--agent-ca {ca}: {_certificate_error(error)}") from None
    if key is not None and certificate is None:
        raise click.UsageError("--agent-key goes with --agent-cert")
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--agent-cert {certificate}: {_certificate_error(error)}") from None
    return context


def _no_password() -> str:
    raise ValueError("the key needs a password; give it without")


def _certificate_error(error: Exception) -> str:
    import ssl

    if isinstance(error, ssl.SSLError):
        return "no PEM, or the key of another certificate"
    return str(getattr(error, "strerror", None) or error)


def _opener(context: ssl.SSLContext | None) -> OpenerDirector:
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

    class NoRedirection(HTTPRedirectHandler):
        """An agent sends nobody elsewhere, and the password is not for others."""

        def redirect_request(
            self, req: Request, fp: Any, code: int, msg: str, headers: Message, newurl: str
        ) -> Request | None:
            return None

    return build_opener(NoRedirection, *([] if context is None else [HTTPSHandler(context=context)]))


def failure_reason(error: Exception, *, tls: bool) -> str:
    """Why a connection failed, and what may help."""
    import ssl

    reason = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        fix = "--agent-ca names the certificate of who signed it"
        if reason.verify_code == _EXPIRED:
            fix = "the certificate of its --web-config is to be renewed"
        return f"its certificate is not to be trusted: {reason.verify_message}; {fix}"
    if tls and isinstance(reason, ConnectionResetError | ConnectionAbortedError | BrokenPipeError | ssl.SSLError):
        # A server that wants a certificate and gets none closes, and need not say why.
        return f"{reason}; is it https:// there, and does it want a certificate of who asks (--agent-cert)?"
    return f"{reason}; kshadow run starts one, and --listen says where"
