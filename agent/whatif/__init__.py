"""What a group's own history would have come to under other settings.

From a group's records to a script of what happened to its clients (`recorder`, `clients`, `recorded`), from that to
scripts under other settings (`changes`), and from plays of all of them through the protocol model to what each
would have saved (`comparing`). Knows no Kafka client, clock or I/O.
"""
