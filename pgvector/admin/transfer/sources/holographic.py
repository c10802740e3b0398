"""The fact store of hermes-agent's bundled provider `holographic`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..records import MemoryRecord
from .facts import is_worth_keeping
from .homes import Home
from .source import ImportDestination, SourceTally, at_iso, filled
from .sqlite_file import read_only

EXPECTED = "the fact store of the provider holographic (memory_store.db, as of hermes-agent 0.19.0)"
NAME = "memory_store.db"
_COLUMNS = ("fact_id", "content", "category", "tags", "trust_score", "created_at", "updated_at")
_OF_THE_USER = "user_pref"  # its category for what the user likes


class FactStore:
    """The facts of one profile."""

    def __init__(self, home: Home, destination: ImportDestination, path: Path | None = None) -> None:
        self._home = home
        self._destination = destination
        self._path = path or home.path / NAME

    @property
    def where(self) -> str:
        """Return the file."""
        return str(self._path)

    def total(self) -> int:
        """Return how many facts there are."""
        with read_only(self._path, EXPECTED) as file:
            file.demand("facts", "fact_id", "content", "created_at")
            return file.count("facts")

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield a memory for each fact, with its category, tags and trust; entities and vectors are derived."""
        target = self._destination.of_memory({"agent_identity": self._home.profile})
        with read_only(self._path, EXPECTED) as file:
            file.demand("facts", "fact_id", "content", "created_at")
            for row in file.paged("facts", _COLUMNS):
                tally.read += 1
                where = f"fact {row['fact_id']}"
                created = at_iso(row["created_at"])
                text = is_worth_keeping(row["content"], created, tally, where)
                if text is None or created is None:
                    continue
                if isinstance(target, str):
                    tally.skip(target, where)
                    continue
                metadata = {
                    "source": "import:holographic",
                    "profile": self._home.profile,
                    "category": row["category"],
                    "tags": row["tags"],
                    "trust": row["trust_score"],
                }
                yield MemoryRecord(
                    target.memories,
                    "user" if row["category"] == _OF_THE_USER else "memory",
                    text,
                    created,
                    max(created, at_iso(row["updated_at"]) or created),
                    filled(metadata),
                    where=where,
                )
