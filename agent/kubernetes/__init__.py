"""What Kubernetes' objects say of the members of consumer groups.

Owns what is read of objects (`objects`, `watched`), what is remembered of them over time (`history`, `records`),
which pod a member is in (`members`), and the rules that say why it went or came (`origin_rules`). Must not know
groups, records, brokers, metrics or HTTP: it is asked of a member and a time, and answers with an
`agent.core.inference.origins.Origin` or that it does not know. Nothing here connects to an API server yet.

Read `origin_rules.py` first: the table of rules. Then `history.py` and `members.py`; `evidence.py` is for others.
"""
