"""The rules that brokers and clients share: states of groups, the hash that places a group, what assignors answer.

Knows groups and nothing of bytes, records or time. Read `states.py` first. Tests hold `assignors` to Kafka's own
classes.
"""
