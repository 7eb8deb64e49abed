"""The routes of the page: from an address to a document, or to the part of it that is asked for again.

Who asks with `live` in the query gets the page's main part alone, and nothing at all (304) if it shows what they
have: so an open page costs little while nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agent.page.findings import RECENT_MS, Chosen, findings_page
from agent.page.fleet import Event, Fleet, Fleets, Told
from agent.page.frame import HEADERS, Page, document, etag, main
from agent.page.group import Known, group_page, range_of, since
from agent.page.home import Wanted, home, version_of
from agent.page.markup import address, group_address, link, text
from agent.page.static import HEADERS as STATIC_HEADERS
from agent.page.static import static
from agent.story import findings as of_findings

LIVE = "live"
STEP_MS = 30_000
"""What is said of durations in sentences is made anew that often, even if nothing else changed."""
MOST_CLUSTERS = 200


class Pages:
    """The pages over one agent."""

    def __init__(self, agent: Told, wall_ms: Callable[[], int]) -> None:
        self._agent, self._wall_ms = agent, wall_ms
        self._fleets = Fleets(agent, wall_ms)

    def home(self, request: Request) -> Response:
        """The fleet."""
        wanted = Wanted.of(request.query_params)
        clusters = self._clusters()
        fleet: Fleet | None = None
        if self._agent.has_caught_up:
            fleet = self._fleets.newest()
        if wanted.cluster is not None:
            refusal = self._refusal(wanted.cluster)
            if refusal is not None:
                return self._answer(request, refusal)
            fleet = None if fleet is None else fleet.of(wanted.cluster)
        if fleet is None:
            return self._answer(request, self._waiting(self._agent, wanted.cluster))
        version = version_of(fleet, wanted)
        if _has(request, version):
            return self._unchanged(version)
        return self._answer(request, home(fleet, wanted, clusters))

    def findings(self, request: Request) -> Response:
        """What is open, and what was lately."""
        chosen = Chosen.of(request.query_params)
        refusal = self._refusal(chosen.cluster)
        if refusal is not None:
            return self._answer(request, refusal)
        whom = self._whom(chosen.cluster)
        assert whom is not None, "it would have been refused"
        now_ms = self._wall_ms()
        events = recent_and_open(whom, now_ms)
        version = _digest(events, now_ms // STEP_MS, chosen.severity, chosen.analyzer, whom.ready().reason)
        several = bool(self._clusters())
        return self._answer(request, findings_page(events, chosen, now_ms, whom.ready(), version, several=several))

    def group(self, request: Request) -> Response:
        """One group. Raises what `describe` and `timeline` raise where several clusters have it."""
        name = request.path_params["group"] or request.query_params.get("group", "")
        cluster = request.query_params.get("cluster")
        refusal = self._refusal(cluster)
        if refusal is not None:
            return self._answer(request, refusal)
        whom = self._whom(cluster)
        assert whom is not None, "it would have been refused"
        now_ms = self._wall_ms()
        form, told = whom.describe(name), whom.timeline(name)
        if form is None and told is None:
            return self._answer(request, self._missing("No such group", f"No group {text(name)} is known.", cluster))
        events, complete_since_ms = ([], None) if told is None else told
        chosen = range_of(request.query_params, events, now_ms)
        since_ms = since(chosen, now_ms)
        kept = of_findings.asked_for(whom.findings(since_ms or 0, None, name), since_ms or 0, None)
        known = Known(name, form, events, complete_since_ms, kept)
        last = events[-1]["event_id"] if events else None
        ready = whom.ready()
        version = _digest(form, len(events), last, kept, chosen, now_ms // STEP_MS, ready.reason)
        shown = cluster if cluster is not None or form is None else form.get("cluster")
        if _has(request, version):
            return self._unchanged(version)
        return self._answer(request, group_page(known, chosen, now_ms, ready, version, _text_or_none(shown)))

    def ambiguous(self, request: Request, said: str) -> Response:
        """Several clusters have a group of that name: which?"""
        name = request.path_params["group"] or request.query_params.get("group", "")
        links = ", ".join(
            link(group_address(name, it), text(it)) for it in self._clusters() if self._has_group(it, name)
        )
        body = _plain("Which cluster?", f"{text(said, 500)}. {links}")
        return self._answer(request, Page("Which cluster?", body, self._wall_ms(), status=400))

    async def static(self, request: Request) -> Response:
        """A file. In the event loop: it is small and there."""
        found = static().get(request.path_params["name"])
        if found is None:
            return self._answer(request, self._missing("Not found", "There is no such file.", None))
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {**STATIC_HEADERS, "Content-Type": found.kind, **({"Content-Encoding": "gzip"} if zipped else {})}
        return Response(found.zipped if zipped else found.body, headers=headers)

    # How they are made.

    def _clusters(self) -> list[str]:
        names: Callable[[], list[str]] = getattr(self._agent, "names", list)
        return names()[:MOST_CLUSTERS]

    def _whom(self, cluster: str | None) -> Told | None:
        if cluster is None:
            return self._agent
        of: Callable[[str], Told | None] = getattr(self._agent, "of", lambda _: None)
        return of(cluster)

    def _has_group(self, cluster: str, name: str) -> bool:
        whom = self._whom(cluster)
        return whom is not None and whom.has_caught_up and whom.describe(name) is not None

    def _refusal(self, cluster: str | None) -> Page | None:
        """What there is to say where nothing can be told."""
        whom = self._whom(cluster)
        if whom is None:
            return self._missing("No such cluster", f"No cluster {text(cluster)} is read here.", None)
        return None if whom.has_caught_up else self._waiting(whom, cluster)

    def _waiting(self, whom: Told, cluster: str | None) -> Page:
        reason = whom.ready().reason
        said = f"{text(reason, 500)}. Half an answer is none: groups are shown once the topic was read to its end."
        body = _plain("Not ready yet", said)
        now_ms = self._wall_ms()
        return Page("Not ready yet", body, now_ms, says=reason, version=_digest(reason), cluster=cluster, status=503)

    def _missing(self, title: str, said: str, cluster: str | None) -> Page:
        body = _plain(title, f"{said} {link(address('/', cluster=cluster), 'To the fleet')}")
        return Page(title, body, self._wall_ms(), status=404)

    def _unchanged(self, version: str) -> Response:
        return Response(status_code=304, headers={**HEADERS, "ETag": f'W/"{version}"'})

    def _answer(self, request: Request, page: Page) -> Response:
        if page.version is not None and page.status == 200 and _has(request, page.version):
            return self._unchanged(page.version)
        made = main(page) if LIVE in request.query_params else document(page)
        tagged = {} if page.version is None else {"ETag": etag(page)}
        return HTMLResponse(made, status_code=page.status, headers={**HEADERS, **tagged})


def recent_and_open(agent: Told, now_ms: int) -> list[Event]:
    """The newest event of each finding that was open within a day."""
    return agent.findings(now_ms - RECENT_MS, None)


def _plain(title: str, said: str) -> str:
    return f'<div class="lead plain"><h1 id="headline">{title}</h1><p class="under" id="under">{said}</p></div>'


def _has(request: Request, version: str) -> bool:
    return LIVE in request.query_params and request.headers.get("if-none-match") == f'W/"{version}"'


def _digest(*parts: object) -> str:
    # Deterministic for what JSON has; strangers' text may hold what UTF-8 does not.
    said = msgspec.json.encode(repr(parts).encode("utf-8", "backslashreplace").decode())
    return blake2b(said, digest_size=8).hexdigest()


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
