"""What every layer may use: logging, the clock, times as people write them, pauses between attempts, threads, files,
strangers' text made safe.

Imports nothing of the project. `logs` is the only place that configures logging, `clock` the only wall clock.
"""
