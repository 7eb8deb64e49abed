"""What the mirror and the analyzers saw, as the events of schema version 1; what is counted and remembered of them.

Read `events.py` first: it lists a class for each type of event; those of a group's changes stand beside the changes,
in `core.shadow.transitions`. `samples` makes the events of a live agent's samples, `recent` keeps the newest of each
group, `counts` counts for metrics. Knows no sink, file or thread.
"""
