"""What an operator puts right by hand: memories added and edited, memories, turns and sessions forgotten."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...capture.document_embedding import DocumentEmbedder
from ...capture.forgetting import without_session
from ...capture.mirror import Mirror
from ...capture.sanitize import Keeper
from ...domain.errors import HermesPgvectorError, InvalidArgument, WrongUsage
from ...domain.operations import RememberMemory
from ...domain.records import MEMORY_FILES
from ...domain.text import clean
from ...domain.types import Store
from ...store import history, memory_edits
from ...store.audit_log import operator, record
from ...store.backend import WRITE_TIMEOUT_S, Backend
from ...store.connection import DeadlineConnection
from ...store.memory_edits import Entry
from ...store.vectors import PendingRow
from ..common import browse_rows, history_rows, row_security
from ..common.refs import Ref
from ..common.spool_views import drop_copies, drop_kept
from . import memory_changes

_KEPT_OF_WHO = ("source", "os_user", "host")  # beside the memory itself
_SESSION_SHOWN = 100  # turns of one that goes
_EMBED_S = 120.0  # how long a command waits for the vectors of one long text


@dataclass(frozen=True)
class Hand:
    """What a correction works with: the database, what masks secrets, the home and the vectors of new texts."""

    backend: Backend
    keep: Keeper
    home: Path
    documents: DocumentEmbedder
    history_texts: bool

    def in_files(self) -> tuple[set[tuple[str, str]], str]:
        """Target and text of what this home's MEMORY.md and USER.md say, as it is stored; and the home's origin."""
        mirror = Mirror(self.home)
        said = {(target, self.keep.text(text, Counter())) for target, text in mirror.entries()}
        return said, mirror.origin


@dataclass
class Correction:
    """What was done, or would be; `rows` are what it is about, `notes` what else there is to know."""

    verb: str
    done: bool
    rows: list[dict[str, Any]]
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "verb": self.verb, "done": self.done, "rows": self.rows, "counts": self.counts, "notes": self.notes,
        }  # fmt: skip


def add(hand: Hand, theme: str, target: str, text: str, metadata: Mapping[str, Any]) -> Correction:
    """Store a memory as the tool `remember` does: secrets masked, the same text confirmed rather than doubled.

    Raises InvalidArgument for an empty text, StoreUnavailable without a database.
    """
    content, notes = _kept(hand, text)
    given = {key: value for key, value in hand.keep.metadata(metadata, Counter()).items() if key not in _KEPT_OF_WHO}
    who = operator("add")
    metadata = given | {key: who[key] for key in _KEPT_OF_WHO}
    with hand.backend.connection(WRITE_TIMEOUT_S) as conn:
        before = memory_edits.id_of(conn, theme, target, content)
        if not browse_rows.theme_exists(conn, theme):
            notes.append(f"{theme!r} held nothing before: if that is a slip, forget this and look at: themes list")
    op = RememberMemory(
        theme=theme,
        at=time.time(),
        target=target,
        content=content,
        metadata=metadata,
        given=given,
        who=who,
        owner="add",
    )
    hand.backend.apply([op], {})
    with hand.backend.connection(WRITE_TIMEOUT_S) as conn:
        found = memory_edits.id_of(conn, theme, target, content)
    if found is None:
        raise InvalidArgument("the memory was removed again while it was added")
    row = {"ref": str(Ref("memories", found)), "id": found, "theme": theme, "target": target, "content": content}
    state = "confirmed" if before is not None else "stored"
    return Correction("add", True, [row | {"state": state} | _embedded(hand, theme, found, content)], {state: 1}, notes)


def edit(hand: Hand, ref: Ref, text: str, *, really: bool) -> Correction:
    """Give a memory another text. It keeps its number and its age, and gets a new vector.

    Raises InvalidArgument for a turn, an unknown number, an empty text, or one that another memory says already.
    """
    with hand.backend.connection(WRITE_TIMEOUT_S) as conn:
        old = memory(conn, ref)
        content, notes = _kept(hand, text)
        entry = Entry(old.id, old.kind, old.content, old.at, len(old.content))
        row = {"ref": str(ref), "id": ref.id, "theme": old.theme, "target": old.kind, "was": old.content}
        row["content"] = content
        if content == old.content:
            return Correction("edit", False, [row], {"memories": 0}, [*notes, "it says that already"])
        memory_changes.check_unsaid(conn, old.theme, entry, content)
        in_files, origin = hand.in_files()
        notes += _standing([entry], in_files)
        if really:
            if not memory_changes.edit(conn, old.theme, entry, content, in_files, origin, operator("edit")):
                raise InvalidArgument(f"{ref} was changed by somebody else just now; nothing was done: look again")
            if not hand.history_texts:
                history.forget_old_texts(conn, old.theme, [ref.id])
            _record(conn, "edit", [old.theme], {"rows": [str(ref)]}, {"memories": 1})
    done = Correction("edit", really, [row], {"memories": 1}, notes)
    if really:
        row |= _embedded(hand, old.theme, ref.id, content)
    return done


def memory(conn: DeadlineConnection, ref: Ref) -> Any:
    """A memory by its number: id, theme, kind, at, content. Raises InvalidArgument."""
    if ref.store != "memories":
        raise InvalidArgument(
            f"{ref} is a turn: what was said is not edited, only removed: hermes-pgvector forget {ref}"
        )
    found = browse_rows.rows(conn, "memories", [ref.id])
    if not found:
        raise InvalidArgument(f"there is no memory {ref}; see: hermes-pgvector list")
    return found[0]


def forget(hand: Hand, refs: Sequence[Ref], *, theme: str | None, really: bool) -> Correction:
    """Delete memories and turns for good, with what was derived of them; all of them or, where one is missing, none.

    `theme`: they must stand there. Raises InvalidArgument.
    """
    with hand.backend.connection(WRITE_TIMEOUT_S) as conn:
        held = {
            store: browse_rows.rows(conn, store, [ref.id for ref in refs if ref.store == store]) for store in _STORES
        }
        there = {Ref(store, row.id) for store, rows in held.items() for row in rows if theme in (None, row.theme)}
        wanted = [ref.id for ref in refs if ref.store == "memories" and ref not in there]
        gone = history_rows.removed(conn, theme=theme, ids=wanted, chars=_WHOLE) if wanted else []
        there |= {Ref("memories", each.id) for each in gone}
        if missing := [str(ref) for ref in refs if ref not in there]:
            where = f" in the theme {theme!r}" if theme is not None else ""
            raise InvalidArgument(f"there is no {', '.join(missing)}{where}; nothing was removed")
        rows = [
            {"ref": str(Ref(store, row.id)), "store": store, "theme": row.theme, "kind": row.kind,
             "at": row.at.isoformat(timespec="seconds"), "content": row.content}
            for store, found in held.items() for row in found
        ]  # fmt: skip
        rows += [
            {"ref": str(Ref("memories", each.id)), "store": "memories", "theme": each.theme, "kind": each.target,
             "at": each.at.isoformat(timespec="seconds"), "content": each.content}
            for each in gone
        ]  # fmt: skip
        counts = {"memories": len(held["memories"]), "turns": len(held["turns"])}
        if gone:
            counts["texts"] = len(gone)
        notes = _forget(conn, hand, held, really=really)
        if gone:
            notes.append(_RESTORABLE)
        for each in gone if really else ():
            history_rows.forget_removed(conn, each.theme, [each.id])
        if really:
            _record(conn, "forget", [row["theme"] for row in rows], {"rows": [str(ref) for ref in refs]}, counts)
    if really:
        notes += _spooled(hand, [(row.theme, row.content) for store in _STORES for row in held[store]])
    return Correction("forget", really, rows, counts, notes)


_STORES: tuple[Store, ...] = ("memories", "turns")
_WHOLE = 2**31 - 1  # characters
_RESTORABLE = "what was removed before can no longer be restored once its text is forgotten"


def _forget(conn: DeadlineConnection, hand: Hand, held: Mapping[Store, Sequence[Any]], *, really: bool) -> list[str]:
    in_files, origin = hand.in_files()
    by_theme: defaultdict[str, list[Entry]] = defaultdict(list)
    for row in held["memories"]:
        by_theme[row.theme].append(Entry(row.id, row.kind, row.content, row.at, len(row.content)))
    notes = _standing([entry for entries in by_theme.values() for entry in entries], in_files)
    earlier = sum(history_rows.old_texts(conn, theme, [each.id for each in some]) for theme, some in by_theme.items())
    if earlier:
        notes.append(f"what they said before ({earlier} texts in the history) {'went' if really else 'goes'} as well")
    if not really:
        return notes
    for theme in sorted(by_theme):
        if not memory_edits.forget(conn, theme, by_theme[theme], in_files, origin, operator("forget")):
            raise InvalidArgument("a memory was changed by somebody else just now; nothing was removed: look again")
    turns: defaultdict[str, list[int]] = defaultdict(list)
    for row in held["turns"]:
        turns[row.theme].append(row.id)
    for theme in sorted(turns):
        memory_changes.forget_turns(conn, theme, turns[theme])
    return notes


def forget_versions(hand: Hand, refs: Sequence[Ref], *, really: bool) -> Correction:
    """Drop what memories said before they were replaced; what they say now stays. Raises InvalidArgument."""
    with hand.backend.connection(WRITE_TIMEOUT_S) as conn:
        found = [memory(conn, ref) for ref in refs]
        rows = []
        for ref, row in zip(refs, found, strict=True):
            kept = history_rows.old_texts(conn, row.theme, [row.id])
            rows.append({"ref": str(ref), "theme": row.theme, "kind": row.kind, "texts": kept, "content": row.content})
            if really:
                history.forget_old_texts(conn, row.theme, [row.id])
        counts = {"texts": sum(row["texts"] for row in rows)}
        if really:
            _record(conn, "forget", [row["theme"] for row in rows], {"rows": [str(ref) for ref in refs]}, counts)
    return Correction("forget", really, rows, counts)


def forget_session(hand: Hand, theme: str, session_id: str, *, really: bool) -> Correction:
    """Delete the turns of one session of a theme, of which `rows` are the first; its memories stay."""
    with hand.backend.connection(WRITE_TIMEOUT_S) as conn:
        held = list(browse_rows.transcript(conn, theme, session_id, limit=_SESSION_SHOWN, offset=0))
        rows = [
            {"ref": str(Ref("turns", row["id"])), "store": "turns", "theme": theme, "kind": row["role"],
             "at": row["ts"].isoformat(timespec="seconds"), "content": row["content"]}
            for row in held
        ]  # fmt: skip
        counts = {"turns": browse_rows.session_themes(conn, session_id).get(theme, 0)}
        if really:
            counts["turns"] = memory_changes.forget_session(conn, theme, session_id)
            _record(conn, "forget", [theme], {"session": session_id}, counts)
    if really:
        drop_kept(hand.home, theme, without_session(session_id))
    return Correction("forget", really, rows, counts)


def _kept(hand: Hand, text: str) -> tuple[str, list[str]]:
    said = clean(text).strip()
    if not said:
        raise WrongUsage("the text is empty; say in plain words what to remember")
    content = hand.keep.text(said, Counter())
    masked = "what looked like a password, key or token was masked before it was stored"
    return content, [masked] if content != said else []


def _embedded(hand: Hand, theme: str, row_id: int, content: str) -> dict[str, Any]:
    """Give a row its vectors now where that is possible; else the agents do it."""
    documents, until = hand.documents, time.monotonic() + _EMBED_S
    try:
        while documents.is_there() and not documents.fails and time.monotonic() < until:
            if content in (chunks := documents.embed_chunks([(theme, content)])):
                hand.backend.fill([PendingRow("memories", row_id, theme, content)], chunks)
                return {"embedded": True}
    except HermesPgvectorError:
        pass  # the memory is stored; what is wrong with vectors, doctor says
    return {"embedded": False}


def _standing(entries: Sequence[Entry], in_files: set[tuple[str, str]]) -> list[str]:
    targets = sorted({entry.target for entry in entries if (entry.target, entry.content) in in_files})
    names = " and ".join(MEMORY_FILES[target] for target in targets)
    if not names:
        return []
    return [
        f"it also stands in this host's {names}, from where it is in every prompt of the profile: remove it there by "
        "hand; it is not read in again"
    ]


def _spooled(hand: Hand, texts: Sequence[tuple[str, str]]) -> list[str]:
    dropped, waiting = drop_copies(hand.home, texts)
    notes = []
    if dropped:
        notes.append(f"{dropped} writes of the same text that Postgres had rejected were dropped from the spool")
    if waiting:
        notes.append(f"{waiting} writes of the same text wait in the spool and bring it back: forget it again then")
    return notes


def _record(
    conn: DeadlineConnection, verb: str, themes: Sequence[str], what: Mapping[str, Any], done: Mapping[str, int]
) -> None:
    """Add to the operators' log; a role that is held to some themes has none, and the history tells of it alone."""
    if not row_security.has_own_themes(conn):
        record(conn, verb, {"themes": sorted(set(themes)), **what}, done)
