"""Copies what belongs to a theme besides its rows: tombstones, mirrored file entries, operations and history.

Every function works inside the caller's transactions, one on each side; running it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from psycopg.types.json import Jsonb

from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.memories import lock_homes, lock_theme, take_over
from ...store.replays import bury
from ...store.sql import query
from ..common.fetching import one
from .export_rows import TimeRange, removed
from .import_rows import column_lists, themes_of
from .kept_numbers import KeptNumbers, numbers_for

_query = partial(query, package=__package__)
_SLICE = 1000
_Item = TypeVar("_Item")
_MIRRORED = {
    "origins": "origin", "targets": "target", "digests": "digest", "announced": "announced", "times": "noted_at",
    "held": "held_at", "why": "held_why", "kept": "kept_at",
}  # fmt: skip
_HISTORY = {
    "memory_ids": "memory_id", "targets": "target", "actions": "action", "times": "at", "db_roles": "db_role",
    "chars": "chars", "digests": "digest", "old_themes": "old_theme", "old_chars": "old_chars",
    "old_digests": "old_digest", "old_contents": "old_content", "now": "now",
}  # fmt: skip
_KEYS = {"memories": ("leaving_memory_ids", "memory_keys"), "turns": ("leaving_turn_ids", "turn_keys")}


def copy_removals(source: DeadlineConnection, target: DeadlineConnection, theme: str) -> int:
    """Copy tombstones, remove from the target what was removed at the source since, and return how many that were."""
    return sum(bury(target, some) for some in _slices(removed(source, theme, TimeRange())))


def count_removals(source: DeadlineConnection, target: DeadlineConnection, theme: str) -> int:
    """Return how many memories `copy_removals` would remove from the target."""
    return sum(
        one(
            target,
            _query("removed_elsewhere"),
            {"theme": theme}
            | column_lists(some, targets="target", digests="digest", times="removed_at", origins="origin"),
        ).count
        for some in _slices(removed(source, theme, TimeRange()))
    )


def copy_traces(source: DeadlineConnection, target: DeadlineConnection, theme: str) -> None:
    """Copy what the hosts' files held when they were last read, and the ids of applied operations."""
    for some in _slices(_streamed(source, "leaving_mirrored", theme)):
        _take_over(source, target, theme, [each for each in some if each.announced])
        target.execute(_query("bring_mirrored"), {"themes": [theme] * len(some)} | column_lists(some, **_MIRRORED))
    for some in _slices(_streamed(source, "leaving_operations", theme)):
        row = {"themes": [theme] * len(some)} | column_lists(some, op_ids="op_id", times="applied_at")
        target.execute(_query("bring_operations"), row)


def _take_over(source: DeadlineConnection, target: DeadlineConnection, theme: str, announced: Sequence[Any]) -> None:
    """Give the theme the entries that sessions wrote in it, and others have read from the file at the target only.

    Only those that the theme has at the target as well: what was removed there since belongs to whoever wrote it again.
    """
    if announced:  # as agents do before they write both rows of an entry
        lock_theme(target, theme)
        lock_homes(target, {each.origin for each in announced})
    entries = _read_there(source, target, announced)
    asked = {"theme": theme, "digests": [each.digest for each in entries]}
    said = {(row.target, row.digest): row.metadata for row in source.execute(_query("metadata_of_texts"), asked)}
    both = said.keys() & {(row.target, row.digest) for row in target.execute(_query("metadata_of_texts"), asked)}
    for each in entries:
        if (each.target, each.digest) in both:
            entry = {"theme": theme, "origin": each.origin, "target": each.target, "digest": each.digest}
            metadata = Jsonb(said[each.target, each.digest])
            take_over(target, entry | {"noted_at": each.noted_at, "metadata": metadata})


def _read_there(source: DeadlineConnection, target: DeadlineConnection, announced: Sequence[Any]) -> list[Any]:
    """Return those of these entries that the target, and not the source, has of a file for some theme."""
    wanted = {"origins": list({each.origin for each in announced}), "digests": [each.digest for each in announced]}
    there, here = (set(conn.execute(_query("entries_read"), wanted).fetchall()) for conn in (target, source))
    read = {(row.origin, row.target, row.digest) for row in there - here}
    return [each for each in announced if (each.origin, each.target, each.digest) in read]


def may_copy_history(target: DeadlineConnection) -> bool:
    """Return whether this role may write history with its original times to the target."""
    return bool(one(target, _query("may_write_history")).may)


def copy_history(source: DeadlineConnection, target: DeadlineConnection, theme: str, kept: KeptNumbers) -> int:
    """Copy the history of memories, of which those numbers are kept; return how many entries are new at the target."""
    added = 0
    numbers: dict[int, int] = {}
    for some in _slices(_streamed(source, "leaving_history", theme)):
        row = column_lists(some, **_HISTORY) | {
            "themes": [theme] * len(some),
            "who": [Jsonb(each.who) for each in some],
        }
        row["memory_ids"] = _numbers(target, some, row, numbers, kept)
        row["old_rows"] = [None if each.old_row is None else Jsonb(each.old_row) for each in some]
        added += target.execute(_query("bring_history"), row).rowcount
    return added


def _numbers(
    target: DeadlineConnection,
    entries: Sequence[Any],
    row: dict[str, list[Any]],
    numbers: dict[int, int],
    kept: KeptNumbers,
) -> list[int]:
    """Return the target's memory id for each of these entries, and add new pairs to `numbers` (source id to target id).

    A memory that is gone gets an id of its own, by which it can be restored or forgotten.
    """
    for each, known in zip(entries, target.execute(_query("known_history"), row), strict=True):
        if known.id is not None:
            numbers[each.memory_id] = known.id
    new = list(dict.fromkeys(each.memory_id for each in entries if each.memory_id not in numbers))
    numbers |= zip(new, numbers_for(target, "memories", new, kept), strict=True)
    return [numbers[each.memory_id] for each in entries]


def missing(
    source: DeadlineConnection,
    target: DeadlineConnection,
    theme: str,
    store: Store,
    moved: Mapping[str, Sequence[str]],
) -> int:
    """Return how many of the source's rows the target does not hold, compared one by one.

    Turns may also be in the themes that the target's rows of this theme were `moved` to.
    """
    if store == "turns":
        return sum(_lacking_turns(target, theme, keys, moved) for keys in _keys(source, theme, store))
    # A memory that was removed at the target is not missing.
    return sum(
        each.id is None and each.removed_at is None
        for keys in _keys(source, theme, store)
        for each in _known_memories(target, theme, keys)
    )


def are_under(source: DeadlineConnection, target: DeadlineConnection, theme: str, old: str) -> bool:
    """Return whether the target holds any of the source's rows of `theme` under another name, `old`.

    A memory that the source has under both names may be the one that the target has.
    """
    turns = (_lacking_turns(target, old, keys, {}) < len(keys) for keys in _keys(source, theme, "turns"))
    memories = (
        any(
            there.id is not None and here.id is None
            for there, here in zip(_known_memories(target, old, keys), _known_memories(source, old, keys), strict=True)
        )
        for keys in _keys(source, theme, "memories")
    )
    return any(turns) or any(memories)


def _keys(source: DeadlineConnection, theme: str, store: Store) -> Iterator[Sequence[Any]]:
    """Yield what the rows of a theme are recognised by, a slice at a time."""
    ids_of, keys_of = _KEYS[store]
    with source.cursor(f"keys_{store}") as ids:
        ids.execute(_query(ids_of), {"theme": theme, "since": None, "until": None})
        while some := [row.id for row in ids.fetchmany(_SLICE)]:
            yield source.execute(_query(keys_of), {"theme": theme, "ids": some}).fetchall()


def _known_memories(target: DeadlineConnection, theme: str, keys: Sequence[Any]) -> Iterator[Any]:
    row = {"themes": [themes_of(theme, {})] * len(keys)}
    yield from target.execute(_query("known_memories"), row | column_lists(keys, targets="target", digests="digest"))


def _lacking_turns(
    target: DeadlineConnection, theme: str, keys: Sequence[Any], moved: Mapping[str, Sequence[str]]
) -> int:
    row = column_lists(keys, sessions="session_id", roles="role", times="ts", digests="digest") | {
        "sources": [""] * len(keys),
        "themes": [themes_of(theme, moved)] * len(keys),
        "near_s": 0.0,
    }
    return len(target.execute(_query("missing_turns"), row).fetchall())


def _streamed(conn: DeadlineConnection, statement: str, theme: str) -> Iterator[Any]:
    """Yield the rows of a statement about a theme, a slice at a time, so that a large history is not held in memory."""
    with conn.cursor(statement) as found:
        found.itersize = _SLICE
        yield from found.execute(_query(statement), {"theme": theme})


def _slices(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    remaining = iter(items)
    while some := list(islice(remaining, _SLICE)):
        yield some
