"""What people and programs read of groups: sentences, drawings, reports, and the shapes of JSON.

`narrative` makes sentences from history events alone (read `narrative/explain.py` first), `svg` draws a group's past
from the same events (`svg/lanes.py` is the picture as data, `svg/swimlanes.py` draws it), `report` makes one HTML
page about a range (`report/gather.py` asks, `report/document.py` writes), `schemas` has the JSON Schemas of all that
is printed and answered, `json_views` the JSON of groups. Strangers' texts become markup in `markup` and nowhere else.

Everything is pure: times and answers come in. It must not know brokers, files, HTTP, threads, clocks, the agent's
runtime or the what-if replay, whose results are handed to it as plain values.
"""
