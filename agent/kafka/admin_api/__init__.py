"""The observer: asks the brokers, by the Admin API, what the topic does not tell, and whether the mirror is right.

Owns the questions, their pace and what is made of the answers. The agent is whole without it: nothing waits for it.
`child` is the process that asks, `asking` its other end, `answers` what both say. Read `observer` first.
"""
