"""What the mirror and the analyzers saw, as the events of schema version 1; what is counted and remembered of them.

Read `events.py` first: a class for each type of event, with all that is to be said of its fields. `samples` makes the
events of a live agent's samples, `recent` keeps the newest of each group, `counts` counts for metrics. Knows no sink,
file or thread.
"""
