"""Groups by the Admin API alone, for clusters that let nobody read `__consumer_offsets`.

Owns what can be known so: groups, members, assignment, committed offsets, lag. There is no history in it, no cause,
no count of rebalances, and no time of a commit.
"""
