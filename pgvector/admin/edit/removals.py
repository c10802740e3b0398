"""Removals caused by the host's memory files: those that wait for a decision, and the restoring of memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...capture.mirror import Mirror
from ...domain.dates import days_after
from ...domain.errors import InvalidArgument, OperationRejected
from ...domain.format import plural
from ...domain.text import as_object
from ...domain.types import MEMORY_FILES
from ...store import memory_files
from ...store.connection import DeadlineConnection, translated
from ...store.memories import lock_themes, note_actor
from ...store.sql import query
from ..common.operators import operator, record_where_allowed
from ..common.outcome import Outcome
from ..common.refs import Ref, one_theme
from ..common.stored_rows import not_recalled

_query = partial(query, package=__package__)
_CHARS = 300  # of one text

Decision = Literal["confirm", "dismiss"]


def held(conn: DeadlineConnection, home: Path, days: float) -> list[dict[str, Any]]:
    """Return the memories whose removal waits, with the file that lacks them and the end of the waiting time."""
    origin = Mirror(home).origin
    return [_held_row(each, origin, days) for each in _held(conn)]


def _held(conn: DeadlineConnection) -> list[Any]:
    return conn.execute(_query("held_removals"), {"chars": _CHARS}).fetchall()


def _held_row(each: Any, origin: str, days: float) -> dict[str, Any]:
    return {
        "ref": str(Ref("memories", each.id)),
        "id": each.id,
        "theme": each.theme,
        "target": each.target,
        "content": each.content,
        "chars": each.chars,
        "file": MEMORY_FILES[each.target] + ("" if each.origin == origin else " of another home"),
        "why": each.held_why,
        "held_at": each.held_at.isoformat(timespec="seconds"),
        "stays_from": days_after(each.held_at, days).isoformat(timespec="seconds"),
    }


def decide(
    conn: DeadlineConnection,
    home: Path,
    days: float,
    decision: Decision,
    refs: Sequence[Ref] | None,
    *,
    really: bool,
    place: str = "",
) -> Outcome:
    """Remove held memories (`confirm`) or keep them (`dismiss`): those of `refs`, or all with None.

    To confirm all means those that this home's own files lack: another home's file may have been lost by accident. A
    memory that has another owner stays, and is not counted. `place`: where it was decided, for the history, if not by a
    command. Raises InvalidArgument for a number that is none of them.
    """
    verb, origin = f"removals {decision}", Mirror(home).origin
    with conn.transaction():
        chosen, notes = _chosen(conn, decision, refs, origin)
        if really:
            chosen = _still_held(conn, chosen, refs)
        stay = {each.id: each.owners for each in chosen if each.owners and decision == "confirm"}
        counts = {"memories": len({each.id for each in chosen} - stay.keys())}
        if really and chosen:
            _carry_out(conn, chosen, decision, place + verb)
            record_where_allowed(conn, place + verb, {"themes": sorted({each.theme for each in chosen})}, counts)
    rows = [_held_row(each, origin, days) for each in chosen]
    return Outcome(verb, really, counts, rows, notes=[*_staying(stay), *notes])


def _carry_out(conn: DeadlineConnection, chosen: Sequence[Any], decision: Decision, verb: str) -> None:
    if decision == "confirm":
        _confirm(conn, chosen, operator(verb))
    else:
        ids = sorted({each.id for each in chosen})
        memory_files.own_kept(conn, conn.execute(_query("keep_held"), {"ids": ids}).fetchall())


def _of_own_files(waiting: Sequence[Any], origin: str) -> tuple[list[Any], list[str]]:
    """Return the removals for the files of this home, and a note if there are more for files of other homes."""
    own = [each for each in waiting if each.origin == origin]
    others = {each.id for each in waiting} - {each.id for each in own}
    if not others:
        return own, []
    of_others = plural(
        len(others), "memory that a file of another home lacks is", "memories that files of other homes lack are"
    )
    return own, [f"{of_others} not meant by --all: decide with the --hermes-home of theirs, or by ids"]


def _staying(stay: Mapping[int, Sequence[str]]) -> list[str]:
    """Return a note for each memory that the file no longer holds but that has other owners."""
    return [
        f"{Ref('memories', id)} stays: it is remembered besides ({', '.join(owners)})" for id, owners in stay.items()
    ]


def _chosen(
    conn: DeadlineConnection, decision: Decision, refs: Sequence[Ref] | None, origin: str
) -> tuple[list[Any], list[str]]:
    """Return the held removals that `refs` name, or all that can be decided so, and notes. Raises InvalidArgument."""
    waiting = _held(conn)
    if refs is None:
        return _of_own_files(waiting, origin) if decision == "confirm" else (waiting, [])
    themes: dict[Ref, set[str]] = {}
    for each in waiting:
        themes.setdefault(Ref("memories", each.id), set()).add(each.theme)
    if missing := [str(ref) for ref in refs if ref not in themes]:
        raise InvalidArgument(f"no removal of {', '.join(missing)} waits; see: hermes-pgvector removals list")
    for ref in refs:
        one_theme(ref, themes[ref])
    return [each for each in waiting if Ref("memories", each.id) in refs], []


def _still_held(conn: DeadlineConnection, chosen: Sequence[Any], refs: Sequence[Ref] | None) -> list[Any]:
    """Wait for whoever writes there, then return the removals that still wait; no file can withdraw them from here on.

    Raises InvalidArgument if one of `refs` no longer waits.
    """
    themes = sorted({each.theme for each in chosen})
    lock_themes(conn, themes)
    ids = [each.id for each in chosen]
    locked = [row for theme in themes for row in conn.execute(_query("lock_held"), {"theme": theme, "ids": ids})]
    owners = {(row.theme, row.id, row.origin): row.owners for row in locked}
    still = [
        each._replace(owners=owners[key]) for each in chosen if (key := (each.theme, each.id, each.origin)) in owners
    ]
    if refs is not None and len(still) < len(chosen):
        raise InvalidArgument(
            "the file holds some of it again, or somebody has decided; nothing was changed: look again"
        )
    return still


def _confirm(conn: DeadlineConnection, removals: Sequence[Any], who: Mapping[str, Any]) -> None:
    """Take these entries from the files' ownership: memories without another owner are removed, and can be restored."""
    origins = {each.origin for each in removals}
    origin = origins.pop() if len(origins) == 1 else ""
    note_actor(conn, who, origin=origin, keep_removed=True)
    now = datetime.now(UTC)
    for each in removals:
        row = {"theme": each.theme, "id": each.id, "origin": each.origin, "noted_at": now}
        conn.execute(query("let_go_of_memory"), row)


# -- restore


@dataclass(frozen=True, slots=True)
class RemovedMemory:
    """A memory that was removed because of a file and can be restored. `removal` is the number of its removal."""

    removal: int
    id: int
    theme: str
    target: str
    content: str
    chars: int
    at: datetime
    who: Mapping[str, Any]

    def row(self, restored_as: int | None) -> dict[str, Any]:
        """Return it for display, under its present number."""
        number = self.id if restored_as is None else restored_as
        return {
            "ref": str(Ref("memories", number)),
            "id": number,
            "theme": self.theme,
            "target": self.target,
            "content": self.content,
            "chars": self.chars,
            "removed_at": self.at.astimezone(UTC).isoformat(timespec="seconds"),
        }


def removed(
    conn: DeadlineConnection,
    *,
    theme: str | None = None,
    ids: Sequence[int] | None = None,
    since: datetime | None = None,
    chars: int = _CHARS,
    limit: int | None = None,
    offset: int = 0,
) -> list[RemovedMemory]:
    """Return the memories that can be restored, the last removed first; texts are cut to `chars` characters."""
    asked: dict[str, Any] = {"theme": theme, "ids": None if ids is None else list(ids), "chars": chars}
    asked |= {"limit": limit, "offset": offset}
    asked["since"] = since.isoformat() if since else "-infinity"
    return [
        RemovedMemory(**row._asdict() | {"who": as_object(row.who)})
        for row in conn.execute(_query("removed_memories"), asked)
    ]


def restore(
    conn: DeadlineConnection,
    *,
    refs: Sequence[Ref] | None,
    theme: str | None,
    since: datetime | None,
    really: bool,
    verb: str = "restore",
) -> Outcome:
    """Restore memories that were removed because of a memory file, with their themes, times and metadata.

    `verb` is for the history. Raises InvalidArgument for a number of which nothing is kept.
    """
    with conn.transaction():
        found = _restorable(conn, refs, theme, since)
        if really:
            themes = {each.theme for each in found}
            lock_themes(conn, themes)
            # A writer that has just finished there may have forgotten or restored one of them.
            found = [each for each in _restorable(conn, refs, theme, since) if each.theme in themes]
        numbers: dict[int, int] = {}
        notes: list[str] = []
        if really and found:
            note_actor(conn, operator(verb))
            numbers, notes = _bring_back(conn, found, each_counts=refs is not None)
            found = [each for each in found if each.removal in numbers]
            record_where_allowed(conn, verb, {"themes": sorted(themes)}, {"memories": len(numbers)})
    rows = [each.row(numbers.get(each.removal)) for each in found]
    return Outcome("restore", really, {"memories": len(rows)}, rows, notes=notes)


def _restorable(
    conn: DeadlineConnection, refs: Sequence[Ref] | None, theme: str | None, since: datetime | None
) -> list[RemovedMemory]:
    """Return the removals to restore. Raises InvalidArgument for a number of which nothing is kept."""
    if refs is None:
        return removed(conn, theme=theme, since=since)
    found = removed(conn, theme=theme, ids=[ref.id for ref in refs], since=since)
    kept = {each.id for each in found}
    missing = ", ".join(str(ref) for ref in refs if ref.id not in kept)
    if missing:
        raise InvalidArgument(
            f"nothing of {missing} is kept that could be brought back: it still exists, was forgotten, "
            "was removed too long ago, or never existed; what can be brought back: hermes-pgvector restore --dry-run"
        )
    return found


def _bring_back(
    conn: DeadlineConnection, found: Sequence[RemovedMemory], *, each_counts: bool
) -> tuple[dict[int, int], list[str]]:
    """Restore memories, with the owner `restored`; return their numbers by that of the removal, and notes on them.

    Of each that the history does not keep in a form that can be stored, because somebody else wrote it, return a note;
    raise InvalidArgument for it if `each_counts`.
    """
    restored: dict[int, int] = {}
    unreadable: list[str] = []
    for each in found:
        back = {"removal": each.removal, "owners": ["restored"], "in_file": False}
        try:
            with translated(), conn.transaction():
                row = conn.execute(query("restore_memory"), back).fetchone()
        except OperationRejected as exc:
            ref = Ref("memories", each.id)
            unreadable.append(f"{ref} of {each.theme!r} cannot be restored: Postgres refuses what is kept of it: {exc}")
            continue
        if row is not None:
            restored[each.removal] = int(row.id)
            conn.execute(query("clear_tombstone"), {"theme": row.theme, "target": row.target, "content": row.content})
    if unreadable and each_counts:
        raise InvalidArgument("; ".join(unreadable))
    return restored, [*unreadable, *not_recalled(conn, list(restored.values()))]
