"""What of another program's facts is worth storing as a memory."""

from __future__ import annotations

from datetime import datetime

from ....capture.turn_filter import is_synthetic, is_trivial_query
from ....domain.text import clean, strip_injected
from .source import SourceTally


def is_worth_keeping(content: object, created: datetime | None, tally: SourceTally, where: str) -> str | None:
    """Return the text of a fact, clean; None where there is nothing to keep, which is noted in `tally`."""
    text = strip_injected(clean(content)).strip()
    reason = ""
    if not text:
        reason = "empty"
    elif is_synthetic(text):
        reason = "synthetic"
    elif is_trivial_query(text):
        reason = "acknowledgement"
    elif created is None:
        reason = "without a time"
    if not reason:
        return text
    tally.skip(reason, where)
    return None
