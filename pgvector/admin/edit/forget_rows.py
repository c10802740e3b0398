"""Permanent deletion of memories, turns and sessions by an operator.

Every function that takes a connection works inside the caller's transaction.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Any

from ...domain.commandline import typed
from ...domain.errors import InvalidArgument
from ...domain.format import plural
from ...domain.theme import is_chat
from ...domain.types import Store
from ...store import memories, sessions
from ...store.connection import DeadlineConnection
from ...store.memories import Entry, lock_themes
from ...store.sql import query
from ..common import stored_rows
from ..common.command_context import CommandContext
from ..common.fetching import one
from ..common.operators import operator
from ..common.outcome import Outcome
from ..common.refs import Ref, one_theme
from ..common.row_options import WHOLE
from ..common.spool_copies import drop_copies, drop_of, of_session
from .editing import entry_of, memory, record_change, still_in_files
from .removals import RemovedMemory, removed

_query = partial(query, package=__package__)
_SESSION_SHOWN = 100  # turns of a session that is deleted
_WORD = re.compile(r"[^\W_]+")
_OUT_OF_RECALL = {
    "hidden": ("these words also stand in memories that recall does not find, and stay", ""),
    "earlier": ("these words also stand in what memories said before, and stay", " --versions"),
    "removed": ("these words also stand in what can be restored, and stay", ""),
}
_CHANGED = "a row was changed by somebody else just now; nothing was removed: look again"


@dataclass(frozen=True)
class _Meant:
    """The rows that ids name: stored rows, and removed memories that could be restored."""

    memories: Sequence[Any]
    turns: Sequence[Any]
    gone: Sequence[RemovedMemory]

    def rows(self) -> list[dict[str, Any]]:
        stored: list[tuple[Store, Any]] = [("memories", row) for row in self.memories]
        stored += [("turns", row) for row in self.turns]
        return [
            *(_row(Ref(store, row.id), row.theme, row.kind, row.at, row.content) for store, row in stored),
            *(_row(Ref("memories", row.id), row.theme, row.target, row.at, row.content) for row in self.gone),
        ]

    def counts(self) -> dict[str, int]:
        texts = {"texts": len(self.gone)} if self.gone else {}
        return {"memories": len(self.memories), "turns": len(self.turns)} | texts

    def entries(self) -> dict[str, list[Entry]]:
        """Return the stored memories, by theme."""
        by_theme: defaultdict[str, list[Entry]] = defaultdict(list)
        for row in self.memories:
            by_theme[row.theme].append(entry_of(row))
        return dict(sorted(by_theme.items()))


def _row(ref: Ref, theme: str, kind: str, at: Any, content: str) -> dict[str, Any]:
    return _named(ref, theme, kind) | {"at": at.isoformat(), "content": content}


def _named(ref: Ref, theme: str, kind: str) -> dict[str, Any]:
    who = "target" if ref.store == "memories" else "role"
    return {"ref": str(ref), "store": ref.store, "id": ref.id, "theme": theme, who: kind}


def forget(
    conn: DeadlineConnection,
    context: CommandContext,
    refs: Sequence[Ref],
    *,
    theme: str | None,
    really: bool,
    verb: str = "forget",
) -> Outcome:
    """Delete memories and turns for good, with everything derived from them; if one is missing, delete none.

    If `theme` is given, they must be in it. `verb` is for the history. Raises InvalidArgument.
    """
    meant = _find(conn, refs, theme)
    in_files, origin = context.in_files()
    notes = _notes(conn, meant, in_files, origin, really=really)
    rows, counts = meant.rows(), meant.counts()
    if really:
        _delete(conn, meant, in_files, origin, verb)
        themes = [row["theme"] for row in rows]
        record_change(conn, verb, themes, {"rows": [str(ref) for ref in refs]}, counts)
    return Outcome("forget", really, counts, rows, notes=notes)


def _find(conn: DeadlineConnection, refs: Sequence[Ref], theme: str | None) -> _Meant:
    """Return the rows that the ids name. Raises InvalidArgument if one is missing."""
    memories, turns = _stored(conn, "memories", refs, theme), _stored(conn, "turns", refs, theme)
    missing = set(refs) - memories.keys() - turns.keys()
    absent = [ref.id for ref in missing if ref.store == "memories"]
    gone = removed(conn, theme=theme, ids=absent, chars=WHOLE) if absent else []
    missing -= {Ref("memories", each.id) for each in gone}
    if missing:
        names = ", ".join(str(ref) for ref in refs if ref in missing)
        where = f" in the theme {theme!r}" if theme is not None else ""
        raise InvalidArgument(f"there is no {names}{where}; nothing was removed")
    return _Meant(list(memories.values()), list(turns.values()), gone)


def _stored(conn: DeadlineConnection, store: Store, refs: Sequence[Ref], theme: str | None) -> dict[Ref, Any]:
    ids = [ref.id for ref in refs if ref.store == store]
    found = [row for row in stored_rows.rows(conn, store, ids) if theme in (None, row.theme)]
    for id, rows in groupby(found, lambda row: row.id):
        one_theme(Ref(store, id), {row.theme for row in rows})
    return {Ref(store, row.id): row for row in found}


def _notes(
    conn: DeadlineConnection, meant: _Meant, in_files: set[tuple[str, str]], origin: str, *, really: bool
) -> list[str]:
    by_theme = meant.entries()
    notes = still_in_files(conn, by_theme, in_files, origin)
    earlier = sum(_old_texts(conn, theme, [each.id for each in entries]) for theme, entries in by_theme.items())
    if earlier:
        notes.append(
            f"what they said before ({plural(earlier, 'text')} in the history) {'went' if really else 'goes'} as well"
        )
    if refs := _earlier(conn, by_theme):
        command = typed(f"hermes-pgvector forget {' '.join(refs)}")
        notes.append(f"what they took the place of stays, where recall does not find it: {command}")
    if meant.gone:
        notes.append("what was removed before can no longer be restored once its text is forgotten")
    return notes


def _earlier(conn: DeadlineConnection, by_theme: Mapping[str, Sequence[Entry]]) -> list[str]:
    """Return the memories that these took the place of and that are not among them."""
    found = (memories.earlier(conn, theme, [each.id for each in entries]) for theme, entries in by_theme.items())
    return [str(Ref("memories", id)) for ids in found for id in ids]


def out_of_recall(
    conn: DeadlineConnection, theme: str, question: str, target: str | None, chosen: Sequence[Ref]
) -> list[str]:
    """Return notes on memories besides the `chosen` with all words of a question in texts that recall does not find."""
    words = _WORD.findall(question)
    if not words:
        return []
    asked = {"theme": theme, "target": target, "patterns": [f"%{word}%" for word in words]}
    found: defaultdict[str, list[Ref]] = defaultdict(list)
    for row in conn.execute(_query("out_of_recall"), asked):
        if (ref := Ref("memories", row.id)) not in chosen:
            found[row.why].append(ref)
    gone = {each.id for each in removed(conn, theme=theme, ids=[ref.id for ref in found["removed"]], chars=1)}
    found["removed"] = [ref for ref in found["removed"] if ref.id in gone]
    return [
        f"{said}: {typed('hermes-pgvector forget')} {' '.join(map(str, found[why]))}{option}"
        for why, (said, option) in _OUT_OF_RECALL.items()
        if found[why]
    ]


def _delete(conn: DeadlineConnection, meant: _Meant, in_files: set[tuple[str, str]], origin: str, verb: str) -> None:
    lock_themes(conn, (each.theme for each in (*meant.memories, *meant.gone)))
    if not _are_gone(conn, meant.gone):
        raise InvalidArgument(_CHANGED)
    for theme, entries in meant.entries().items():
        if not memories.forget(conn, theme, entries, in_files, origin, operator(verb)):
            raise InvalidArgument(_CHANGED)
    turns: defaultdict[str, list[int]] = defaultdict(list)
    for row in meant.turns:
        turns[row.theme].append(row.id)
    for theme in sorted(turns):
        # Fewer rows if somebody has deleted one of them, or is moving the theme.
        if conn.execute(query("delete_turns"), {"theme": theme, "ids": turns[theme]}).rowcount < len(turns[theme]):
            raise InvalidArgument(_CHANGED)
    for each in meant.gone:
        conn.execute(_query("forget_removed"), {"theme": each.theme, "ids": [each.id]})


def _are_gone(conn: DeadlineConnection, gone: Sequence[RemovedMemory]) -> bool:
    """Return whether these removed memories can still be restored: none was restored or forgotten meanwhile."""
    still = removed(conn, ids=[each.id for each in gone], chars=1) if gone else []
    return {(each.removal, each.theme) for each in gone} <= {(each.removal, each.theme) for each in still}


def drop_spooled(context: CommandContext, done: Outcome, *, really: bool = True) -> list[str]:
    """Drop rejected and acknowledged writes of forgotten texts from the spool; return notes about it."""
    texts = [(row["theme"], row["content"]) for row in done.rows]
    return drop_copies(context.home, texts, really=really).notes("of the same text", really=really, again="forget")


def drop_spooled_session(home: Path, theme: str, session_id: str, *, really: bool = True) -> list[str]:
    """Drop rejected and acknowledged turns of a forgotten session from the spool; return notes about it."""
    return drop_of(home, theme, session_id, really=really).notes("of this session", really=really, again="forget")


def require_stored(conn: DeadlineConnection, home: Path, session_id: str, theme: str | None) -> None:
    """Raise InvalidArgument if nothing of a session is stored yet, and writes of it are in the spool."""
    stored = stored_rows.themes_of_session(conn, session_id)
    if not stored or theme not in (None, *stored):
        of_session(home, session_id, theme).require_none(f"the session {session_id!r}", again="forget")


def forget_versions(conn: DeadlineConnection, refs: Sequence[Ref], *, really: bool) -> Outcome:
    """Drop the earlier texts of memories and keep the present ones. Raises InvalidArgument."""
    found = {ref: memory(conn, ref) for ref in refs}
    if really:
        _lock(conn, found)
    rows = []
    for ref, row in found.items():
        told = _named(ref, row.theme, row.kind)
        rows.append(told | {"texts": _old_texts(conn, row.theme, [row.id]), "content": row.content})
    counts = {"texts": sum(row["texts"] for row in rows)}
    if really and counts["texts"]:
        for row in found.values():
            memories.forget_old_texts(conn, row.theme, [row.id])
        themes = [row["theme"] for row in rows]
        record_change(conn, "forget", themes, {"rows": [str(ref) for ref in refs]}, counts)
    return Outcome("forget", really, counts, rows)


def _lock(conn: DeadlineConnection, found: Mapping[Ref, Any]) -> None:
    """Lock these memories' themes against other writers. Raises InvalidArgument if one was moved meanwhile."""
    lock_themes(conn, (row.theme for row in found.values()))
    if any(memory(conn, ref).theme != row.theme for ref, row in found.items()):
        raise InvalidArgument(_CHANGED)


def _old_texts(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> int:
    """Return how many earlier texts of these memories are kept."""
    return int(one(conn, _query("count_old_texts"), {"theme": theme, "ids": list(ids)}).count)


def forget_session(
    conn: DeadlineConnection, theme: str, session_id: str, *, really: bool, verb: str = "forget"
) -> Outcome:
    """Delete the turns of one session of a theme; the outcome's `rows` are the first of them. Its memories stay."""
    first: list[Mapping[str, Any]] = list(sessions.transcript(conn, theme, session_id, limit=_SESSION_SHOWN, offset=0))
    rows = [_row(Ref("turns", row["id"]), theme, row["role"], row["ts"], row["content"]) for row in first]
    counts = {"turns": stored_rows.themes_of_session(conn, session_id).get(theme, 0)}
    notes = _kept_of_session(conn, theme, session_id)
    if really:
        counts["turns"] = stored_rows.forget_session(conn, theme, session_id)
        record_change(conn, verb, [theme], {"session": session_id}, counts)
    return Outcome("forget", really, counts, rows, notes=notes)


def _kept_of_session(conn: DeadlineConnection, theme: str, session_id: str) -> list[str]:
    """Return a note if memories were written in a session; those of a chat may be in the theme of its profile."""
    written = stored_rows.themes_of_session(conn, session_id, "memories")
    kept = sum(count for where, count in written.items() if where == theme or is_chat(theme))
    if not kept:
        return []
    stay = plural(kept, "memory that was written in it stays", "memories that were written in it stay")
    return [f"{stay}: {typed('hermes-pgvector list')} --session={quote(session_id)}"]
