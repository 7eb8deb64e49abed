"""What machines read, described: JSON Schemas (2020-12) of events, of the API's answers and of what `-o json` prints.

Owns the descriptions and nothing that makes what they describe. One table, `DEFS`, is behind the schemas and the
OpenAPI document (`agent.openapi`); as files they stand in `v1/NAME.json`, and so in every wheel.

Within a version there are only additions: more fields, more types of events, more words where a text is one of a list
that may grow (a cause, an analyzer). Nothing goes, changes its type, or begins to be null. So who reads passes over
what it does not know, and what is valid today stays valid. Anything else is another version, under another name.
"""

from agent.schemas.documents import DOCUMENTS, VERSION, Document, document

__all__ = ["DOCUMENTS", "VERSION", "Document", "document"]
