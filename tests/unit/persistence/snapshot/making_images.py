"""The image and the layout of this version of the format, to be kept for later versions:
`python -m tests.unit.persistence.snapshot.making_images` after `FORMAT` was raised."""

from __future__ import annotations

from pathlib import Path

from agent.core.records import LogId
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.image_codec import ImageCodec
from agent.persistence.snapshot.migrations import FORMAT
from tests.unit.cli.running import SEGMENTS
from tests.unit.persistence.snapshot.cutting import ALL
from tests.unit.serving.routes.replayed import of_path

DATA = Path(__file__).parents[3] / "data" / "snapshot"
LOG = LogId("cluster-1", "topic-1")
PARTITION = 14


def replayed() -> ClusterState:
    """The state of a recorded partition."""
    state = ClusterState(ALL, log=LOG)
    for batch in of_path(SEGMENTS / f"__consumer_offsets-{PARTITION}"):
        state.replay_batch(batch)
    return state


def main() -> None:
    DATA.mkdir(exist_ok=True)
    (DATA / f"format-{FORMAT}.layout").write_text(ImageCodec(ALL).layout() + "\n")
    (DATA / f"format-{FORMAT}.snapshot").write_bytes(replayed().capture(PARTITION).encode())


if __name__ == "__main__":
    main()
