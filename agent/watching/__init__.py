"""`kshadow watch`: the groups live, on a full screen or as plain lines.

Pure rooms first: `model` (answers to rows), `group` (one group), `changes` (what is new), `fleet_lines` and
`group_lines` (rows to styled text of a given width). `asking` and `feed` ask a source again and again; `app` and
`widgets` are the full screen, `plain` the lines. Only `look`, `widgets` and `app` know textual.
"""
