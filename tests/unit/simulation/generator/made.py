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


@cache
def topic_id(name: str) -> Uuid:
    return Uuid(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def encode_image(image: ClassicGroupImage | Kip848Image, topic_id: TopicIds = topic_id) -> tuple[bytes, bytes | None]:
    return images.encode_image(image, topic_id)
