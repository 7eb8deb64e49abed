"""What turns group transitions into findings: one file an analyzer, each with its rule, thresholds and false alarms.

An analyzer says whether its condition holds now; opening and closing findings is `agent.core.diagnosis`'s work. It
must not know clocks, the mirror's insides or other analyzers. To add one: a file here with a subclass of
`api.Analyzer` (or `api.ClusterAnalyzer`); `registry` finds it, and `kshadow analyzers`, its options and
docs/reference follow.

Shared: `windows` (event-time windows, who is who across restarts), `lost_members` (timeouts), `balance` (shares),
`storms` (patterns and the normal rate), `formatting` (names and counts in texts). Read `session_timeout` first.
"""
