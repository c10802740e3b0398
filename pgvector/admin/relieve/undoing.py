"""Restores entries to the memory files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ...capture.mirror import Mirror
from ...domain.errors import InvalidArgument
from ...domain.types import MEMORY_FILES
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common.command_context import CommandContext
from ..common.file_fill import FileFill, fill_of
from ..common.moved_themes import moved_themes
from ..common.outcome import Outcome
from .file_entries import MemoryFile, read_file, rewrite
from .relief import TakenEntry, UndoRecord, drop_record, note_told, read_record, stored_texts

_Placed = list[tuple[int, str]]  # positions among the entries of a file, with texts


def undo(context: CommandContext, *, really: bool) -> Outcome:
    """Restore the entries of the last run to their files and positions; the memories stay.

    Raises InvalidArgument if there is nothing to undo, or the host's limit leaves no room.
    """
    home, record = context.home, read_record(context.home)
    if record is None:
        raise InvalidArgument("no run of relieve is to be undone")
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        back = _texts(conn, record)
    after = [_checked(home, record, read_file(home, target), back[target]) for target in back]
    if really:
        _put_back(context, record, back)
    rows = [{"file": MEMORY_FILES[target], "content": text} for target in back for _, text in back[target]]
    lost = len(record.entries) - len(rows)
    notes = [f"{lost} of them say something else now, or were forgotten: not put back"] if lost else []
    return Outcome("relieve", really, {"entries": len(rows)}, rows, {"files": [each.row() for each in after]}, notes)


def _texts(conn: DeadlineConnection, record: UndoRecord) -> dict[str, _Placed]:
    """Return the entries to restore to the file of each target; those in the database have their current text.

    Their themes may have other names since.
    """
    moved = moved_themes(conn)
    kept = [_under_every_name(each, moved) for each in record.entries if each.text is None]
    stored = stored_texts(conn, kept)
    back: dict[str, _Placed] = {target: [] for target in record.chars}
    for each in sorted(record.entries, key=lambda each: each.place):
        text = stored.get(each.name) if each.text is None else each.text
        if text is not None:
            back[each.target].append((each.place, text))
    return back


def _under_every_name(entry: TakenEntry, moved: Mapping[str, Sequence[str]]) -> TakenEntry:
    places = (place for theme in entry.themes for place in moved.get(theme, ()))
    return replace(entry, themes=tuple(dict.fromkeys((*entry.themes, *places))))


def _put_back(context: CommandContext, record: UndoRecord, back: dict[str, _Placed]) -> None:
    if not any(back.values()):
        return  # the record stays: the database may be another one than was meant
    _note_removed(context, [each for each in record.entries if each.text is not None])
    note_told(context.home, told=False)
    for target, entries in back.items():
        rewrite(context.home, target, partial(_with_again, context.home, record, entries))
    drop_record(context.home)


def _note_removed(context: CommandContext, removed: Sequence[TakenEntry]) -> None:
    """Record entries that the database does not keep as read, so that restoring them does not store them again."""
    mirror = Mirror(context.home)
    noted = {"origin": mirror.origin, "announced": False, "noted_at": datetime.fromtimestamp(mirror.now(), UTC)}
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        for entry in removed:
            told = noted | {"target": entry.target, "content": entry.text}
            for theme in entry.themes:
                conn.execute(query("note_mirrored"), told | {"theme": theme})


def _with_again(home: Path, record: UndoRecord, back: _Placed, now: MemoryFile) -> Sequence[str]:
    _checked(home, record, now, back)
    return now.with_again(back) if back else now.parts


def _checked(home: Path, record: UndoRecord, now: MemoryFile, back: _Placed) -> FileFill:
    """Return how full the file gets. Raises InvalidArgument if the host's own tool could no longer write it."""
    after = fill_of(home, now.target, now.entries_with_again(back))
    if back and after.chars > max(after.limit, record.chars[now.target]):
        raise InvalidArgument(
            f"with these entries {after}: more than the host takes; something was added since. Take other entries out "
            "first, or raise the limit in config.yaml. Nothing was changed"
        )
    return after
