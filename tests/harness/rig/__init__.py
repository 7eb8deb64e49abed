"""A scenario rig: real clients with real faults on a real broker, truth from the broker's own log, and a score.

    python -m tests.harness.rig [--kafka 4.4.0|3.9.2] [--seed N] [--seconds S] [--scenarios a,b] [--keep DIR]
    python -m tests.harness.rig.score DIR
    python -m tests.harness.rig.score --capture ../shared/captures/kafka-4.3.1

| module | owns |
|---|---|
| `client` | one librdkafka client, in a process of its own; commands on standard input |
| `fleet` | client processes: started, killed, frozen, told what to do |
| `ledger` | what the rig did and what clients said, as NDJSON, and questions to it |
| `settings` | random settings of a group: assignor, timeouts, how it commits |
| `stage` | one play: a group, its clients, its waiting |
| `run` | one run: broker, producer, plays drawn by weight |
| `plays` | the table of plays; they are in `faults`, `changes` and `modern` |
| `wire` | removal of members by an admin, which librdkafka lacks, as a request by hand |
| `brokerlog` | log lines of the group coordinator (3.x and 4.x) to events |
| `truth` | those events, and the ledger where they cannot say, to the truth about each rebalance |
| `evidence` | what the topic could show about a departure: commits of its partitions |
| `scoring`, `report`, `score` | predictions against the truth |
"""
