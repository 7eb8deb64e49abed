"""The group protocol itself: where a group lives, which states it has, how it may move between them.

Knows groups and nothing of bytes or of the log. The full protocol machine will stand here.
"""
