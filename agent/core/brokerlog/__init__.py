"""What a broker's own log says of its groups: lines to events (`lines`), events to rebalances (`rebalances`).

Owns the forms of the coordinator's lines from Kafka 2.3 to 4.x, and what follows from them: an
`agent.core.inference.external_evidence.EvidenceSource` for the mirror.

Must not know files, rotation or clocks: text comes in, by whoever reads it (`agent.kafka.source.brokerlog`).

Read `rebalances.BrokerLog` first. A new form of a line is a row of `lines._LINE_TEMPLATES`.
"""
