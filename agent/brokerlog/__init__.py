"""What a broker's own log says of its groups: lines to events, events to rebalances, and a witness for the mirror.

Pure: text comes in, by whoever reads it (`agent.source.logfile`).
"""
