"""One HTML page about a time range: what happened to the groups, why, what it cost, what to change.

Read `gather.py` first: it asks a source (`agent.core.queries.GroupQueries`) for what is worth telling, as the values
of `fleet_report.py`. `document.py` makes the page of them, which needs nothing but itself: `fleet_section.py` and
`group_section.py` are its parts, `elements.py` its pieces, `report.css` its style.

No clock: what "now" is, and when the page is made, comes in. It must not know files, brokers or the what-if replay,
whose results are handed to it.
"""
