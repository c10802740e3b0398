"""What of another program's facts is worth storing as a memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from ....capture.turn_filter import is_synthetic, is_trivial_query
from ....domain.text import clean, strip_injected
from ..records import MemoryRecord
from .source import ImportTarget, SourceTally


def memory_of(
    content: object,
    created: datetime | None,
    updated: datetime | None,
    target: ImportTarget | str,
    metadata: Mapping[str, object],
    tally: SourceTally,
    where: str,
    *,
    kind: str = "memory",
) -> Iterator[MemoryRecord]:
    """Yield a fact as a memory, clean; nothing where it is not worth keeping or has no place, which `tally` notes."""
    text = strip_injected(clean(content)).strip()
    if reason := _flaw(text):
        tally.skip(reason, where)
    elif created is None:
        tally.skip("without a time", where)
    elif isinstance(target, str):
        tally.skip(target, where)
    else:
        kept = {key: value for key, value in metadata.items() if value not in (None, "", [], {})}
        yield MemoryRecord(target.memories, kind, text, created, max(created, updated or created), kept, where=where)


def _flaw(text: str) -> str:
    if not text:
        return "empty"
    if is_synthetic(text):
        return "synthetic"
    return "acknowledgement" if is_trivial_query(text) else ""
