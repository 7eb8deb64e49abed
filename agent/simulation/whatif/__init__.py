"""What a group's own history would have come to under other settings.

Owns the way from records to recommendations: `recorder` (the mirror's view of a group at each record), `clients`
(which client is behind a member id), `script_builder` and `recorded_script` (what the clients did, as a script),
`calibrated_replay` (guesses what the log leaves open until a play reproduces it), `changes` (the table of settings),
`comparison` (what each alternative saves), `recommendations` and `sentences` (how that is told).

Must not know: Kafka clients, clocks, I/O, the command line. How long to search is asked of the caller.

Read first: `changes.py`, then `recorded_script.py`.
"""
