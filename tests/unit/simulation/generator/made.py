"""What members want, with the fields that a consumer's subscription has; images written with topic ids made up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from agent.core.protocol.assignors import Slot
from agent.core.wire.primitives import Uuid
from agent.simulation.generator import images
from agent.simulation.generator.topics import TopicIds
from agent.simulation.groups.kip848_messages import Kip848Image
from agent.simulation.groups.messages import ClassicGroupImage


@dataclass(frozen=True)
class Wants:
    topics: frozenset[str]
    owned: tuple[Slot, ...] = ()
    generation: int = -1
    rack: str | None = None


def topic_ids(seed: int = 0) -> TopicIds:
    """Ids that look drawn by chance (UUIDs of version 4, so never all zero): for the same name and seed the same."""

    @cache
    def topic_id(name: str) -> Uuid:
        drawn = bytearray(blake2b(f"{seed}\0{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest())
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return Uuid(bytes(drawn))

    return topic_id


TOPIC_ID = topic_ids()


def encode_image(image: ClassicGroupImage | Kip848Image, topic_id: TopicIds = TOPIC_ID) -> tuple[bytes, bytes | None]:
    return images.encode_image(image, topic_id)
