"""Pictures of a group's past, as SVG that stands in a page by itself.

Owns two drawings: a group's swim lanes, and causes over time. Read `lanes.py` first: it is the picture as data, from
history events alone, with `member_slots.py` (who sat where) and `issues.py` (findings as spans of time).
`swimlanes.py` draws it with `strips.py` above the lanes and `legend.py` below, `swimlane_table.py` tells the same in
rows, `captions.py` has the words. `shapes.py` and `glyphs.py` are the pieces, `style.py` and `lanes.css` the colours.

Pure: no clock and no I/O. It must not know mirrors, pages or who asks. What strangers named goes through
`agent.presentation.markup`.
"""
