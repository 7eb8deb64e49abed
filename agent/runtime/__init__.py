"""The agent at work: reading, keeping, exporting, watching and answering for as long as the process lives.

Owns threads, locks, the order of start and stop, and what ties the parts of an agent together. Must not know click,
HTTP routes or how anything is printed.

Read `agent.py` first (an agent's life), then `parts.py` (what it is made of), `reader_loop.py` (records to state),
`queries.py` and `scrape.py` (state to answers and metrics). `process.py` is `kshadow run`, `factory.py` makes an
agent of its settings, `supervisor.py` keeps agents of several clusters alive, `checkpointer.py` keeps state across
restarts, `offline.py` reads files once, `shutdown.py` ends in time.
"""
