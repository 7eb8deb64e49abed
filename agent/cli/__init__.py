"""The command line: what people type, and what they read of it on a terminal.

Owns the commands, their options, the formats of output and the full screen of `kshadow watch`. Computes
nothing: a command parses, calls one function of the layers below, and prints.

- `main.py`, first: the entry point; `commands/`, a file each, found by the package.
- `options.py`: options that several commands share. `session.py`: what one call knows, in click's `ctx.obj`.
- `config_file.py`, `run_settings.py`: the file of `--config`, and the settings of `kshadow run` from it, the
  environment and the command line; `contexts_file.py` and `context_defaults.py`: what `kshadow context` keeps,
  and gives to commands.
- `data_source.py` opens what is asked: `reading.py` (files, a broker's topic), `agent_client.py` (an agent over
  HTTP), `following.py` (an agent in this process, `--follow`); `answers.py` says what all of them answer.
- `output.py`, `tables.py`, `text.py`: printing, with everything that strangers wrote made harmless first.
"""
