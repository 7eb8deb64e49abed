"""Log lines: text and JSON, hostile records, repeats, and what ends up in the log by itself."""
