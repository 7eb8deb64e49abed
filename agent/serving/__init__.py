"""What a running agent answers over HTTP: metrics, health, the read-only API, and the page for people.

Read `routes.py` first: every address, and who answers it. `server.py` runs the web server in a thread; `web` decides
who may ask and how much at a time; `metrics` makes `/metrics` (a group's metric is one entry of
`metrics/group_metrics.py`), `scrapes.py` hands it out; `page` makes the HTML; `openapi.py` describes the API.

It asks whatever answers `agent.core.queries.GroupQueries`, and must not know the runtime, Kafka clients, or how
answers are computed.
"""
