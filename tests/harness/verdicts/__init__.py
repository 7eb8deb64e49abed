"""Verdicts on five kinds of rollout: by the simulation (`stories`), and on a live broker with real clients."""
