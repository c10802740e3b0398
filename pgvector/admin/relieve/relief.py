"""Entries moved out of the memory files into the database.

First the database has an entry, checked, then the record for --undo, and only then the file lets go: whenever this is
killed, no entry is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import methodcaller
from pathlib import Path

from ...domain.errors import InvalidArgument
from ...domain.types import MEMORY_FILES
from ..common.command_context import CommandContext
from ..common.file_fill import fill_of
from ..common.outcome import Outcome
from .file_entries import MemoryFile, rewrite
from .judging import JudgedEntry
from .kept_entries import as_taken, store
from .undo_record import save_record


def relieve(
    context: CommandContext, files: Sequence[MemoryFile], chosen: Sequence[JudgedEntry], *, really: bool
) -> Outcome:
    """Move the chosen entries into the database. What was removed or replaced there is taken out and not stored again.

    Raises InvalidArgument for an entry that the database would not keep as it is, StoreUnavailable without a database,
    ConfigurationError where a file cannot be written.
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
    save_record(context.home, [as_taken(entry) for entry in chosen], chars)
    return [note for target, texts in gone.items() if texts for note in _take_out(context.home, target, texts)]


def _take_out(home: Path, target: str, texts: set[str]) -> list[str]:
    """Take entries out of a file; return a note where somebody was faster."""
    before = rewrite(home, target, methodcaller("without", texts))
    missing = len(texts - set(before.entries))
    return [f"{missing} of them had gone from {MEMORY_FILES[target]} meanwhile"] if missing else []
