"""The model: coordinators and clients of classic, KIP-848 and Connect groups, exchanging messages in virtual time.

Owns: the messages (`messages`, `kip848_messages`); the coordinators (`classic_coordinator` answers requests for the
states and timers of `classic_group`; `kip848_coordinator`), which find members in a `roster`; the clients (a
`group_client` polls and stalls; `classic_client` with `classic_consumer` and `connect_worker`; `kip848_client`);
`protocol_models`, which pairs a coordinator with its clients; `simulation`, which delivers the messages; `simulate`,
which measures a play.

Must not know: where scripts come from, how images become records, who reads the results.

Read first: `script.py`, then `simulation.py`, then `classic_group.py`.
"""
