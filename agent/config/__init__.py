"""What the agent can be told: settings as typed values, where each comes from, what can change while it runs.

Must not know what the settings do: `agent.runtime.factory` takes them whole. Read `settings.py` first: each field is
one option of `kshadow run`, with all that is known of it; then `options.py` (what an option is) and `resolving.py`
(which of the given values wins).
"""
