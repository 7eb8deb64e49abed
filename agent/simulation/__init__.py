"""Group protocols over virtual time, and what is built on them. The same input gives the same result, always.

Owns: `groups`, the model of brokers and clients; `whatif`, a group's recorded history played under other settings;
`generator`, synthetic histories as real records.

Must not know: Kafka clients, sockets, clocks, threads, files. Time is an argument, in milliseconds.

Read first: `groups/script.py`, the input of a simulation, then `groups/simulate.py`, its result.
"""
