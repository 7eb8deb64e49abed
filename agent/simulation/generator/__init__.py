"""Synthetic histories: what the model of the protocol does, as the records that a broker would have written.

`histories.generate(GeneratorSettings(…))` gives a cluster's records, the same ones for the same settings and seed.
Owns the plans of groups (`plans`), what becomes of them (`scenario_kinds`), when they commit (`commit_schedule`) and
how the model's images become records (`images`, `kip848_images`).

Must not know: where records are written, and what time it is.

Read first: `scenario_kinds.py`, then `group_history.py`.
"""
