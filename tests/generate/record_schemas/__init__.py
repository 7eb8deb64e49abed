"""Our record classes beside Kafka's own, and bytes that Kafka's classes write.

    python -m tests.generate.record_schemas compare [VERSION]    prints what ours lack; exit code 1 if they do
    python -m tests.generate.record_schemas record               writes what the plain tests read

For each new Kafka: compare, add what is missing to `agent/core/wire`, record.
"""
