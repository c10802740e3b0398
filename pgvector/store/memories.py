"""Durable memories: adding, remembering, replacing and removing them; reading and forgetting them by id."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pgvector import Vector
from psycopg import sql
from psycopg.types.json import Jsonb

from ..domain.facts import PLAIN, Structure, parse_notation
from ..domain.operations import AddMemory, FileOperation, MemoryOperation, RememberMemory, RemoveMemory, ReplaceMemory
from ..domain.text import digest
from ..domain.theme import Languages
from .connection import DeadlineConnection
from .sql import query

logger = logging.getLogger(__name__)

Embeddings = dict[str, list[float]]
# The metadata of a write that says who made it; other metadata may be part of what was said.
WHO: Final = ("source", "session_id", "profile", "platform", "user", "chat", "verb", "os_user", "host")
IN_OTHER_FILES: Final = (
    "it also stood in a MEMORY.md or USER.md of another home when that was last read: it is not read in again, and "
    "stays in every prompt of that profile until it is removed there"
)
_ANNOUNCED_WITHIN_S = 60.0  # of the host's write to its file; another session may import it meanwhile


def lock_theme(conn: DeadlineConnection, theme: str) -> None:
    """Make other writers of this theme's memories wait until the transaction ends."""
    conn.execute(query("lock_theme"), {"theme": theme})


def lock_themes(conn: DeadlineConnection, themes: Iterable[str]) -> None:
    """Lock several themes, in the order that all writers use, so that two writers never deadlock."""
    for theme in sorted(set(themes)):
        lock_theme(conn, theme)


def lock_homes(conn: DeadlineConnection, origins: Iterable[str]) -> None:
    """Lock the memory files of several homes, after the themes: an entry may be in another theme than its writer's."""
    for origin in sorted(set(origins)):
        conn.execute(query("lock_home"), {"origin": origin})


def note_actor(
    conn: DeadlineConnection, known: Mapping[str, Any], *, origin: str = "", keep_removed: bool = False
) -> None:
    """Record who makes the changes that follow in this transaction; `known` is a row's metadata or an operator.

    With `keep_removed` the memories they remove can be restored; `origin` is the home whose file dropped them.
    """
    who = {key: known[key] for key in WHO if isinstance(known.get(key), str) and known[key]}
    row = {"who": json.dumps(who), "origin": origin, "keep_removed": "on" if keep_removed else "off"}
    conn.execute(query("note_actor"), row)
    if conn.spread:  # triggers run where the row is, and only what SET LOCAL sets gets there
        setting = sql.SQL(query("note_actor_everywhere").decode())
        for name, value in row.items():
            conn.execute(setting.format(name=sql.Identifier("hermes_pgvector", name), value=sql.Literal(value)))


def take_over(conn: DeadlineConnection, entry: Mapping[str, Any]) -> None:
    """Give the theme that wrote an entry of a memory file what a session has read from the file for another one.

    `entry` has the parameters `theme`, `origin`, `target`, `digest` and `noted_at` of the entry, and the `metadata` of
    its memory. What is removed so is not to be restored: call it without `keep_removed`.
    """
    for statement in ("take_over_mirrored", "claim_mirrored"):
        conn.execute(query(statement), {**entry, "announced_within_s": _ANNOUNCED_WITHIN_S})


def forget_old_texts(conn: DeadlineConnection, theme: str, ids: Sequence[int] | None = None) -> int:
    """Delete the texts that memories of a theme, `ids` or all, had before they were replaced; return how many."""
    return conn.execute(query("forget_old_texts"), {"theme": theme, "ids": None if ids is None else list(ids)}).rowcount


class _Found(NamedTuple):
    """An entry that `old_text` may mean. `owned`: it has an owner who keeps it whatever the memory files hold."""

    id: int
    theme: str
    content: str
    whole: bool
    owned: bool
    in_file: bool = False


@dataclass(frozen=True, slots=True)
class StoreWriter:
    """Writes within the caller's transaction, and adds what happened to `counts`.

    `keep_removed`: a memory that its file dropped can be restored, and the earlier texts of a memory can be read.
    """

    conn: DeadlineConnection
    embeddings: Embeddings
    languages: Languages
    counts: Counter[str]
    keep_removed: bool

    def note_actor(self, known: Mapping[str, Any], origin: str = "") -> None:
        """Record who makes the changes that follow, see `note_actor`."""
        note_actor(self.conn, known, origin=origin, keep_removed=self.keep_removed)

    def vector_of(self, text: str) -> Vector | None:
        """Return the vector of a text, None if there is none yet."""
        found = self.embeddings.get(text)
        return None if found is None else Vector(found)

    def take_over(self, op: AddMemory | ReplaceMemory) -> None:
        """Give the writer an entry that another session has read from the file before this write was stored."""
        take_over(self.conn, of_file(op) | {"digest": digest(op.content), "metadata": Jsonb(op.metadata)})

    def add(self, op: AddMemory | ReplaceMemory) -> None:
        """Store an entry that the host wrote to its file."""
        row = of_file(op) | self.content(op, op.content) | {"announced": True, "anew": True}
        self.store(row)
        self.conn.execute(query("own_again"), row)
        self.note_in_file(row)
        self.counts["memories_added"] += 1

    def remember(self, op: RememberMemory) -> None:
        """Store a memory with an owner other than the host's files: no reading of the files removes it."""
        row = _row(op) | self.content(op, op.content, op.structure)
        self.store(row | {"given": Jsonb(op.given), "owner": op.owner, "anew": True}, "remember_memory")
        self.conn.execute(query("clear_tombstone"), row)
        self.counts["memories_remembered"] += 1

    def replace(self, op: ReplaceMemory) -> None:
        """Replace the text of the entry that `old_text` means, or of what that entry has become since."""
        found = self._find(op) or self._find_successor(op)
        meant = [old for old in found if old.theme == op.theme] or found
        if len({old.content for old in meant}) == 1:
            self._replace(op, meant[0])
            for other in _same_line(found, meant[0], op.content):
                self._let_go(op, other)
            self.counts["memories_replaced"] += 1
            return
        # The host did replace something, so the new text is valid; only which old text to drop is unknown.
        self.counts["replace_ambiguous" if meant else "replace_unmatched"] += 1
        if meant:
            _warn_ambiguous(op, len(meant))
        else:
            self._note_dropped(op)
        self.add(op)

    def _replace(self, op: ReplaceMemory, old: _Found) -> None:
        row = of_file(op) | self.content(op, op.content) | {"id": old.id, "announced": True}
        (exists,) = self.conn.execute(query("memory_exists"), row).fetchone() or (False,)
        if old.content == op.content:
            self.add(op)
        elif old.theme != op.theme or old.owned or exists:
            # Another theme or another owner keeps the old text, or the new one is stored already: the writer gets the
            # new text, and the file drops the old one.
            self._let_go(op, old)
            self.add(op)
        else:
            self.conn.execute(query("bury_memory"), row)
            self.store(row, "replace_memory")
            self.note_in_file(row)

    def remove(self, op: RemoveMemory) -> None:
        """Drop the entry that `old_text` means from the host's file; without another owner it is removed."""
        found = self._find(op)
        if not any(old.whole or old.in_file for old in found) and self._let_go_of_replaced(op):
            self.counts["memories_released"] += 1
        elif not found:
            self.counts["remove_unmatched"] += 1
            self._note_dropped(op)
        elif len({old.content for old in found}) > 1:
            self.counts["remove_ambiguous"] += 1
            _warn_ambiguous(op, len(found))
        else:
            for old in found:
                self._let_go(op, old)
            self.counts["memories_released" if all(old.owned for old in found) else "memories_removed"] += 1

    def store(self, row: dict[str, Any], statement: str = "upsert_memory") -> None:
        """Store a memory, and close or supersede others as its structure says; `row` has what `content` returns."""
        said: Structure = row["structure"]
        if said.obsoletes and (old := self.conn.execute(query("current_of_subject"), row).fetchone()) is not None:
            row |= {"kind": old.kind, "said_kind": old.kind, "scope": old.scope}
        # The old one is superseded first; if it has the later time, it would else supersede the one that replaces it.
        replaced = {"replaced": said.replaces}
        gone = said.replaces and self.conn.execute(query("supersede_memory"), row | replaced).fetchone()
        self.conn.execute(query(statement), row)
        if said.closes:
            self.counts["facts_closed"] += len(self.conn.execute(query("close_scope"), row).fetchall())
        if said.replaces is not None:
            if gone:
                self.conn.execute(query("note_replaced"), row | replaced)
            self.counts["memories_superseded" if gone else "replaces_unmatched"] += 1

    def note_in_file(self, row: dict[str, Any]) -> None:
        """Record that the host's file holds an entry, which therefore no longer counts as removed."""
        for statement in ("clear_tombstone", "note_mirrored"):
            self.conn.execute(query(statement), row)

    def content(self, op: MemoryOperation, text: str, said: Structure = PLAIN) -> dict[str, Any]:
        """Return the parameters for the content of a memory; without a vector if there is none yet.

        `said`, what is stated besides the text, takes precedence over a line of notation in it.
        """
        said = said.over(parse_notation(text))
        structure = said.settled()
        return columns_of(structure) | {
            "structure": structure,
            "said_kind": said.kind,
            "content": text,
            "embedding": self.vector_of(text),
            "metadata": Jsonb(op.metadata),
            "language": self.languages.of(op.theme),
        }

    def _note_dropped(self, op: ReplaceMemory | RemoveMemory) -> None:
        """Record that the host's file dropped a text that is not stored here, or not yet."""
        if op.old_text:
            self.conn.execute(query("note_dropped"), of_file(op) | {"old_text": op.old_text})

    def _let_go(self, op: FileOperation, old: _Found) -> None:
        """Drop an entry from the host's file; without another owner it is removed."""
        self.conn.execute(query("let_go_of_memory"), of_file(op) | {"theme": old.theme, "id": old.id})

    def _find(self, op: ReplaceMemory | RemoveMemory) -> list[_Found]:
        """Return the entries `old_text` means: whole ones before parts of one, this host's file before other hosts'."""
        if not op.old_text:
            return []
        rows = self.conn.execute(query("find_memory"), of_file(op) | {"old_text": op.old_text})
        found = [_Found(*row) for row in rows]
        return [old for old in found if old.whole] or [old for old in found if old.in_file] or found

    def _let_go_of_replaced(self, op: RemoveMemory) -> bool:
        """Drop an entry of this host's file that somebody else, such as an operator, has given another text since."""
        if not op.old_text:
            return False
        row = of_file(op) | {"old_text": op.old_text}
        return self.conn.execute(query("let_go_of_replaced"), row).fetchone() is not None

    def _find_successor(self, op: ReplaceMemory) -> list[_Found]:
        """Return what an entry with `old_text` has become since somebody else replaced it; whole ones before parts."""
        rows = self.conn.execute(query("find_successor"), of_file(op) | {"old_text": op.old_text})
        found = [_Found(*row) for row in rows]
        whole = [old for old in found if old.whole]
        return whole[:1] or (found if len({old.id for old in found}) > 1 else found[:1])


def _same_line(found: list[_Found], old: _Found, new: str) -> list[_Found]:
    """Return the entries of other themes for the line of the host's file that was `old`, unless it is the same now."""
    return [each for each in found if each.content == old.content != new and each != old]


def _row(op: MemoryOperation) -> dict[str, object]:
    return {"theme": op.theme, "target": op.target, "at": datetime.fromtimestamp(op.at, UTC)}


def of_file(op: FileOperation) -> dict[str, object]:
    """Return the parameters that say whose file an operation comes from, its target and its times."""
    return _row(op) | {"origin": op.origin, "noted_at": datetime.fromtimestamp(op.noted_at, UTC)}


def columns_of(said: Structure) -> dict[str, Any]:
    """Return the parameters for what a memory says of itself besides its text."""
    return {
        "kind": said.kind,
        "subject": said.subject,
        "scope": said.scope,
        "state": said.state,
        "expires_at": None if said.expires_at is None else datetime.fromtimestamp(said.expires_at, UTC),
        "confidence": said.confidence,
        "sources": None if said.sources is None else list(said.sources),
        "applies_when": said.when,
        "pinned": said.pinned,
    }


def _warn_ambiguous(op: ReplaceMemory | RemoveMemory, count: int) -> None:
    logger.warning(
        "hermes-pgvector: %s in theme %s: the text it names is in %d entries, all of them are kept",
        op.kind,
        op.theme,
        count,
    )


class Entry(NamedTuple):
    """A stored memory. `chars` is the length of the whole text, of which `content` may be the beginning."""

    id: int
    target: str
    content: str
    at: datetime
    chars: int


def entries(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> list[Entry]:
    """Return those of the memories `ids` that are in `theme`, ordered by id."""
    rows = conn.execute(query("memories_by_id"), {"theme": theme, "ids": list(ids)})
    return [Entry(row.id, row.target, row.content, row.at, len(row.content)) for row in rows]


def forget(
    conn: DeadlineConnection,
    theme: str,
    expected: Sequence[Entry],
    in_files: Collection[tuple[str, str]],
    origin: str,
    who: Mapping[str, Any],
) -> bool:
    """Delete the `expected` memories if all are still in `theme` with the same text; else none, and return False.

    `in_files` are the targets and texts that this host's files hold; they are recorded as read, so that they are not
    imported again. `who` is what the history records about who did it.
    """
    lock_theme(conn, theme)
    ids = [entry.id for entry in expected]
    there = {(entry.id, entry.target, entry.content) for entry in entries(conn, theme, ids)}
    if there != {(entry.id, entry.target, entry.content) for entry in expected}:
        return False
    at = datetime.now(UTC)
    note_actor(conn, who)
    conn.execute(query("forget_memories"), {"theme": theme, "ids": ids, "at": at})
    for _, target, content in there:
        if (target, content) in in_files:
            noted = {"theme": theme, "origin": origin, "target": target, "content": content}
            conn.execute(query("note_mirrored"), noted | {"announced": False, "noted_at": at})
    return True


def earlier(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> list[int]:
    """Return the hidden memories that `ids` took the place of, and those that they did, but none of `ids`."""
    return [row.id for row in conn.execute(query("earlier_memories"), {"theme": theme, "ids": list(ids)})]


def held_elsewhere(conn: DeadlineConnection, theme: str, entries: Collection[Entry], origin: str) -> bool:
    """Return whether memory files of other homes than `origin` held one of these texts when they were last read."""
    asked = {"targets": [each.target for each in entries], "contents": [each.content for each in entries]}
    row = conn.execute(query("held_elsewhere"), asked | {"theme": theme, "origin": origin}).fetchone()
    return row is not None and bool(row.so)


def newest(conn: DeadlineConnection, theme: str, target: str, *, limit: int, chars: int) -> list[Entry]:
    """Return the most recently confirmed memories of a target, with at most `chars` characters of each text."""
    asked = {"theme": theme, "target": target, "limit": limit, "chars": chars}
    return [
        Entry(row.id, target, row.content, row.at, row.chars) for row in conn.execute(query("newest_memories"), asked)
    ]


def totals(conn: DeadlineConnection, theme: str) -> dict[str, int]:
    """Return how many memories of each target a theme holds."""
    found = {row.target: int(row.count) for row in conn.execute(query("count_memories"), {"theme": theme})}
    return {target: found.get(target, 0) for target in ("user", "memory")}


def id_of(conn: DeadlineConnection, theme: str, target: str, content: str) -> int | None:
    """Return the id of a memory by its text; None if it is not stored."""
    row = conn.execute(query("memory_id"), {"theme": theme, "target": target, "content": content}).fetchone()
    return None if row is None else int(row.id)


def is_superseded(conn: DeadlineConnection, theme: str, id: int) -> bool:
    """Return whether another memory has the place of a stored one, as where that was said later."""
    row = conn.execute(query("is_superseded"), {"theme": theme, "id": id}).fetchone()
    return row is not None and bool(row.so)
