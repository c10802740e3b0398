"""Entries that the database keeps whatever the memory files hold: stored under an owner of their own, and checked."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from ...domain.errors import StoreUnavailable
from ...domain.operations import RememberMemory
from ...domain.text import digest
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.sql import query
from ..common.command_context import CommandContext
from ..common.operators import operator, record_where_allowed
from .judging import JudgedEntry
from .undo_record import TakenEntry

_query = partial(query, package=__package__)
_OWNER = "relieve"  # store/memory_files.py lets files go of it
_KEPT_OF_WHO = ("source", "os_user", "host")  # beside the memory itself


def as_taken(entry: JudgedEntry) -> TakenEntry:
    """Return what --undo has to know of an entry."""
    themes = tuple(sorted(entry.themes))
    return TakenEntry(entry.target, entry.place, digest(entry.text).hex(), themes, None if entry.kept else entry.text)


def store(context: CommandContext, entries: Sequence[JudgedEntry]) -> None:
    """Have the database keep the entries. Raises StoreUnavailable where it does not."""
    new = [_as_operation(entry) for entry in entries if not entry.memories]
    if new:
        context.backend.apply(new, {})
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        _own(conn, entries)
        themes = sorted({theme for entry in entries for theme in entry.themes})
        record_where_allowed(conn, "relieve", {"themes": themes}, {"memories": len(entries)})
    _check(context, entries)


def _as_operation(entry: JudgedEntry) -> RememberMemory:
    who = operator("relieve")
    return RememberMemory(
        theme=entry.theme,
        # A file may be old: what was said of a subject after it was written stays current.
        at=min(time.time(), entry.written_at),
        target=entry.target,
        content=entry.text,
        metadata={key: who[key] for key in _KEPT_OF_WHO},
        who=who,
        owner=_OWNER,
    )


def _own(conn: DeadlineConnection, entries: Sequence[JudgedEntry]) -> None:
    """Give the memories that are there our owner, as old as they are."""
    ids: defaultdict[str, list[int]] = defaultdict(list)
    for memory in (memory for entry in entries for memory in entry.memories):
        ids[memory.theme].append(memory.id)
    for theme in sorted(ids):
        lock_theme(conn, theme)
        conn.execute(_query("own_relieved"), {"theme": theme, "ids": ids[theme]})


def _check(context: CommandContext, entries: Sequence[JudgedEntry]) -> None:
    taken = [as_taken(entry) for entry in entries]
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        stored = stored_texts(conn, taken)
    lacking = [
        str(entry.number) for entry, each in zip(entries, taken, strict=True) if stored.get(each.name) != entry.text
    ]
    if lacking:
        raise StoreUnavailable(
            f"entry {', '.join(lacking)} was changed in the database just now; the files were left as they are: run "
            "this again"
        )


def stored_texts(conn: DeadlineConnection, entries: Sequence[TakenEntry]) -> dict[tuple[str, str], str]:
    """Return the texts that the database keeps for us, by the entries' names."""
    wanted = [(theme, each) for each in entries for theme in each.themes]
    asked = {
        "themes": [theme for theme, _ in wanted],
        "targets": [each.target for _, each in wanted],
        "digests": [bytes.fromhex(each.digest) for _, each in wanted],
    }
    return {(row.target, bytes(row.digest).hex()): row.content for row in conn.execute(_query("relieved_texts"), asked)}
