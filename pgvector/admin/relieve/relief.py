"""Entries moved out of the memory files into the database, and back.

First the database has an entry, checked, then the record for --undo, and only then the file lets go: whenever this is
killed, no entry is lost. The owner `relieve` tells the mirror that the file may lack these entries.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

from ...capture.mirror import Mirror
from ...domain.errors import InvalidArgument, StoreUnavailable
from ...domain.operations import RememberMemory
from ...domain.text import digest
from ...domain.types import MEMORY_FILES
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.sql import query
from ..common.command_context import CommandContext
from ..common.file_fill import FileFill, fill_of, limit_of
from ..common.operators import operator, record_where_allowed
from ..common.outcome import Outcome
from .file_entries import MemoryFile, read_file, rewrite
from .judging import JudgedEntry
from .undo_record import TakenEntry, UndoRecord, drop_record, read_record, save_record

_query = partial(query, package=__package__)
_OWNER = "relieve"


def relieve(
    context: CommandContext, files: Sequence[MemoryFile], chosen: Sequence[JudgedEntry], *, really: bool
) -> Outcome:
    """Move the chosen entries into the database. What was removed or replaced there is taken out and not stored again.

    Raises InvalidArgument for an entry that the database would not keep as it is, StoreUnavailable without a database,
    ConfigurationError where a file cannot be written.
    """
    _refuse_secrets(chosen)
    gone = {file.target: {entry.text for entry in chosen if entry.target == file.target} for file in files}
    notes: list[str] = []
    if really and chosen:
        _store(context, chosen)
        chars = {file.target: fill_of(context.home, file.target, file.entries).chars for file in files}
        save_record(context.home, [_taken(entry) for entry in chosen], chars)
        notes = _take_out(context.home, gone)
    after = [_fill(context.home, file.target, file.without(gone[file.target])) for file in files]
    rows = [entry.row() for entry in chosen]
    facts = {"files": [file_row(each) for each in after]}
    return Outcome("relieve", really, {"entries": len(chosen)}, rows, facts, notes)


def file_row(fill: FileFill) -> dict[str, Any]:
    """Return how full a file is, for machines and for a table."""
    return {
        "file": fill.file,
        "entries": fill.entries,
        "chars": fill.chars,
        "limit": fill.limit,
        "share": round(fill.share, 3),
    }


def _refuse_secrets(chosen: Sequence[JudgedEntry]) -> None:
    if secret := [str(entry.number) for entry in chosen if entry.secret]:
        raise InvalidArgument(
            f"entry {', '.join(secret)} holds what looks like a password, key or token, which the database masks: it "
            "would be lost; take that out of the file by hand, or leave the entry there. Nothing was changed"
        )


def _fill(home: Path, target: str, parts: Sequence[str]) -> FileFill:
    return fill_of(home, target, MemoryFile(target, home, tuple(parts)).entries)


def _taken(entry: JudgedEntry) -> TakenEntry:
    kept = _is_kept(entry)
    themes = {memory.theme for memory in entry.memories} or {entry.theme}
    return TakenEntry(
        entry.target, entry.place, digest(entry.text).hex(), tuple(sorted(themes)), None if kept else entry.text
    )


def _is_kept(entry: JudgedEntry) -> bool:
    """Return whether the database is to hold the entry: one that was removed or replaced there stays so."""
    return bool(entry.memories) or not entry.is_a("removed", "superseded")


def _store(context: CommandContext, chosen: Sequence[JudgedEntry]) -> None:
    """Have the database keep the entries whatever the files hold. Raises StoreUnavailable where it does not."""
    kept = [entry for entry in chosen if _is_kept(entry)]
    who = operator("relieve")
    metadata = {key: who[key] for key in ("source", "os_user", "host")}
    new = [
        RememberMemory(
            theme=entry.theme,
            at=time.time(),
            target=entry.target,
            content=entry.text,
            metadata=metadata,
            who=who,
            owner=_OWNER,
        )
        for entry in kept
        if not entry.memories
    ]
    if new:
        context.backend.apply(new, {})
    themes = sorted({memory.theme for entry in kept for memory in entry.memories})
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        for theme in themes:
            lock_theme(conn, theme)
            ids = [memory.id for entry in kept for memory in entry.memories if memory.theme == theme]
            conn.execute(_query("own_relieved"), {"theme": theme, "ids": ids})
        every = sorted({*themes, *(op.theme for op in new)})
        record_where_allowed(conn, "relieve", {"themes": every}, {"memories": len(kept)})
    taken = [_taken(entry) for entry in kept]
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        stored = _stored_texts(conn, taken)
    if lacking := [entry for entry, each in zip(kept, taken, strict=True) if stored.get(_key(each)) != entry.text]:
        raise StoreUnavailable(
            f"entry {', '.join(str(entry.number) for entry in lacking)} was changed in the database just now; the "
            "files were left as they are: run this again"
        )


def _key(entry: TakenEntry) -> tuple[str, str]:
    return entry.target, entry.digest


def _stored_texts(conn: DeadlineConnection, entries: Sequence[TakenEntry]) -> dict[tuple[str, str], str]:
    """Return the texts that the database keeps for us, by target and digest."""
    wanted = [(theme, each.target, bytes.fromhex(each.digest)) for each in entries for theme in each.themes]
    asked = dict(zip(("themes", "targets", "digests"), map(list, zip(*wanted, strict=True)), strict=False))
    if not wanted:
        return {}
    return {(row.target, bytes(row.digest).hex()): row.content for row in conn.execute(_query("relieved_texts"), asked)}


def _take_out(home: Path, gone: Mapping[str, set[str]]) -> list[str]:
    """Take entries out of the files; return a note where somebody was faster."""
    notes = []
    for target, texts in gone.items():
        if not texts:
            continue
        before = rewrite(home, target, methodcaller("without", texts))
        if missing := len(texts - set(before.entries)):
            notes.append(f"{missing} of them had gone from {MEMORY_FILES[target]} meanwhile; they are remembered")
    return notes


# -- undo


def undo(context: CommandContext, *, really: bool) -> Outcome:
    """Put the entries of the last run back into their files, where they stood; the memories stay.

    Raises InvalidArgument where there is nothing to undo, or the host's limit leaves no room.
    """
    record = read_record(context.home)
    if record is None:
        raise InvalidArgument("no run of relieve is to be undone")
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        stored = _stored_texts(conn, [each for each in record.entries if each.text is None])
    back: dict[str, list[tuple[int, str]]] = {target: [] for target in record.chars}
    for each in record.entries:
        text = stored.get(_key(each)) if each.text is None else each.text
        if text is not None:
            back[each.target].append((each.place, text))
    counts = {"entries": sum(map(len, back.values()))}
    lost = len(record.entries) - counts["entries"]
    notes = [f"{lost} of them say something else now, or were forgotten: not put back"] if lost else []
    after = [_checked(context.home, record, read_file(context.home, target), back[target]) for target in back]
    if really:
        _note_removed(context, record)
        for target, entries in back.items():
            rewrite(context.home, target, partial(_with_again, context.home, record, entries))
        drop_record(context.home)
    rows = [{"file": MEMORY_FILES[target], "content": text} for target in back for _, text in sorted(back[target])]
    return Outcome("relieve", really, counts, rows, {"files": [file_row(each) for each in after]}, notes)


def _note_removed(context: CommandContext, record: UndoRecord) -> None:
    """Note what the database does not keep as read, so that its return to a file does not store it again."""
    mirror = Mirror(context.home)
    noted = {"origin": mirror.origin, "announced": False, "noted_at": datetime.fromtimestamp(mirror.now(), UTC)}
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        for each in record.entries:
            for theme in each.themes if each.text is not None else ():
                told = {"theme": theme, "target": each.target, "content": each.text}
                conn.execute(query("note_mirrored"), noted | told)


def _with_again(home: Path, record: UndoRecord, back: Sequence[tuple[int, str]], now: MemoryFile) -> Sequence[str]:
    _checked(home, record, now, back)
    return now.with_again(back) if back else now.parts


def _checked(home: Path, record: UndoRecord, now: MemoryFile, back: Sequence[tuple[int, str]]) -> FileFill:
    """Return how full the file gets. Raises InvalidArgument where the host's own tool could not write it any more."""
    after = _fill(home, now.target, now.with_again(back))
    most = max(limit_of(home, now.target), record.chars[now.target])
    if back and after.chars > most:
        raise InvalidArgument(
            f"with these entries {after}: more than the host takes; something was added since. Take other entries out "
            "first, or raise the limit in config.yaml. Nothing was changed"
        )
    return after
