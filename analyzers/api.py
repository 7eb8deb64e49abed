"""What an analyzer is written against, shipped ones and third parties' (entry point `kshadow.analyzers`).

The definitions stand in `agent.core.diagnosis.api`, so that the core imports no analyzer; this is their public name.
"""

from agent.core.diagnosis.api import (
    WINDOW_MS,
    Analyzer,
    ClusterAnalyzer,
    Condition,
    Finding,
    FindingState,
    GroupContext,
    LagLook,
    LoadWindow,
    PartitionLoad,
    Sample,
    Settings,
    Severity,
    TopicPartition,
    Verdict,
    setting,
)

# Their names until the API moved into the core: analyzers of third parties may import them.
Group, Judgement, Load, Slot, State, Window = (
    GroupContext,
    Verdict,
    PartitionLoad,
    TopicPartition,
    FindingState,
    LoadWindow,
)

__all__ = [
    "WINDOW_MS",
    "Analyzer",
    "ClusterAnalyzer",
    "Condition",
    "Finding",
    "FindingState",
    "Group",
    "GroupContext",
    "Judgement",
    "LagLook",
    "Load",
    "LoadWindow",
    "PartitionLoad",
    "Sample",
    "Settings",
    "Severity",
    "Slot",
    "State",
    "TopicPartition",
    "Verdict",
    "Window",
    "setting",
]
