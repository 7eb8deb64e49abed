"""What Kubernetes' objects say of the members of consumer groups: all that talks to the API server.

Owns what is read of objects (`objects`, `watched`), how they come here (`connection`, `kind_watch`, `watcher`) and
how that goes (`health`), what is remembered of them over time (`history`, `records`), which pod a member is in
(`members`), and the rules that say why it went or came (`origin_rules`). Must not know groups, records, brokers,
metrics or HTTP servers: it is asked of a member and a time, and answers with an
`agent.core.inference.origins.Origin` or that it does not know.

Read `origin_rules.py` first: the table of rules. Then `history.py` and `members.py`; `evidence.py` is for others.
`connection`, `kind_watch` and `watcher` need the extra `kubernetes`: nothing else imports them at its top.
"""
