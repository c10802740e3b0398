"""Memories and turns on their way between databases, files and other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from ...domain.types import MEMORY_FILES
from .said_structure import NOTHING_SAID, Said

TARGETS: Final = tuple(MEMORY_FILES)
_FIRST_YEAR, _LAST_YEAR = 2, 9998


class Part(NamedTuple):
    """The vector of a part of a long text that begins at character `first_char`."""

    first_char: int
    vector: Sequence[float]


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A durable memory. `target` is memory or user; the times have a zone.

    `embedding` is the vector of the text, of a long text that of its beginning; `parts` are those of the rest.
    `owners` keep it besides the hosts' memory files. `said`: what it says of itself besides its text.
    `where` tells a person where the record stood, as "line 12": it is not stored.
    """

    theme: str
    target: str
    content: str
    created_at: datetime
    updated_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedding: Sequence[float] | None = None
    parts: tuple[Part, ...] = ()
    where: str = ""
    owners: tuple[str, ...] = ()
    said: Said = NOTHING_SAID


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What one side said. `role` is user, assistant, system or tool; `ts` has a zone; the rest as in MemoryRecord."""

    theme: str
    session_id: str
    role: str
    content: str
    ts: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedding: Sequence[float] | None = None
    parts: tuple[Part, ...] = ()
    where: str = ""


Record = MemoryRecord | TurnRecord


def time_flaw(time: datetime) -> str:
    """Return why a time cannot be stored and read again, whatever the zone of who reads it; "" when it can."""
    if time.tzinfo is None:
        return "its time has no zone"
    return "" if _FIRST_YEAR <= time.year <= _LAST_YEAR else "its time is none of the years 2 to 9998"
