"""The command line: what people type, and what they read of it on a terminal.

Owns commands, options, formats of output and the full screen of `kshadow watch`. Computes nothing: a command
parses, calls one function of the layers below, and prints. Read `main.py` first, then `commands/groups.py` as an
example, `query.py` (the frame of such commands), `data_source.py` (what is asked) and `run_settings.py`.
"""
