"""The facts of hermes-memory, the MCP server of that name, which keeps them in a SQLite file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ....domain.facts import NAME_MOST_CHARS, Structure
from ....domain.text import clean, digest
from ..records import MemoryRecord, ReplacedMemory, Said
from .source import SourceTally, at_epoch, memory_of
from .sqlite_file import ProfileTables, SqliteFile

_DEMANDED = ("id", "content", "type", "target", "status", "created_at")
_COLUMNS = (*_DEMANDED, "scope_id", "superseded_by", "updated_at")
# For each type of fact: its mark in the notation, and our kind.
_TYPES = {
    "C": ("C", "constraint"),
    "D": ("D", "decision"),
    "V": ("V", "value"),
    "?": ("?", "question"),
    "done": ("✓", "fact"),
    "obs": ("~", "fact"),
}
_STATES = {"active": "active", "cold": "closed", "superseded": "superseded", "archived": "archived"}
# Current facts come first, because only the first of several facts with the same text is stored.
_ORDER = "CASE status WHEN 'active' THEN 0 WHEN 'cold' THEN 1 WHEN 'superseded' THEN 2 ELSE 3 END, created_at, rowid"


class FactNotes(ProfileTables):
    """The facts of one profile, in the notation in which they were written."""

    NAME = "memory.db"
    EXPECTED = "the facts of hermes-memory (memory.db, as of 0.3)"
    DEMANDED: ClassVar = {"facts": _DEMANDED}

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield a memory for each fact, with its kind, subject, scope and state, dated by when it was created."""
        target = self.destination.of_memory({"agent_identity": self.home.profile})
        seen: set[str] = set()
        with self.opened() as file:
            scopes = _scopes(file)
            rows = file.rows("facts", _COLUMNS, order=_ORDER)
            replaced = {row["superseded_by"]: row for row in rows if row["superseded_by"] and not _strange(row)}
            for row in rows:
                tally.read += 1
                where = f"fact {row['id']}"
                if flaw := _flaw(row, seen):
                    tally.skip(flaw, where)
                    continue
                metadata = {
                    "source": "import:hermes-memory",
                    "profile": self.home.profile,
                    "fact": row["id"],
                    "superseded_by": row["superseded_by"],
                }
                created = at_epoch(row["created_at"])
                # A later change of state does not make a fact newer.
                updated = at_epoch(row["updated_at"]) if row["status"] == "active" else created
                for record in memory_of(_text(row), created, updated, target, metadata, tally, where):
                    yield dataclasses.replace(record, said=Said(_said(row, scopes), _memory(replaced.get(row["id"]))))


def _flaw(row: Mapping[str, Any], seen: set[str]) -> str:
    """Return why a fact is left out; otherwise add its text to `seen` and return ""."""
    if _strange(row):
        return "of a type or status that is not known"
    if not str(row["content"] or "").strip():
        return "empty"
    text = _text(row)
    if text in seen:
        return "says the same as another fact"
    seen.add(text)
    return ""


def _strange(row: Mapping[str, Any]) -> bool:
    return row["type"] not in _TYPES or row["status"] not in _STATES


def _memory(row: Mapping[str, Any] | None) -> ReplacedMemory | None:
    return None if row is None else ReplacedMemory("memory", digest(clean(_text(row)).strip()))


def _text(row: Mapping[str, Any]) -> str:
    return f"{_TYPES[row['type']][0]}[{row['target']}]: {row['content']}"


def _scopes(file: SqliteFile) -> dict[object, str]:
    """Return the names of scopes by their ids."""
    if not file.columns("scopes"):
        return {}
    return {row["id"]: str(row["label"]) for row in file.rows("scopes", ["id", "label"])}


def _said(row: Mapping[str, Any], scopes: Mapping[object, str]) -> Structure:
    state = _STATES[row["status"]]
    closes = row["type"] == "done" and state == "active"
    return Structure(
        kind=_TYPES[row["type"]][1],
        subject=_name(row["target"]),
        scope=_name(scopes.get(row["scope_id"])),
        state="closed" if closes else state,
    )


def _name(text: object) -> str | None:
    return " ".join(clean(text).split())[:NAME_MOST_CHARS] or None
