"""Where the history goes: the events of schema version 1 to a Kafka topic and to Parquet files, none lost.

Owns how events wait (in memory, then on disk) while a sink is down, in which order they go, and when they are safe.
Refuses to know how events come to be, and what is asked of them later.

    Exports.put → one Outlet for each sink: Buffer (memory, Spool behind it) → its thread → Sink.write

A *line* is an event as it goes out. A sink is told a batch of lines and returns when they are durable; if it cannot
take any now it raises `SinkDown`, and is told the same batch again. So every event reaches every sink at least once,
in the order in which it was put, and only a full spool (or a line that a sink can never take) drops any.
"""
