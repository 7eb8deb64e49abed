"""What every layer may use: logging, the clock, times and durations as people write them, strangers' text made safe.

Imports nothing of the project. `logs` is the only place that configures logging, `clock` the only wall clock.
"""
