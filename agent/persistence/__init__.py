"""What outlives a process: the agent's state, and the history on its way to where it is kept.

    cluster_state   all that is known of the groups, by partition of the topic; read first
    snapshot        that state as bytes and back, and the stores of such bytes (a directory, a compacted topic)
    export          events to a topic and to Parquet files, none lost: buffer, spool, sinks, positions

Must not know when snapshots are taken or events are made (`agent.runtime`), nor who reads them.
"""
