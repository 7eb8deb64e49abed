"""One page about a time range: what happened to the groups, why, what it cost, what to change.

`gather` asks a source for what is worth telling, `document` makes HTML of it that needs nothing but itself. No clock:
what "now" is, and when the page is made, comes in.
"""
