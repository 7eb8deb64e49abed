"""Deterministic simulation testing of a whole agent: every thread, clock, disk, broker and sink of it, by one seed.

The agent's own code runs unchanged. Each of its threads is a greenlet, and `scheduler` alone decides which goes on
where one waits: for a lock, a condition, time, a disk, a sink, a broker. Time is virtual, so an hour takes a fraction
of a second. `faults` are drawn from the seed; `truth` compares what the agent told, kept and answered with one replay
of the whole log. A seed that fails is played again to the byte, and shrunk.

Owns the simulated world. Must not change the agent: what is replaced (`world.patched`) are Python's clocks and
threads, librdkafka's clients, the calls that reach a disk, and the sinks.

Read first: `scheduler.py`, then `world.py` (one run), then `truth.py`. Not to be confused with `agent.simulation`,
which models Kafka's group protocol, and writes the logs that are read here.
"""
