"""The story of a group in words: from its history events, with the evidence that they carry.

Owns what is said and how. Pure: no clock and no I/O; what "now" is comes in. What strangers named (groups, clients)
stands in the texts as it is, only shortened: whoever prints them makes them fit for a terminal or a page.
"""
