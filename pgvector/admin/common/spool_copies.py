"""Drops what the spools of a home still hold of something that an operator deletes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ...capture.kept import Spare, change_kept, without_texts
from ...domain.errors import InvalidArgument, SpoolError
from ...domain.format import plural
from ...domain.operations import MalformedWrite, MemoryOperation, Operation, RemoveMemory, ReplaceMemory, StoreTurn
from .spool_views import drop, opened_spool, spool_paths

_EVERY = 1 << 61  # more operations than a spool can hold


@dataclass
class SpoolCopies:
    """The number of copies: `rejected` writes, which are dropped, and `waiting` ones, which bring back what is deleted.

    `untouched` says of each file that could not be read or changed why. The rejected copies in it are neither counted
    nor dropped.
    """

    rejected: int = 0
    waiting: int = 0
    untouched: list[str] = field(default_factory=list)

    def notes(self, what: str, *, really: bool, again: str) -> list[str]:
        """Return notes for the operator; `what` is a phrase like "of the same text", `again` the verb to repeat."""
        notes = []
        if self.rejected:
            verb = "was dropped" if self.rejected == 1 else "were dropped"
            said = f"{plural(self.rejected, 'write')} {what} that Postgres had rejected"
            notes.append(f"{said} {verb if really else 'would be dropped'}")
        if self.waiting:
            verb = "waits in the spool and brings" if self.waiting == 1 else "wait in the spool and bring"
            notes.append(f"{plural(self.waiting, 'write')} {what} {verb} it back: {again} it again then")
        return notes + self.notes_on_untouched(what)

    def require_none(self, of: str, *, again: str) -> None:
        """Raise InvalidArgument if there are any, for what is to be deleted and not stored; `of` names it."""
        many = self.waiting + self.rejected
        if many:
            raise InvalidArgument(
                f"nothing of {of} is stored yet; {plural(many, 'write')} of it {'is' if many == 1 else 'are'} in the "
                f"spool: {again} it once an agent has stored them, or drop what Postgres rejected: hermes-pgvector "
                "spool list"
            )

    def notes_on_waiting(self, what: str, *, again: str) -> list[str]:
        """Return notes for a verb that drops nothing from the spool; `what` and `again` as for `notes`."""
        return replace(self, rejected=0).notes(what, really=False, again=again)

    def notes_on_untouched(self, what: str) -> list[str]:
        """Return a note on each file in which copies may be left."""
        return [
            f"{why}; rejected writes {what} may be left in it: hermes-pgvector spool list, and spool drop"
            for why in self.untouched
        ]


def drop_copies(home: Path, texts: Collection[tuple[str, str]], *, really: bool = True) -> SpoolCopies:
    """Count the copies of these (theme, text) pairs, and drop those that Postgres rejected if `really`.

    The texts are then also removed from acknowledged writes, which are kept for a while.
    """
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for theme, text in texts:
        wanted[theme].add(text)
    if not wanted:
        return SpoolCopies()
    spares: dict[str, Spare] = {theme: partial(without_texts, gone=gone.__contains__) for theme, gone in wanted.items()}
    return _dropped(home, lambda op: _holds_one(op, wanted), spares, really=really)


def drop_of(home: Path, theme: str, session_id: str | None = None, *, really: bool = True) -> SpoolCopies:
    """Do as `drop_copies` for the writes of a theme, or only for the turns of one of its sessions.

    Acknowledged writes of it are dropped as a whole.
    """
    spares: dict[str, Spare] = {theme: lambda op: None if _is_of(op, session_id) else op}
    return _dropped(home, lambda op: op.theme == theme and _is_of(op, session_id), spares, really=really)


def of_session(home: Path, session_id: str, theme: str | None) -> SpoolCopies:
    """Count the turns of a session, in a theme or in any; drop nothing."""
    return _dropped(home, lambda op: theme in (None, op.theme) and _is_of(op, session_id), {}, really=False)


def _dropped(
    home: Path, is_copy: Callable[[Operation], bool], spares: Mapping[str, Spare], *, really: bool
) -> SpoolCopies:
    found = SpoolCopies()
    for path in spool_paths(home):
        try:
            with opened_spool(path) as spool:
                rejected = [item.operation for item in spool.rejected() if is_copy(item.operation)]
                found.waiting += sum(bool(op.texts()) and is_copy(op) for op in spool.take(_EVERY))
                found.rejected += len(drop(spool, rejected) if really else rejected)
                for theme, spare in spares.items() if really else ():
                    change_kept(spool, theme, spare)
        except SpoolError as exc:
            if path.exists():  # otherwise its writes have reached Postgres meanwhile
                found.untouched.append(str(exc))
    return found


def _holds_one(op: Operation, wanted: Mapping[str, set[str]]) -> bool:
    return bool(_said_texts(op) & wanted.get(op.theme, set()))


def _said_texts(op: Operation) -> set[str]:
    """Return the texts that a write would store as memories, and the text it would replace or remove."""
    match op:
        case MalformedWrite(payload=payload):
            many = payload.get("contents")
            found = [payload.get("content"), payload.get("old_text"), *(many if isinstance(many, list) else [])]
            return {text for text in found if isinstance(text, str)}
        case ReplaceMemory() | RemoveMemory():
            return {*op.texts(), op.old_text}
        case MemoryOperation():
            return {*op.texts()}
    return set()


def _is_of(op: Operation, session_id: str | None) -> bool:
    """Return whether a write is a turn of the session; every write is if no session is named."""
    match op:
        case StoreTurn():
            return session_id in (None, op.session_id)
        case MalformedWrite(payload=payload):
            return session_id in (None, payload.get("session_id"))
    return session_id is None
