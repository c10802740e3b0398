"""Memories added and edited by an operator."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg.types.json import Jsonb

from ...domain.errors import HermesPgvectorError, InvalidArgument, WrongUsage
from ...domain.facts import PLAIN, parse_notation
from ...domain.operations import RememberMemory
from ...domain.text import clean
from ...domain.types import MEMORY_FILES
from ...store import history, memories
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.history import record
from ...store.memories import Entry, lock_theme
from ...store.sql import query
from ...store.vectors import PendingRow
from ..common import row_security, stored_rows
from ..common.command_context import CommandContext
from ..common.operators import operator
from ..common.outcome import Outcome
from ..common.refs import Ref
from ..common.theme_rows import theme_exists

_query = partial(query, package=__package__)
_KEPT_OF_WHO = ("source", "os_user", "host")  # beside the memory itself
_EMBED_S = 120.0  # how long a command waits for the vectors of one long text


def add(context: CommandContext, theme: str, target: str, text: str, metadata: Mapping[str, Any]) -> Outcome:
    """Store a memory as the tool `remember` does: secrets masked, the same text confirmed rather than doubled.

    Raises InvalidArgument for an empty text, StoreUnavailable without a database.
    """
    content, notes = _masked(context, text)
    given = {key: value for key, value in context.keep.metadata(metadata, Counter()).items() if key not in _KEPT_OF_WHO}
    who = operator("add")
    metadata = given | {key: who[key] for key in _KEPT_OF_WHO}
    remember = RememberMemory(
        theme=theme,
        at=time.time(),
        target=target,
        content=content,
        metadata=metadata,
        given=given,
        who=who,
        owner="add",
    )
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        before = memories.id_of(conn, theme, target, content)
        if not theme_exists(conn, theme):
            notes.append(f"{theme!r} held nothing before: if that is a slip, forget this and look at: themes list")
    context.backend.apply([remember], {})
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        found = memories.id_of(conn, theme, target, content)
    if found is None:
        raise InvalidArgument("the memory was removed again while it was added")
    state = "stored" if before is None else "confirmed"
    row = {"ref": str(Ref("memories", found)), "id": found, "theme": theme, "target": target, "content": content}
    return Outcome(
        "add", True, {state: 1}, [row | {"state": state} | _embed(context, theme, found, content)], notes=notes
    )


def edit(context: CommandContext, ref: Ref, text: str, *, really: bool) -> Outcome:
    """Give a memory another text. It keeps its number and its age, and gets a new vector.

    Raises InvalidArgument for a turn, an unknown number, an empty text, or one that another memory says already.
    """
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        old = memory(conn, ref)
        content, notes = _masked(context, text)
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
        row |= _embed(context, old.theme, ref.id, content)
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


def _masked(context: CommandContext, text: str) -> tuple[str, list[str]]:
    said = clean(text).strip()
    if not said:
        raise WrongUsage("the text is empty; say in plain words what to remember")
    content = context.keep.text(said, Counter())
    masked = "what looked like a password, key or token was masked before it was stored"
    return content, [masked] if content != said else []


def _embed(context: CommandContext, theme: str, row_id: int, content: str) -> dict[str, Any]:
    """Give a row its vectors now where that is possible; else the agents do it."""
    documents, until = context.documents, time.monotonic() + _EMBED_S
    try:
        while documents.is_there() and not documents.fails and time.monotonic() < until:
            if content in (chunks := documents.embed_chunks([(theme, content)])):
                context.backend.fill([PendingRow("memories", row_id, theme, content)], chunks)
                return {"embedded": True}
    except HermesPgvectorError:
        pass  # the memory is stored; what is wrong with vectors, doctor says
    return {"embedded": False}


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
        "hand; it is not read in again"
    ]


def record_change(
    conn: DeadlineConnection, verb: str, themes: Sequence[str], what: Mapping[str, Any], done: Mapping[str, int]
) -> None:
    """Add to the operators' log; a role that is held to some themes has none, and the history tells of it alone."""
    if not row_security.has_own_themes(conn):
        record(conn, verb, {"themes": sorted(set(themes)), **what}, done)
