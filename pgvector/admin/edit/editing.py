"""Memories edited by an operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg.types.json import Jsonb

from ...domain.commandline import typed
from ...domain.errors import InvalidArgument
from ...domain.facts import PLAIN, parse_notation
from ...domain.types import MEMORY_FILES
from ...store import history, memories
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.history import record
from ...store.memories import Entry, lock_theme
from ...store.sql import query
from ..common import row_security, stored_rows
from ..common.adding import embed_now, masked
from ..common.command_context import CommandContext
from ..common.operators import operator
from ..common.outcome import Outcome
from ..common.refs import Ref

_query = partial(query, package=__package__)


def edit(context: CommandContext, ref: Ref, text: str, *, really: bool) -> Outcome:
    """Give a memory another text. It keeps its number and its age, and gets a new vector.

    Raises InvalidArgument for a turn, an unknown number, an empty text, or one that another memory says already.
    """
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        old = memory(conn, ref)
        content, notes = masked(context, text)
        row = {"ref": str(ref), "id": ref.id, "theme": old.theme, "target": old.kind, "was": old.content}
        row["content"] = content
        if content == old.content:
            return Outcome("edit", False, {"memories": 0}, [row], notes=[*notes, "it says that already"])
        entry = entry_of(old)
        _check_unsaid(conn, old.theme, entry, content)
        in_files, origin = context.in_files()
        notes += still_in_files([entry], in_files)
        if really:
            if not _replace(conn, old.theme, entry, content, in_files, origin):
                raise InvalidArgument(f"{ref} was changed by somebody else just now; nothing was done: look again")
            if not context.settings.history_texts:
                history.forget_old_texts(conn, old.theme, [ref.id])
            record_change(conn, "edit", [old.theme], {"rows": [str(ref)]}, {"memories": 1})
    if really:
        row |= embed_now(context, old.theme, ref.id, content)
    return Outcome("edit", really, {"memories": 1}, [row], notes=notes)


def _replace(
    conn: DeadlineConnection,
    theme: str,
    old: Entry,
    content: str,
    in_files: Collection[tuple[str, str]],
    origin: str,
) -> bool:
    """Give a memory another text, under its number and as old as it was; False where it is not `old` any more.

    What it said is not read in again from a file that still says it. Raises InvalidArgument where another memory of
    the theme and target says the new text already.
    """
    lock_theme(conn, theme)
    _check_unsaid(conn, theme, old, content)
    who, now = operator("edit"), datetime.now(UTC)
    told = {
        "theme": theme, "target": old.target, "id": old.id, "at": now, "noted_at": now, "origin": origin,
        "announced": False,
    }  # fmt: skip
    kept = Jsonb({key: value for key, value in who.items() if key != "verb"})
    history.note_actor(conn, who)
    said = memories.columns_of((parse_notation(content) or PLAIN).settled())
    changed = told | said | {"content": content, "old_content": old.content, "metadata": kept}
    if not conn.execute(_query("edit_memory"), changed).rowcount:
        return False
    conn.execute(_query("bury_text"), told | {"content": old.content})
    conn.execute(query("clear_tombstone"), told | {"content": content})
    if (old.target, old.content) in in_files:
        conn.execute(query("note_mirrored"), told | {"content": old.content})
    return True


def _check_unsaid(conn: DeadlineConnection, theme: str, old: Entry, content: str) -> None:
    other = memories.id_of(conn, theme, old.target, content)
    if other is not None and other != old.id:
        raise InvalidArgument(
            f"m{other} says that already, nothing was changed; to keep only that one: "
            f"hermes-pgvector forget m{old.id} --yes"
        )


# -- what editing and forgetting share


def memory(conn: DeadlineConnection, ref: Ref) -> Any:
    """Return a memory by its number: id, theme, kind, at, content. Raises InvalidArgument."""
    if ref.store != "memories":
        raise InvalidArgument(
            f"{ref} is a turn: what was said is not edited, only removed: hermes-pgvector forget {ref}"
        )
    found = stored_rows.rows(conn, "memories", [ref.id])
    if not found:
        raise InvalidArgument(f"there is no memory {ref}; see: hermes-pgvector list")
    return found[0]


def entry_of(row: Any) -> Entry:
    """Return the memory in a row of `stored_rows`."""
    return Entry(row.id, row.kind, row.content, row.at, len(row.content))


def still_in_files(entries: Sequence[Entry], in_files: Collection[tuple[str, str]]) -> list[str]:
    """Return a note where memories also stand in this host's own memory files."""
    targets = sorted({entry.target for entry in entries if (entry.target, entry.content) in in_files})
    if not targets:
        return []
    names = " and ".join(MEMORY_FILES[target] for target in targets)
    return [
        f"it also stands in this host's {names}, from where it is in every prompt of the profile: remove it there by "
        f"hand, or with {typed('hermes-pgvector relieve')}; it is not read in again"
    ]


def record_change(
    conn: DeadlineConnection, verb: str, themes: Sequence[str], what: Mapping[str, Any], done: Mapping[str, int]
) -> None:
    """Add to the operators' log; a role that is held to some themes has none, and the history tells of it alone."""
    if not row_security.has_own_themes(conn):
        record(conn, verb, {"themes": sorted(set(themes)), **what}, done)
