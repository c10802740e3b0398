"""Texts as the host hands them over, of which a hook works on no more than is kept."""

from __future__ import annotations

from collections import Counter

from ..domain.text import ENDS_CHARS, clean, flatten_within
from .guard import warn_once


def taken(content: object, max_chars: int, counts: Counter[str]) -> str:
    """The words of a message, fit to be stored; of one longer than `max_chars` both ends. Counted as `texts_cut`."""
    kept, cut = flatten_within(content, max_chars)
    if cut:
        counts["texts_cut"] += 1
        warn_once(
            f"of a text of more than {max_chars:,} characters only the first and the last {ENDS_CHARS:,} are kept "
            "(setting turn_max_mb)"
        )
    return clean(kept)
