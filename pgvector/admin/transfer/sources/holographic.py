"""The fact store of hermes-agent's bundled provider `holographic`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ..records import MemoryRecord
from .source import SourceTally, at_iso, memory_of
from .sqlite_file import ProfileTables

_COLUMNS = ("fact_id", "content", "category", "tags", "trust_score", "created_at", "updated_at")
_OF_THE_USER = "user_pref"  # the category of the user's preferences


class FactStore(ProfileTables):
    """The facts of one profile."""

    NAME = "memory_store.db"
    EXPECTED = "the fact store of the provider holographic (memory_store.db, as of hermes-agent 0.19.0)"
    DEMANDED: ClassVar = {"facts": ("fact_id", "content", "created_at")}

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield a memory for each fact, with category, tags and trust; derived entities and vectors are left out."""
        target = self.destination.of_memory({"agent_identity": self.home.profile})
        with self.opened() as file:
            for row in file.paged("facts", _COLUMNS):
                tally.read += 1
                where = f"fact {row['fact_id']}"
                created, updated = at_iso(row["created_at"]), at_iso(row["updated_at"])
                metadata = {
                    "source": "import:holographic",
                    "profile": self.home.profile,
                    "category": row["category"],
                    "tags": row["tags"],
                    "trust": row["trust_score"],
                }
                kind = "user" if row["category"] == _OF_THE_USER else "memory"
                yield from memory_of(row["content"], created, updated, target, metadata, tally, where, kind=kind)
