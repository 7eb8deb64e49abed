"""Snapshots: the state of one partition as bytes and back, and the stores that keep them.

Owns how a state is written, not what is written: each class declares that itself (`agent.core.state_fields`). Knows
nothing of when snapshots are taken and what becomes of one that is refused (`agent.runtime.checkpointer`).

    codec               values of declared types ↔ plain data that msgspec checks
    migrations          the version of the format, and how images of earlier versions are read
    analyzer_state      the analyzers that run; third_party_state: those that declare nothing
    image_codec         all of a partition as one image; read first
    envelope            whose image it is, of which layout, up to where; its checksum
    store               what keeps snapshots by name: directory_store, topic_store (over compacted_topic)
"""
