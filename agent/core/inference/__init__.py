"""Why groups rebalanced and members left: causes with their confidence and evidence, inferred from the log.

Owns the inference: its numbers, the likelihood of a commit gap, the posterior over what came first, the rules that
read what the log shows plainly, what a rebalance cost, and how reports of others (a broker's log, the Admin API) take
the place of what was inferred. Pure functions of values.

Must not know how the mirror keeps groups (it hands in `facts.RebalanceFacts`), who reports, or where causes go. What
is said and shown of a cause stands in `agent.core.causes`.

Read `cause_inference` first; then `departure_likelihood` and `rebalance_posterior`, whose docstrings have the
formulas, and `parameters`. After each change here: `python -m tests.harness.rig`.
"""
