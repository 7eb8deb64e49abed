"""`kshadow watch`: the groups live, on a full screen or as plain lines.

Owns what is shown and keeps it up to date. Only `styles`, `widgets`, `screens` and `app` know textual; all else is
pure but `poller` and `poll_thread`, which ask the source. Read `fleet.py` first (answers to rows), then `poller.py`
and `fleet_lines.py` (rows to styled text of a given width).
"""
