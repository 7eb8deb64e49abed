"""The routes of the page: from an address to a document, or to the part of it that is asked for again.

Who asks with `live` in the query gets the page's main part alone, and nothing at all (304) if it shows what they
have: so an open page costs little while nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from agent.core.queries import JsonObject, Timeline
from agent.presentation.markup import Markup
from agent.presentation.narrative.gains import Gains
from agent.serving.page.findings_page import RECENT_MS, FindingsQuery, findings_page
from agent.serving.page.fleet import FleetCache
from agent.serving.page.frame import HEADERS, Page, document, etag, main_part
from agent.serving.page.group_page import GroupData, group_page
from agent.serving.page.home_page import FleetQuery, home_page, version_of
from agent.serving.page.markup import address, group_address, link, text
from agent.serving.page.replays import ReplayRequest, gains_soon
from agent.serving.page.static import HEADERS as STATIC_HEADERS
from agent.serving.page.static import static_files
from agent.serving.page.time_range import TimeRange, chosen_range
from agent.serving.queries import ServedQueries
from agent.serving.replays import Replays
from agent.serving.rollouts import costs_soon, rollouts_of
from agent.serving.web.content_negotiation import accepts_gzip
from agent.simulation.whatif.command_line import whatif_command

LIVE_PARAMETER = "live"
REFRESH_STEP_MS = 30_000
"""What is said of durations in sentences is made anew that often, even if nothing else changed."""
MAX_CLUSTERS = 200


class Pages:
    """The pages over one agent."""

    def __init__(self, agent: ServedQueries, wall_ms: Callable[[], int], replays: Replays) -> None:
        self._agent, self._wall_ms, self._replays = agent, wall_ms, replays
        self._fleets = FleetCache(agent, wall_ms)

    def home(self, request: Request) -> Response:
        """Answer `/`: the fleet, filtered and sorted as asked."""
        wanted = FleetQuery.of(request.query_params)
        queries = self._queries_or_refusal(wanted.cluster)
        if isinstance(queries, Page):
            return self._answer(request, queries)
        if not self._agent.has_caught_up:
            return self._answer(request, self._waiting(self._agent, wanted.cluster))
        fleet = self._fleets.current()
        if wanted.cluster is not None and self._clusters():
            fleet = fleet.of_cluster(wanted.cluster, queries.ready())
        version = version_of(fleet, wanted)
        if _client_has(request, version):
            return self._unchanged(version)
        return self._answer(request, home_page(fleet, wanted, self._clusters()))

    def findings(self, request: Request) -> Response:
        """What is open, and what was lately."""
        chosen = FindingsQuery.of(request.query_params)
        queries = self._queries_or_refusal(chosen.cluster)
        if isinstance(queries, Page):
            return self._answer(request, queries)
        now_ms = self._wall_ms()
        events = queries.findings(now_ms - RECENT_MS, None)
        version = _digest(events, now_ms // REFRESH_STEP_MS, chosen.severity, chosen.analyzer, queries.ready().reason)
        several = bool(self._clusters())
        return self._answer(request, findings_page(events, chosen, now_ms, queries.ready(), version, several=several))

    def group(self, request: Request) -> Response:
        """One group. Raises what `describe` and `timeline` raise where several clusters have it."""
        name = request.path_params["group"] or request.query_params.get("group", "")
        cluster = request.query_params.get("cluster")
        queries = self._queries_or_refusal(cluster)
        if isinstance(queries, Page):
            return self._answer(request, queries)
        now_ms = self._wall_ms()
        form, past = queries.describe(name), queries.timeline(name)
        if form is None and past is None:
            said = f"No group {text(name)} is known." if name else "No group has an empty name."
            # It may come, or come again.
            return self._answer(request, self._missing("No such group", said, cluster, version=_digest(said)))
        events, complete_since_ms = past = past or Timeline([])
        chosen = chosen_range(request.query_params, events, now_ms)
        kept = queries.findings(chosen.since_ms or 0, chosen.until_ms, name)
        open_now = queries.findings(None, None, name)
        shown = cluster if cluster is not None or form is None else form.get("cluster")
        recording = queries.recording(name)
        # As it was asked for: `2h` begins elsewhere each moment, and is the same.
        asked = [chosen.preset, *map(request.query_params.get, ("since", "until"))]
        gains: Gains | None = Gains()
        if recording is not None:
            command = whatif_command(name, {}, chosen.since_ms, chosen.until_ms)
            key = (shown, name, *asked)
            asked_for = ReplayRequest(key, recording, chosen.since_ms, chosen.until_ms, now_ms, command)
            gains = gains_soon(self._replays, asked_for)
        rollouts = [it for it in rollouts_of(queries, name, past, form, now_ms) if _is_within(it, chosen)]
        is_judged = bool(rollouts) and rollouts[-1]["verdict"] is not None
        costs = costs_soon(queries, rollouts[-1], self._replays) if is_judged else None
        known = GroupData(*(name, form, events, complete_since_ms, kept, open_now, recording, gains, rollouts, costs))
        last = events[-1]["event_id"] if events else None
        ready = queries.ready()
        generation = request.query_params.get("generation")
        version = _digest(
            *(form, len(events), last, kept, open_now, asked, gains, generation, rollouts, costs),
            *(now_ms // REFRESH_STEP_MS, ready.reason),
        )
        if _client_has(request, version):
            return self._unchanged(version)
        return self._answer(request, group_page(known, chosen, now_ms, ready, version, shown, generation))

    def ambiguous(self, request: Request, said: str) -> Response:
        """Several clusters have a group of that name: which?"""
        name = request.path_params["group"] or request.query_params.get("group", "")
        links = ", ".join(
            link(group_address(name, it), text(it)) for it in self._clusters() if self._has_group(it, name)
        )
        body = _plain("Which cluster?", f"{text(said, 500)}. {links}")
        return self._answer(request, Page("Which cluster?", body, self._wall_ms(), status=400))

    def nowhere(self, request: Request) -> Response:
        """An address at which there is nothing."""
        return self._answer(request, self._missing("Not found", "There is nothing at this address.", None))

    async def static(self, request: Request) -> Response:
        """A file. In the event loop: it is small and there."""
        found = static_files().get(request.path_params["name"])
        if found is None:
            return self.nowhere(request)
        zipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {**STATIC_HEADERS, "Content-Type": found.kind, **({"Content-Encoding": "gzip"} if zipped else {})}
        return Response(found.zipped if zipped else found.body, headers=headers)

    # How they are made.

    def _clusters(self) -> Sequence[str]:
        return self._agent.capabilities.clusters[:MAX_CLUSTERS]

    def _queries_of(self, cluster: str | None) -> ServedQueries | None:
        return self._agent if cluster is None else self._agent.of_cluster(cluster)

    def _has_group(self, cluster: str, name: str) -> bool:
        queries = self._queries_of(cluster)
        return queries is not None and queries.has_caught_up and queries.describe(name) is not None

    def _queries_or_refusal(self, cluster: str | None) -> ServedQueries | Page:
        """Who answers for a cluster, or what there is to say where nothing can be told."""
        queries = self._queries_of(cluster)
        if queries is None:
            return self._missing("No such cluster", f"This agent reads no cluster {text(cluster)}.", None)
        return queries if queries.has_caught_up else self._waiting(queries, cluster)

    def _waiting(self, queries: ServedQueries, cluster: str | None) -> Page:
        reason = queries.ready().reason
        said = f"{text(reason, 500)}. Groups are shown once the topic has been read to its end."
        body = _plain("Not ready yet", said)
        now_ms = self._wall_ms()
        return Page(
            "Not ready yet", body, now_ms, announcement=reason, version=_digest(reason), cluster=cluster, status=503
        )

    def _missing(self, title: str, said: str, cluster: str | None, *, version: str | None = None) -> Page:
        body = _plain(title, f"{said} {link(address('/', cluster=cluster), 'Show all groups')}")
        return Page(title, body, self._wall_ms(), version=version, status=404)

    def _unchanged(self, version: str) -> Response:
        return Response(status_code=304, headers={**HEADERS, "ETag": f'W/"{version}"'})

    def _answer(self, request: Request, page: Page) -> Response:
        if page.version is not None and page.status == 200 and _client_has(request, page.version):
            return self._unchanged(page.version)
        made = main_part(page) if LIVE_PARAMETER in request.query_params else document(page)
        tagged = {} if page.version is None else {"ETag": etag(page)}
        return HTMLResponse(made, status_code=page.status, headers={**HEADERS, **tagged})


def _plain(title: str, said: str) -> Markup:
    return Markup(
        f'<div class="lead plain"><h1 id="headline">{title}</h1><p class="under" id="under">{said}</p></div>'
    )


def _is_within(rollout: JsonObject, chosen: TimeRange) -> bool:
    """Whether any of it was in the range."""
    since_ms, until_ms = chosen.since_ms, chosen.until_ms
    ended_ms = max(rollout["ended_ms"], rollout["steady_ms"] or 0)
    return (since_ms is None or ended_ms >= since_ms) and (until_ms is None or rollout["began_ms"] <= until_ms)


def _client_has(request: Request, version: str) -> bool:
    return LIVE_PARAMETER in request.query_params and request.headers.get("if-none-match") == f'W/"{version}"'


def _digest(*parts: object) -> str:
    # Deterministic for what JSON has; strangers' text may hold what UTF-8 does not.
    said = msgspec.json.encode(repr(parts).encode("utf-8", "backslashreplace").decode())
    return blake2b(said, digest_size=8).hexdigest()
