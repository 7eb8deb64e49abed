"""Snapshots: the state of one partition as bytes and back, and the stores that keep them.

`forms` says how one value is written, `states` and `watching` which values there are, `partition` and `cluster` what
an image holds, `container` whose image it is. These are pure. `directory` and `topic` are stores.
"""
