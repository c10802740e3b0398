"""Writes imported records with their original times and vectors, and leaves rows that are stored already alone.

Every function works inside the caller's transaction. Where the tables are spread over machines by theme, all records of
a call are of one theme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from psycopg import Cursor
from psycopg.types.json import Jsonb

from ...domain.text import digest
from ...domain.theme import Languages
from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.memories import columns_of, lock_themes
from ...store.sql import query
from ..common.moved_themes import moved_themes
from .float_arrays import as_vector
from .kept_numbers import KeptNumbers, numbers_for
from .records import NOTHING_SAID, MemoryRecord, NotedEntry, Record, ReplacedMemory, SourceTurn, TurnRecord

_query = partial(query, package=__package__)
_TURN_COLUMNS = {"sessions": "session_id", "roles": "role", "times": "ts"}
_SAID_COLUMNS = ("kind", "subject", "scope", "state", "expires_at", "confidence", "applies_when", "pinned")
_Some = TypeVar("_Some", MemoryRecord, TurnRecord)


def column_lists(rows: Sequence[Any], **attributes: str) -> dict[str, list[Any]]:
    """Return the array parameters of a statement: for each name, the given attribute of every row."""
    return {name: [getattr(row, attribute) for row in rows] for name, attribute in attributes.items()}


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch: the records written, those stored already, and those that had been removed before."""

    added: Sequence[Record] = ()
    there: Sequence[Record] = ()
    removed: Sequence[Record] = ()


def noted_entries(conn: DeadlineConnection, origin: str, theme: str) -> dict[tuple[str, bytes], NotedEntry]:
    """Return what is known, by target and digest, of the entries in a host's files when they were last read."""
    asked = {"origin": origin, "theme": theme}
    rows = conn.execute(_query("noted_entries"), asked)
    return {(row.target, bytes(row.digest)): NotedEntry(row.noted_at, row.elsewhere) for row in rows}


def said_in_session(conn: DeadlineConnection, theme: str, session_id: str) -> set[tuple[str, str]]:
    """Return role and text of each turn of a session that a theme holds."""
    asked = {"theme": theme, "session_id": session_id}
    rows = conn.execute(_query("said_in_session"), asked)
    return {(row.role, row.content.strip()) for row in rows}


def begin(conn: DeadlineConnection) -> dict[str, tuple[str, ...]]:
    """Make other imports, and changes of themes, wait until the transaction ends; return the `moved_themes`."""
    conn.execute(_query("lock_arrivals"))
    return moved_themes(conn)


def bring_turns(
    conn: DeadlineConnection,
    records: Sequence[TurnRecord],
    languages: Languages,
    moved: Mapping[str, Sequence[str]],
    *,
    near_s: float,
    really: bool,
    kept: KeptNumbers | None = None,
) -> BatchResult:
    """Insert the turns that neither their theme nor those it was `moved` to hold; `near_s`: see missing_turns.

    `kept`: the numbers that they keep.
    """
    if not records:
        return BatchResult()
    missing = _missing(conn, records, moved, near_s)
    added = [records[number] for number in sorted(missing)]
    if added and really:
        ids = numbers_for(conn, "turns", [each.number for each in added], kept)
        row = {"ids": ids} | column_lists(added, **_TURN_COLUMNS)
        _asked(conn, "bring_turns", row | _columns(added, languages), added[0].theme)
        _bring_chunks(conn, "turns", list(zip(ids, added, strict=True)))
    return BatchResult(added, [each for number, each in enumerate(records) if number not in missing])


def bring_memories(
    conn: DeadlineConnection,
    records: Sequence[MemoryRecord],
    languages: Languages,
    moved: Mapping[str, Sequence[str]],
    *,
    restore: bool,
    really: bool,
    owner_of_there: str = "",
    kept: KeptNumbers | None = None,
) -> BatchResult:
    """Insert the memories that are not stored yet; with `restore` also those that were removed since they were written.

    `kept`: the numbers that they keep.

    Memories that a host's file was seen to hold here get `owner_of_there` as a further owner, besides the owners of the
    records, also if they were removed since. The others that are here were brought by an earlier run, and keep what
    that gave them.
    """
    if not records:
        return BatchResult()
    lock_themes(conn, (each.theme for each in records))
    added, removed = [], []
    there: list[tuple[int, MemoryRecord]] = []
    for each, known in zip(records, _known(conn, records, moved), strict=True):
        record = _with_owner(each, owner_of_there) if known.in_file else each
        if known.id is not None:
            there.append((known.id, record))
        elif restore or not _removed_since(known.removed_at, record):
            added.append(record)
        else:
            removed.append(record)
    if really:
        _insert_memories(conn, added, languages, kept)
        _confirm(conn, there)
    return BatchResult(added, [record for _, record in there], removed)


def _missing(
    conn: DeadlineConnection, records: Sequence[TurnRecord], moved: Mapping[str, Sequence[str]], near_s: float
) -> set[int]:
    """Return the places in `records` of the turns that are in none of their themes."""
    row = column_lists(records, **_TURN_COLUMNS) | {
        "digests": [digest(each.content) for each in records],
        "sources": [str(each.metadata.get("source", "")) for each in records],
        "near_s": near_s,
        "themes": [themes_of(each.theme, moved) for each in records],
    }
    found = [_asked(conn, "missing_turns", row, place) for place in _places(conn, records, moved)]
    return set.intersection(*({each.number - 1 for each in rows} for rows in found))


class _Known(NamedTuple):
    """What the themes of a memory know of it: its id, when it was removed, whether a memory file held it."""

    id: int | None
    removed_at: datetime | None
    in_file: bool


def _known(
    conn: DeadlineConnection, records: Sequence[MemoryRecord], moved: Mapping[str, Sequence[str]]
) -> list[_Known]:
    row = _names(records) | {"themes": [themes_of(each.theme, moved) for each in records]}
    found = [_asked(conn, "known_memories", row, place).fetchall() for place in _places(conn, records, moved)]
    return [_together(rows) for rows in zip(*found, strict=True)]


def _together(rows: Sequence[Any]) -> _Known:
    """Return as one what several themes know of a memory."""
    return _Known(
        next((row.id for row in rows if row.id is not None), None),
        max((row.removed_at for row in rows if row.removed_at is not None), default=None),
        any(row.in_file for row in rows),
    )


def _places(conn: DeadlineConnection, records: Sequence[Record], moved: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the themes to ask one by one where the tables are spread over machines, otherwise "" for all at once."""
    theme = records[0].theme
    return (theme, *moved.get(theme, ())) if conn.spread else ("",)


def _asked(conn: DeadlineConnection, name: str, row: dict[str, Any], theme: str) -> Cursor[Any]:
    """Execute a statement about records, which are all of one theme where the tables are spread over machines."""
    return conn.execute(_query(name, one_theme=conn.spread), row | {"theme": theme})


def themes_of(theme: str, moved: Mapping[str, Sequence[str]]) -> Jsonb:
    """Return the themes in which rows of a theme may be, as the statements take them."""
    return Jsonb([theme, *moved.get(theme, ())])


def _removed_since(removed_at: datetime | None, record: MemoryRecord) -> bool:
    return removed_at is not None and removed_at >= record.updated_at


def _with_owner(record: MemoryRecord, owner: str) -> MemoryRecord:
    return replace(record, owners=(*record.owners, owner)) if owner and owner not in record.owners else record


def _insert_memories(
    conn: DeadlineConnection, records: Sequence[MemoryRecord], languages: Languages, kept: KeptNumbers | None
) -> None:
    if not records:
        return
    ids = numbers_for(conn, "memories", [each.number for each in records], kept)
    row = column_lists(records, targets="target", created="created_at", updated="updated_at") | {
        "ids": ids,
        "owners": [",".join(each.owners) for each in records],
    }
    theme = records[0].theme
    _asked(conn, "bring_memories", row | _columns(records, languages) | _said(records), theme)
    _asked(conn, "lift_tombstones", _names(records), theme)
    _bring_chunks(conn, "memories", list(zip(ids, records, strict=True)))


def _confirm(conn: DeadlineConnection, there: Sequence[tuple[int, MemoryRecord]]) -> None:
    if there:
        records = [record for _, record in there]
        row = column_lists(records, themes="theme", created="created_at", updated="updated_at") | {
            "ids": [id for id, _ in there],
            "owners": [",".join(each.owners) for each in records],
            "metadata": [Jsonb(dict(each.metadata)) for each in records],
        }
        _confirm_structure(conn, [(id, record) for id, record in there if record.said != NOTHING_SAID])
        _asked(conn, "confirm_memories", row, records[0].theme)


def _confirm_structure(conn: DeadlineConnection, there: Sequence[tuple[int, MemoryRecord]]) -> None:
    if there:
        records = [record for _, record in there]
        row = column_lists(records, themes="theme", updated="updated_at") | {"ids": [id for id, _ in there]}
        _asked(conn, "confirm_structure", row | _said(records), records[0].theme)


def _said(records: Sequence[MemoryRecord]) -> dict[str, list[Any]]:
    rows = [columns_of(each.said.structure) for each in records]
    given = {"said_kind": [None if each.said.assumed else each.said.structure.kind for each in records]}
    return given | {name: [row[name] for row in rows] for name in _SAID_COLUMNS}


def link(conn: DeadlineConnection, records: Sequence[MemoryRecord]) -> tuple[int, int]:
    """Link memories to the memory they replaced and to their source turns, once all of these are stored.

    Return how many lack the replaced memory, and how many lack some of their turns.
    """
    _link_replaced(conn, [(each, each.said.replaced) for each in records if each.said.replaced is not None])
    _link_sources(conn, [(each, turn) for each in records for turn in each.said.sources])
    named = {
        "replaced": [each.said.replaced is not None for each in records],
        "turns": [len(each.said.sources) for each in records],
    }
    left = _asked(conn, "unlinked", _names(records) | named, records[0].theme).fetchone()
    return (0, 0) if left is None else (int(left.replaced), int(left.sources))


def _link_replaced(conn: DeadlineConnection, pairs: Sequence[tuple[MemoryRecord, ReplacedMemory]]) -> None:
    if pairs:
        named = column_lists([memory for _, memory in pairs], old_targets="target", old_digests="digest")
        _asked(conn, "link_replaced", _names([record for record, _ in pairs]) | named, pairs[0][0].theme)


def _link_sources(conn: DeadlineConnection, pairs: Sequence[tuple[MemoryRecord, SourceTurn]]) -> None:
    if pairs:
        columns = {"sessions": "session_id", "roles": "role", "times": "ts", "turn_digests": "digest"}
        named = column_lists([turn for _, turn in pairs], **columns)
        _asked(conn, "link_sources", _names([record for record, _ in pairs]) | named, pairs[0][0].theme)


def _names(records: Sequence[MemoryRecord]) -> dict[str, Any]:
    return column_lists(records, themes="theme", targets="target") | {
        "digests": [digest(each.content) for each in records]
    }


def _columns(records: Sequence[_Some], languages: Languages) -> dict[str, Any]:
    return column_lists(records, themes="theme", contents="content") | {
        "embeddings": [None if each.embedding is None else as_vector(each.embedding) for each in records],
        "metadata": [Jsonb(dict(each.metadata)) for each in records],
        "languages": [languages.of(each.theme) for each in records],
    }


def _bring_chunks(conn: DeadlineConnection, store: Store, rows: Sequence[tuple[int, Record]]) -> None:
    parts = [
        (id, number, record.theme, part)
        for id, record in rows
        for number, part in enumerate(record.parts, start=1)
        if record.embedding is not None
    ]
    if parts:
        row = {
            "row_ids": [id for id, _, _, _ in parts],
            "parts": [number for _, number, _, _ in parts],
            "themes": [theme for _, _, theme, _ in parts],
            "first_chars": [part.first_char for _, _, _, part in parts],
            "embeddings": [as_vector(part.vector) for _, _, _, part in parts],
        }
        _asked(conn, f"bring_chunks_{store}", row, parts[0][2])
