"""The `kshadow` command. A command parses, calls one function, prints; heavy imports stay inside."""
