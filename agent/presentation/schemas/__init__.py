"""What machines read, described: JSON Schemas (2020-12) of events, of the API's answers and of what `-o json` prints.

Events' schemas are msgspec's, of the classes that have their fields. The others are written with `builders`: what
commands print is made as objects that no class describes, and classes for the schemas alone would be longer.

Owns the descriptions and nothing that makes what they describe. One table, `DEFS`, is behind the schemas and the
OpenAPI document (`agent.serving.openapi`); as files they stand in `v1/NAME.json`, and so in every wheel.

Within a version there are only additions: more fields, more types of events, more words where a text is one of a list
that may grow (a cause, an analyzer). Nothing goes, changes its type, or begins to be null. So who reads passes over
what it does not know, and what is valid today stays valid. Anything else is another version, under another name.
"""

from agent.presentation.schemas.documents import DOCUMENTS, VERSION, Document, document

__all__ = ["DOCUMENTS", "VERSION", "Document", "document"]
