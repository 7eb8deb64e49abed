"""Pictures of a group's past: swim lanes and sparklines, as SVG that stands in a page by itself.

`lanes` is the picture as data, from history events alone; `svg` draws it, `table` tells the same in rows, `style` has
the colours. Pure: no clock and no I/O. What strangers named goes through `markup`.
"""
