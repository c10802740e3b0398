"""Single rows by their ids, and the sessions they belong to.

Functions that take a connection work inside the caller's transaction, which translates its errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from ...domain.commandline import typed
from ...domain.errors import InvalidArgument
from ...domain.types import Store
from ...store.backend import WRITE_TIMEOUT_S, Backend
from ...store.connection import DeadlineConnection
from ...store.sql import query
from .outcome import fit_for_json
from .refs import Ref

SessionRows = Store | Literal["history"]  # what a session has left: what it said, remembered, or changed
_query = partial(query, package=__package__)


def rows(conn: DeadlineConnection, store: Store, ids: Sequence[int]) -> list[Any]:
    """Return the rows that exist: id, theme, kind, at, content."""
    return conn.execute(_query(f"rows_of_{store}"), {"ids": list(ids)}).fetchall()


def check_turns(conn: DeadlineConnection, ids: Collection[int]) -> None:
    """Raise InvalidArgument if one of these turns does not exist: its number may be another turn's later."""
    if missing := set(ids) - {row.id for row in rows(conn, "turns", list(ids))}:
        raise InvalidArgument(
            f"there is no {Ref('turns', min(missing))}; nothing was changed; see: hermes-pgvector list --store turns"
        )


def beside(conn: DeadlineConnection, store: Store, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return by id what a list shows of rows beyond a search's result: chars, pending, created_at, source."""
    return {row.id: fit_for_json(row._asdict()) for row in conn.execute(_query(f"beside_{store}"), {"ids": list(ids)})}


def private(conn: DeadlineConnection, store: Store, ids: Sequence[int], shared: Sequence[str]) -> set[int]:
    """Return the ids of rows that no session of another theme may read; `shared` are the addresses of shared chats."""
    asked = {"ids": list(ids), "own": None, "shared": list(shared)}
    return {row.id for row in conn.execute(_query(f"private_{store}"), asked)}


def structures(conn: DeadlineConnection, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return by id what memories record besides their text, for those that record anything.

    That includes the ids of the memory that each `replaces` and that it is `replaced_by`.
    """
    found = {}
    for row in conn.execute(_query("structures"), {"ids": list(ids)}):
        said = {name: value for name, value in row._asdict().items() if value is not None and name != "id"}
        if "confidence" in said:
            said["confidence"] = round(said["confidence"], 3)  # a `real` has fewer exact digits than it shows
        found[int(row.id)] = said
    return found


def not_recalled(conn: DeadlineConnection, ids: Sequence[int]) -> Iterator[str]:
    """Yield a note for each of these memories that recall does not find, for example because it was superseded."""
    for id, said in sorted(structures(conn, ids).items()):
        ref, state = Ref("memories", id), said.get("state")
        if state in ("superseded", "archived"):
            current = typed(f"hermes-pgvector edit {ref} --state active --yes")
            by = f" by {Ref('memories', said['replaced_by'])}" if "replaced_by" in said else ""
            yield f"{ref} is {state}{by}, and recall does not find it; to have it hold again: {current}"
        elif "expires_at" in said and said["expires_at"] <= datetime.now(UTC):
            current = typed(f'hermes-pgvector edit {ref} --expires-at "" --yes')
            yield f"{ref} has expired, and recall does not find it; to have it hold again: {current}"


def structure_as_json(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return one memory's value of `structures` for display, with refs such as m123 in place of ids."""
    shown = fit_for_json(said)
    shown |= {name: str(Ref("memories", said[name])) for name in ("replaces", "replaced_by") if name in said}
    return shown | ({"sources": [str(Ref("turns", each)) for each in said["sources"]]} if "sources" in said else {})


def has_expired(said: Mapping[str, Any]) -> bool:
    """Return whether a memory, as `structure_as_json` shows it, has expired by this machine's clock."""
    expires_at = said.get("expires_at")
    return expires_at is not None and datetime.fromisoformat(expires_at) <= datetime.now(UTC)


def structure_column(said: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the column that a list adds to a row for a value of `structures`; empty if the memory has none."""
    return {} if said is None else {"structure": structure_as_json(said)}


def themes_of_session(conn: DeadlineConnection, session_id: str, of: SessionRows = "turns") -> dict[str, int]:
    """Return the themes in which a session of that name has rows, with their number."""
    found = conn.execute(_query(f"session_themes_of_{of}"), {"session_id": session_id})
    return {row.theme: row.rows for row in found}


def forget_session(conn: DeadlineConnection, theme: str, session_id: str) -> int:
    """Delete the turns of a session in a theme; return how many."""
    return conn.execute(_query("forget_session"), {"theme": theme, "session_id": session_id}).rowcount


def forget_trial(backend: Backend, theme: str, session_id: str, memories: Sequence[str]) -> None:
    """Delete what a trial left in a theme: a session's turns, and the kept texts of removed `memories`."""
    with backend.connection(WRITE_TIMEOUT_S) as conn:
        forget_session(conn, theme, session_id)
        conn.execute(_query("forget_kept"), {"theme": theme, "contents": list(memories)})
    backend.wrote([theme])
