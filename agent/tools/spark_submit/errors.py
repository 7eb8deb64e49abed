"""What keeps a job from being submitted: wrong usage, or something that is not installed here."""

from __future__ import annotations


class SubmitError(Exception):
    """The message says what was expected, what came, and what to do. Exit code 2."""
