"""Everything pure, from the bytes of `__consumer_offsets` to findings and events.

    records       RawRecord and RecordBatch: what a source hands over
    wire          bytes to typed records and back
    protocol      group states, Java's hash, assignors
    shadow        the mirror: records to groups and transitions
    inference     why a rebalance happened
    brokerlog     a broker's own log as evidence of that
    diagnosis     runs analyzers over the mirror; the API that analyzers are written against
    events        transitions and findings as the events of the history
    read_limits   where the reading of a log ends

Knows no Kafka client, socket, clock, thread, logger or random number: time and evidence are arguments. Read
`records.py` first, then `shadow/mirror.py`.
"""
