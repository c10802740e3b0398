"""What goes from one database of ours to another beside the rows: what was removed, read, applied, and what happened.

Every function works inside the caller's transactions, one on each side; running it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from psycopg.types.json import Jsonb

from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.sql import query
from .export_rows import Period, removed
from .import_rows import bury

_SLICE = 1000
_Item = TypeVar("_Item")
_HISTORY = {
    "memory_ids": "memory_id", "targets": "target", "actions": "action", "times": "at", "db_roles": "db_role",
    "chars": "chars", "digests": "digest", "old_themes": "old_theme", "old_chars": "old_chars",
    "old_digests": "old_digest", "old_contents": "old_content", "now": "now",
}  # fmt: skip
_KEYS = {"memories": ("leaving_memory_ids", "memory_keys"), "turns": ("leaving_turn_ids", "turn_keys")}


def copy_removals(source: DeadlineConnection, target: DeadlineConnection, theme: str) -> int:
    """Bring tombstones; what was removed at the source since is removed there too. Returns how many that were."""
    return sum(bury(target, some) for some in _slices(removed(source, theme, Period())))


def copy_traces(source: DeadlineConnection, target: DeadlineConnection, theme: str) -> None:
    """Bring what the hosts' files held when they were read, and which writes were applied."""
    for some in _slices(_streamed(source, "leaving_mirrored", theme)):
        row = {
            "themes": [theme] * len(some),
            "origins": [each.origin for each in some],
            "targets": [each.target for each in some],
            "digests": [each.digest for each in some],
            "announced": [each.announced for each in some],
            "times": [each.noted_at for each in some],
            "held": [each.held_at for each in some],
            "why": [each.held_why for each in some],
            "kept": [each.kept_at for each in some],
        }
        target.execute(query("bring_mirrored"), row)
    for some in _slices(_streamed(source, "leaving_operations", theme)):
        row = {
            "themes": [theme] * len(some),
            "op_ids": [each.op_id for each in some],
            "times": [each.applied_at for each in some],
        }
        target.execute(query("bring_operations"), row)


def may_copy_history(target: DeadlineConnection) -> bool:
    """Whether this role may say there when something happened."""
    row = target.execute(query("may_write_history")).fetchone()
    return bool(row and row.may)


def copy_history(source: DeadlineConnection, target: DeadlineConnection, theme: str) -> int:
    """Bring what happened to memories; returns how many entries are new there."""
    added = 0
    for some in _slices(_streamed(source, "leaving_history", theme)):
        row: dict[str, Any] = {name: [getattr(each, column) for each in some] for name, column in _HISTORY.items()}
        row |= {"themes": [theme] * len(some), "who": [Jsonb(each.who) for each in some]}
        row["old_rows"] = [None if each.old_row is None else Jsonb(each.old_row) for each in some]
        added += target.execute(query("bring_history"), row).rowcount
    return added


def missing(source: DeadlineConnection, target: DeadlineConnection, theme: str, store: Store) -> int:
    """How many of the source's rows the target does not hold, compared one by one."""
    ids_of, keys_of = _KEYS[store]
    lacking = 0
    with source.cursor(f"keys_{store}") as ids:
        ids.execute(query(ids_of), {"theme": theme, "since": None, "until": None})
        while some := [row.id for row in ids.fetchmany(_SLICE)]:
            keys = source.execute(query(keys_of), {"theme": theme, "ids": some}).fetchall()
            lacking += _lacking_memories(target, theme, keys) if store == "memories" else _lacking(target, theme, keys)
    return lacking


def _lacking_memories(target: DeadlineConnection, theme: str, keys: Sequence[Any]) -> int:
    row = {
        "themes": [theme] * len(keys),
        "targets": [key.target for key in keys],
        "digests": [key.digest for key in keys],
    }
    # What was removed there is not missing.
    found = target.execute(query("known_memories"), row)
    return sum(each.id is None and each.removed_at is None for each in found)


def _lacking(target: DeadlineConnection, theme: str, keys: Sequence[Any]) -> int:
    row = {
        "themes": [theme] * len(keys),
        "sessions": [key.session_id for key in keys],
        "roles": [key.role for key in keys],
        "times": [key.ts for key in keys],
        "digests": [key.digest for key in keys],
        "sources": [""] * len(keys),
        "near_s": 0.0,
    }
    return len(target.execute(query("missing_turns"), row).fetchall())


def _streamed(conn: DeadlineConnection, statement: str, theme: str) -> Iterator[Any]:
    """What a statement finds of a theme, a slice at a time: a large theme's history is not held in memory."""
    with conn.cursor(statement) as found:
        found.itersize = _SLICE
        yield from found.execute(query(statement), {"theme": theme})


def _slices(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    remaining = iter(items)
    while some := list(islice(remaining, _SLICE)):
        yield some
