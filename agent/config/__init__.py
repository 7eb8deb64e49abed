"""What the agent can be told: settings as typed values, where each comes from, what can change while it runs.

Knows nothing of what the settings do: `agent.runtime.factory` takes them whole. Reads no file but those that
values refer to.

- `settings.py`, first: each field is one option of `kshadow run`, with all that is known of it. To add an
  option, add a field there, and use it where it takes effect.
- `options.py`: what an option is, and the types of values. `values.py`: sizes, addresses, shards as people
  write them.
- `value_source.py`, `resolving.py`, `contradictions.py`: given values, which of them wins, what they say
  against each other. `reload.py`: the same again while the agent runs.
- `command_config.py`, `java_properties.py`: files of Java's clients, as librdkafka's properties.
- `filters.py`: patterns of names. `secrets.py`: references to secrets, and how none is printed.
"""
