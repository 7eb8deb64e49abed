"""What stands where there is no data: why there may be none."""

from __future__ import annotations

from typing import Final

NO_GROUPS: Final = (
    "No groups: no agent is scraped, or none has read the topic to its end yet (see the agents' dashboard)"
)
NO_REBALANCES: Final = "No rebalance told within this range"
NO_DEPARTURES: Final = "Nobody left within this range"
NO_ORIGINS: Final = "Nobody left within this range, or agents run without --kubernetes"
NO_LAG: Final = "Lag is not known: agents run with --no-lag or --granularity group, or may not read the topics"
NO_PARTITIONS: Final = "Agents tell of partitions with --granularity partition only"
NO_LOAD: Final = "Not known: nothing was consumed, or members hold no partitions"
NO_FINDINGS: Final = "No analyzer has found anything"
NO_COMMITS: Final = "The group has no committed offsets"
NO_AGENT: Final = "No agent is scraped"
NO_ADMIN: Final = "Not asked: agents run with --no-admin"
NO_HISTORY: Final = "No history is written: see --history-topic and --history-parquet"
NO_SNAPSHOTS: Final = "No snapshots are kept: see --state-dir"
NO_FILE: Final = "No configuration file"
NO_SHARES: Final = "Only agents with --share-group take partitions over from each other"
NO_TRANSACTION: Final = "No transaction is open in the topic"
