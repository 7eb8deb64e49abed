"""What turns group transitions into findings: one file an analyzer, found by `agent.diagnosis.registry`."""
