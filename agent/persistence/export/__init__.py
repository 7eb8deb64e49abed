"""Where the history goes: the events of schema version 1 to a Kafka topic and to Parquet files, none lost.

Owns how events wait (in memory, then on disk) while a sink is down, in which order they go, and when they are safe.
Refuses to know how events come to be, and what is asked of them later.

    ExportPipeline.put → a SinkWorker for each sink: EventBuffer (memory, Spool behind it) → its thread → Sink.write

A sink is given a batch of `EncodedEvent`s and returns when they are durable; if it cannot take any now it raises
`SinkDown`, and is given the same batch again. So every event reaches every sink at least once,
in the order in which it was put, and only a full spool (or an event that a sink can never take) drops any.
"""
