"""`kshadow watch`: the groups live, on a full screen or as plain lines.

Pure modules first: `fleet` (answers to rows), `group_state` (one group), `changes` (what is new),
`fleet_lines`, `group_lines` and `assignment_map` (rows to styled text of a given width). `poller` asks a source
in rounds, `poll_thread` does so again and again; `app`, `screens` and `widgets` are the full screen, `plain`
the lines. Only `styles`, `widgets`, `screens` and `app` know textual.
"""
