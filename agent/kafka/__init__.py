"""All that talks to brokers, or reads and writes what they write.

Owns clients, their settings and errors: `source` (the topic, segment files, NDJSON and brokers' logs, read), `writer`
(records written), `admin_api` (what the Admin API tells beside the topic), `lag` (where partitions end, and what that
makes of a commit). Must not know what is made of records and answers: no state, no persistence, no JSON of the
contract, no HTTP.

Read `source/topic.py` first, then `admin_api/observer.py` and `lag/watch.py`.
"""
