"""What an agent says where a question has no one answer."""

from __future__ import annotations


class Ambiguous(Exception):
    """Several clusters have what is asked for, and none was named. The message says which. Answered 400."""
