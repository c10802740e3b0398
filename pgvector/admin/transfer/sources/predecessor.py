"""The tables of the other hermes-memory-pgvector, releases 0.3 to 1.0 of the package index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, ClassVar

from ....domain.errors import ConfigurationError
from ...common.upgrade_progress import NAMELESS
from ..foreign_database import ForeignDatabase, SourceTables
from ..records import MemoryRecord, Record, TurnRecord
from .exchanges import SAID_BEFORE, ConversationFilter, Utterance
from .source import ImportTarget, SourceTally, memory_of

_MEMORY = ("id", "agent_identity", "target", "content", "created_at", "updated_at", "metadata")
_TURN = ("id", "session_id", "agent_identity", "role", "content", "ts", "metadata")
_CHAT_KEY = re.compile(r"agent:[^:]+:([^:]+):")
# The source of copies of MEMORY.md and USER.md, of which that program keeps one in every theme.
_COPIED = "bulk_import"


@dataclass(frozen=True)
class PredecessorTables(SourceTables):
    """The two tables of the other program in one schema."""

    EXPECTED: ClassVar = "the tables of hermes-memory-pgvector 0.3 to 1.0"
    DEMANDED: ClassVar = {"memory_entries": _MEMORY, "conversations": _TURN}

    _known_themes: dict[tuple[str, str], ImportTarget | str] = field(default_factory=dict)

    @contextmanager
    def opened(self) -> Iterator[ForeignDatabase]:
        """Yield the database. Raises ConfigurationError also if the tables are our own."""
        with super().opened() as database:
            if database.is_ours():
                raise ConfigurationError(
                    "the tables there are of this program itself, not of the other hermes-memory-pgvector: "
                    "hermes-pgvector copy and hermes-pgvector export move them"
                )
            yield database

    def records(self, tally: SourceTally) -> Iterator[Record]:
        """Yield memories, then turns by theme and session. Vectors are dropped: nothing says which model made them."""
        with self.opened() as database:
            for row in database.rows("predecessor_memories"):
                tally.read += 1
                yield from self._memory(row, tally)
            # That program judges each side of a turn by its own length, so one side may be missing.
            turn_filter = ConversationFilter(self.destination.min_chars, tally, halves=True)
            # Its first releases did not store the parents of sessions.
            parents = "" if "parent_session_id" in database.columns("conversations") else "_without_parents"
            turns = database.rows(f"predecessor_turns{parents}")
            for _, rows in groupby(turns, lambda row: (row.agent_identity, row.session_id)):
                yield from self._session(list(rows), turn_filter, tally)

    def _memory(self, row: Any, tally: SourceTally) -> Iterator[MemoryRecord]:
        where = f"memory_entries {row.id}"
        known = row.metadata if isinstance(row.metadata, dict) else {}
        target = self._import_target(row.agent_identity, known)
        metadata: dict[str, Any] = {"source": "import:predecessor", "profile": self.profile}
        if known.get("source") != _COPIED:
            metadata["session_id"] = known.get("session_id")
        elif not isinstance(target, str):
            target = target._replace(memories=target.files)
        for record in memory_of(
            row.content, row.created_at, row.updated_at, target, metadata, tally, where, kind=row.target
        ):
            # All its memories came from the host's files.
            yield replace(record, in_file=not self.destination.theme)

    def _session(self, rows: list[Any], turn_filter: ConversationFilter, tally: SourceTally) -> Iterator[TurnRecord]:
        tally.read += len(rows)
        first = rows[0]
        target = self._import_target(first.agent_identity, first.metadata if isinstance(first.metadata, dict) else {})
        if isinstance(target, str):
            tally.skip(target, f"session {first.session_id}", len(rows))
            return
        metadata = target.session.provenance(first.session_id, first.parent_session_id or "")
        metadata |= {"source": "import:predecessor"}
        yield from _delegations(rows, target, metadata, tally)
        for said in turn_filter.worth_storing(_spoken(rows, tally), set()):
            yield TurnRecord(target.turns, first.session_id, said.role, said.text, said.at, metadata, where=said.where)

    def _import_target(self, theme: str, known: Mapping[str, Any]) -> ImportTarget | str:
        """Return where rows of one of its themes go. Row metadata may hold the session key the theme was made from."""
        raw = known.get("raw_identity")
        key = raw if isinstance(raw, str) else ""
        if (theme, key) not in self._known_themes:
            chat = _CHAT_KEY.match(key)
            words = {"agent_identity": self.profile, "agent_workspace": NAMELESS}
            if chat is not None:
                words |= {"platform": chat[1], "gateway_session_key": key}
            elif theme != NAMELESS:
                # Rows have no platform. Any other theme was named by a header, or is the name of a profile.
                words |= {"platform": "api_server", "gateway_session_key": theme}
            self._known_themes[theme, key] = self.destination.of_session(words, "")
        return self._known_themes[theme, key]


def _is_delegation(row: Any) -> bool:
    return isinstance(row.metadata, dict) and row.metadata.get("kind") == "delegation"


def _delegations(
    rows: list[Any], target: ImportTarget, metadata: Mapping[str, Any], tally: SourceTally
) -> Iterator[TurnRecord]:
    """Yield the tasks and results of sub-agents, each once."""
    seen: set[str] = set()
    for row in filter(_is_delegation, rows):
        where = f"conversations {row.id}"
        if row.content in seen:
            tally.skip(SAID_BEFORE, where)
            continue
        seen.add(row.content)
        child = row.metadata.get("child_session_id")
        links = {"child_session_id": child, "delegation": {"parent": row.session_id, "child": child}}
        kept = {**metadata, **(links if child else {"delegation": {"parent": row.session_id}})}
        yield TurnRecord(target.turns, row.session_id, "tool", row.content, row.ts, kept, where=where)


def _spoken(rows: list[Any], tally: SourceTally) -> list[Utterance]:
    """Return what the user and the agent said to each other."""
    spoken = []
    for row in rows:
        where = f"conversations {row.id}"
        if _is_delegation(row):
            continue
        if row.role in ("user", "assistant"):
            spoken.append(Utterance(row.role, row.content, row.ts, where))
        else:
            tally.skip("tool output" if row.role == "tool" else "system text", where)
    return spoken
