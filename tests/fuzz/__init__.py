"""Coverage-guided fuzzing of `agent.wire`: `python -m tests.fuzz`."""
