"""The story of a group in words: from its history events, with the evidence that they carry.

Owns what is said and how. Read `explain.py` first: it puts the parts together, all of which read one `context.py`.
`events.py` reads events, `timeline.py` folds them into lines, `totals.py` adds them up, `patterns.py` finds what
several rebalances have in common. `summary.py`, `paragraphs.py`, `evidence.py`, `confidence.py`, `advice.py`,
`limitations.py` and `gains.py` say a part of the story each; `words.py` has numbers, times and names as people say
them, `phrases.py` the words of the domain, `findings.py` which findings were open when.

Pure: no clock and no I/O; what "now" is comes in. It must not know mirrors, records or replays. What strangers named
(groups, clients) stands in the texts as it is, only shortened: whoever prints them makes them fit for a terminal or a
page.
"""
