"""Moves entries out of the memory files into the database.

An entry is first stored in the database and checked, then recorded for --undo, and only then removed from the file, so
that no entry is lost whenever this is killed.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ...capture.had_entries import HadEntries
from ...domain.errors import ConfigurationError, InvalidArgument, StoreUnavailable
from ...domain.files import read_regular_file
from ...domain.operations import RememberMemory
from ...domain.text import digest
from ...domain.types import MEMORY_FILES
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.sql import query
from ..common.command_context import CommandContext
from ..common.file_fill import fill_of
from ..common.file_replacing import locked, write_file
from ..common.operators import operator, record_where_allowed, without_verb
from ..common.outcome import Outcome
from ..common.repeat import held_back
from .file_entries import MemoryFile, rewrite
from .judging import JudgedEntry

_query = partial(query, package=__package__)
_OWNER = "relieve"  # store/memory_files.py keeps a memory of this owner when files lose it
_NAME = "relieved.json"


def relieve(
    context: CommandContext, files: Sequence[MemoryFile], chosen: Sequence[JudgedEntry], *, really: bool
) -> Outcome:
    """Move the chosen entries into the database; those removed or replaced there are only taken out of the file.

    Raises InvalidArgument for an entry that the database would not keep unchanged, StoreUnavailable without a database,
    ConfigurationError if a file cannot be written.
    """
    _refuse_secrets(chosen)
    gone = {file.target: {entry.text for entry in chosen if entry.target == file.target} for file in files}
    notes = _move(context, files, chosen, gone) if really and chosen else []
    after = [fill_of(context.home, file.target, file.entries_without(gone[file.target])) for file in files]
    facts = {"files": [each.row() for each in after]}
    return Outcome("relieve", really, {"entries": len(chosen)}, [entry.row() for entry in chosen], facts, notes)


def _refuse_secrets(chosen: Sequence[JudgedEntry]) -> None:
    if secret := [str(entry.number) for entry in chosen if entry.secret]:
        raise InvalidArgument(
            f"entry {', '.join(secret)} holds what looks like a password, key or token, which the database masks: it "
            "would be lost; take that out of the file by hand, or leave the entry there. Nothing was changed"
        )


def _move(
    context: CommandContext,
    files: Sequence[MemoryFile],
    chosen: Sequence[JudgedEntry],
    gone: Mapping[str, set[str]],
) -> list[str]:
    store(context, [entry for entry in chosen if entry.kept])
    chars = {file.target: fill_of(context.home, file.target, file.entries).chars for file in files}
    with held_back():  # with one of two files done, the numbers of the entries would be others
        save_record(context.home, [as_taken(entry) for entry in chosen], chars)
        found = [_take_out(context.home, target, texts, chosen) for target, texts in gone.items() if texts]
    return [note for notes in found for note in notes]


def _take_out(home: Path, target: str, texts: set[str], chosen: Sequence[JudgedEntry]) -> list[str]:
    """Remove entries from a file; return a note if some had been removed already."""
    before = rewrite(home, target, lambda now: now.without(texts))
    # At once: another file may have to wait for its lock, or fail.
    HadEntries(home).forget(target, [entry.text for entry in chosen if entry.target == target and entry.kept])
    missing = len(texts - set(before.entries))
    return [f"{missing} of them had gone from {MEMORY_FILES[target]} meanwhile"] if missing else []


def as_taken(entry: JudgedEntry) -> TakenEntry:
    """Return the record of an entry for --undo."""
    themes = tuple(sorted(entry.themes))
    return TakenEntry(entry.target, entry.place, digest(entry.text).hex(), themes, None if entry.kept else entry.text)


def store(context: CommandContext, entries: Sequence[JudgedEntry]) -> None:
    """Store the entries in the database. Raises StoreUnavailable if it does not keep them."""
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
        # The file may be old: a memory of the same subject that was said after it was written stays current.
        at=min(time.time(), entry.written_at),
        target=entry.target,
        content=entry.text,
        metadata=without_verb(who),
        who=who,
        owner=_OWNER,
    )


def _own(conn: DeadlineConnection, entries: Sequence[JudgedEntry]) -> None:
    """Add our owner to the stored memories, without changing their times."""
    ids: defaultdict[str, list[int]] = defaultdict(list)
    for memory in (memory for entry in entries for memory in entry.memories):
        ids[memory.theme].append(memory.id)
    for theme in sorted(ids):
        lock_theme(conn, theme)
        conn.execute(_query("own_relieved"), {"theme": theme, "ids": ids[theme]})


def _check(context: CommandContext, entries: Sequence[JudgedEntry]) -> None:
    taken = [as_taken(entry) for entry in entries]
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        stored = stored_texts(conn, taken, owned=True)
    lacking = [
        str(entry.number) for entry, each in zip(entries, taken, strict=True) if stored.get(each.name) != entry.text
    ]
    if lacking:
        raise StoreUnavailable(
            f"entry {', '.join(lacking)} was changed in the database just now; the files were left as they are: run "
            "this again"
        )


def stored_texts(
    conn: DeadlineConnection, entries: Sequence[TakenEntry], *, owned: bool = False
) -> dict[tuple[str, str], str]:
    """Return the texts of memories by target and digest; with `owned` only of those that have our owner.

    A backup that the database was set back to may be older than the run that gave it to them.
    """
    wanted = [(theme, each) for each in entries for theme in each.themes]
    asked = {
        "themes": [theme for theme, _ in wanted],
        "targets": [each.target for _, each in wanted],
        "digests": [bytes.fromhex(each.digest) for _, each in wanted],
    }
    found = conn.execute(_query("relieved_texts"), asked)
    return {(row.target, bytes(row.digest).hex()): row.content for row in found if row.owned or not owned}


@dataclass(frozen=True, slots=True)
class TakenEntry:
    """An entry that was moved: its place among those of its file, its digest in hex, and the themes that keep it.

    `text` is None if the database keeps it.
    """

    target: str
    place: int
    digest: str
    themes: tuple[str, ...]
    text: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Return the key of the entry: target and digest."""
        return self.target, self.digest


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """The record of one run: its time (seconds since the epoch), entries removed, and each file's characters before.

    `told`: False until the run, or its undoing, has ended or somebody was shown all entries since.
    """

    at: float
    entries: tuple[TakenEntry, ...]
    chars: Mapping[str, int]
    told: bool


def save_record(home: Path, entries: Sequence[TakenEntry], chars: Mapping[str, int]) -> None:
    """Write the record over that of the previous run. Raises ConfigurationError."""
    record = UndoRecord(time.time(), tuple(entries), dict(chars), told=False)
    _write_record(home, record, "nothing was taken out of the memory files")


def _write_record(home: Path, record: UndoRecord, unchanged: str) -> None:
    write_file(home / "pgvector" / _NAME, json.dumps(asdict(record)).encode(), unchanged, mode=0o600)


def one_run_at_a_time(home: Path) -> AbstractContextManager[None]:
    """Hold the lock of runs that change the files. Raises ConfigurationError if another one is under way."""
    busy = "another run of relieve is under way. Nothing was changed"
    return locked(home / "pgvector" / "relieve.lock", busy)


def is_untold(home: Path) -> bool:
    """Return whether the last run did not come to its end, and nobody was shown the entries since."""
    with suppress(ConfigurationError):  # --undo says what is wrong with the record
        record = read_record(home)
        return record is not None and not record.told
    return False


def note_told(home: Path, *, told: bool = True) -> None:
    """Note in the record, if there is one, whether the operator knows the entries. Raises ConfigurationError."""
    if is_untold(home) is told and (record := read_record(home)) is not None:
        unchanged = "the next run asks you to look at the entries first" if told else "nothing was put back"
        _write_record(home, replace(record, told=told), unchanged)


def read_record(home: Path) -> UndoRecord | None:
    """Return the record of the last run; None if there is nothing to undo. Raises ConfigurationError."""
    path = home / "pgvector" / _NAME
    try:
        found = json.loads(read_regular_file(path))
        entries = tuple(TakenEntry(**{**each, "themes": tuple(each["themes"])}) for each in found["entries"])
        return UndoRecord(float(found["at"]), entries, dict(found["chars"]), bool(found.get("told", True)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ConfigurationError(
            f"{path} cannot be read ({exc}); the memories are stored: hermes-pgvector list"
        ) from exc


def drop_record(home: Path) -> None:
    """Delete the record."""
    (home / "pgvector" / _NAME).unlink(missing_ok=True)
