"""Coverage-guided fuzzing of `agent.core.wire`: `python -m tests.harness.fuzz`."""
