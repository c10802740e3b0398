"""Stored rows as an operator browses them: the rows of a theme, one row in full detail, and sessions.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...domain.errors import InvalidArgument
from ...domain.text import as_object
from ...domain.theme import ThemeRules
from ...domain.types import Store
from ...store import sessions as stored_sessions
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common import stored_rows
from ..common.operators import author
from ..common.outcome import fit_for_json
from ..common.refs import Ref, one_theme
from ..common.row_options import WHOLE, Page

_query = partial(query, package=__package__)
ACTIONS = ("added", "replaced", "moved", "removed", "superseded", "closed", "archived", "reopened")
_HISTORY_SHOWN = 50  # entries of one row
_WALKED = 300  # sessions; beyond that, walking over them takes longer than reading a large theme


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions on listed rows. `kind` is a memory's target or a turn's role.

    `said_kind` and `state` are a memory's own kind and state; a memory without them is an active fact.
    """

    kind: str | None = None
    session_id: str | None = None
    pending: bool = False
    said_kind: str | None = None
    state: str | None = None


def listed(
    conn: DeadlineConnection, store: Store, theme: str, page: Page, wanted: RowFilter, *, chars: int
) -> list[dict[str, Any]]:
    """Return rows of a theme, newest first, with the names that operators use; texts are cut to `chars` characters."""
    asked = {
        "theme": theme,
        "target" if store == "memories" else "role": wanted.kind,
        "session_id": wanted.session_id,
        "pending": wanted.pending,
        "said_kind": wanted.said_kind,
        "state": wanted.state,
        "chars": chars,
    }
    found = conn.execute(_query(f"list_{store}"), asked | page.values()).fetchall()
    said = stored_rows.structures(conn, [row.id for row in found]) if store == "memories" else {}
    return [_named(store, theme, row) | stored_rows.structure_column(said.get(row.id)) for row in found]


def said_in(
    conn: DeadlineConnection, theme: str, session_id: str, *, limit: int, offset: int, chars: int
) -> list[dict[str, Any]]:
    """Return turns of a session as `listed` does, in the order in which they were said."""
    asked = {"theme": theme, "session_id": session_id, "limit": limit, "offset": offset, "chars": chars}
    found = conn.execute(_query("list_session", one_theme=conn.spread), asked)
    return [_named("turns", theme, row) for row in found]


def _named(store: Store, theme: str, row: Any) -> dict[str, Any]:
    return {"ref": str(Ref(store, row.id)), "store": store, "theme": theme} | fit_for_json(row._asdict())


def _structure_of(conn: DeadlineConnection, ref: Ref) -> dict[str, Any]:
    return (
        stored_rows.structure_column(stored_rows.structures(conn, [ref.id]).get(ref.id))
        if ref.store == "memories"
        else {}
    )


def shown(
    conn: DeadlineConnection, ref: Ref, theme: str | None, rules: ThemeRules, *, chars: int = WHOLE
) -> dict[str, Any]:
    """Return all that is known of a row, or the history of a removed memory. Texts are cut to `chars` characters.

    Raises InvalidArgument if there is neither, or the row is in another theme than the one named.
    """
    rows = _rows(conn, ref, chars)
    past = _past_of(conn, ref, chars)
    if not rows and not past:
        raise InvalidArgument(_missing(conn, ref))
    stands_in = _meant(ref, list(dict.fromkeys(row["theme"] for row in rows or past)), theme, rules)
    # After a sequence was set back, rows of two themes, one of them perhaps removed, may have the same number.
    rows, past = _of_theme(rows, stands_in), _of_theme(past, stands_in)
    found = {"ref": str(ref), "store": ref.store, "id": ref.id} | _described(rows, stands_in) | _structure_of(conn, ref)
    return found | {"history": [_event(each) for each in past]} if ref.store == "memories" else found


def _past_of(conn: DeadlineConnection, ref: Ref, chars: int) -> list[dict[str, Any]]:
    return _history_of(conn, ref.id, Page(_HISTORY_SHOWN), chars) if ref.store == "memories" else []


def _of_theme(rows: Sequence[dict[str, Any]], theme: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["theme"] == theme]


def _meant(ref: Ref, themes: Sequence[str], given: str | None, rules: ThemeRules) -> str:
    """Return which of these themes has the row that is meant. Raises InvalidArgument."""
    meant = themes if given is None else [theme for theme in themes if theme in (given, rules.resolve_name(given))]
    if not meant:
        raise InvalidArgument(f"{ref} is a row of the theme {themes[0]!r}")
    return one_theme(ref, meant)


def _described(rows: Sequence[Mapping[str, Any]], theme: str) -> dict[str, Any]:
    if not rows:
        return {"theme": theme, "state": "removed"}
    found = fit_for_json(rows[0])
    return found | {"parts": 1 + found.pop("more_parts"), "metadata": as_object(found["metadata"])}


def _rows(conn: DeadlineConnection, ref: Ref, chars: int = WHOLE) -> list[dict[str, Any]]:
    """Return the row of this number, or those of several themes if a sequence was set back."""
    name = "show_memory" if ref.store == "memories" else "show_turn"
    return [row._asdict() for row in conn.execute(_query(name), {"id": ref.id, "chars": chars})]


def _missing(conn: DeadlineConnection, ref: Ref) -> str:
    if ref.store == "memories":
        other = Ref("turns", ref.id)
        more = f"; there is a turn {other}" if stored_rows.rows(conn, "turns", [ref.id]) else ""
        return f"there is no memory {ref}{more}; see: hermes-pgvector list"
    return f"there is no turn {ref}; see: hermes-pgvector list --store turns"


def happened(
    conn: DeadlineConnection,
    theme: str | None,
    page: Page,
    *,
    action: str | None,
    target: str | None = None,
    session: str | None = None,
    chars: int = WHOLE,
) -> list[dict[str, Any]]:
    """Return the history of a theme's memories, or of all themes' with None, newest first; texts cut to `chars`."""
    asked = {"theme": theme, "action": action, "target": target, "session_id": session, "chars": chars}
    statement = _query("list_all_history" if theme is None else "list_history")
    return [_event(row._asdict()) for row in conn.execute(statement, asked | page.values())]


def happened_to(conn: DeadlineConnection, ref: Ref, page: Page) -> list[dict[str, Any]]:
    """Return the history of one memory, newest first. Raises InvalidArgument for a turn, or if there is no history."""
    if ref.store != "memories":
        raise InvalidArgument(f"{ref} is a turn: turns are written once and have no history")
    found = _history_of(conn, ref.id, page)
    if not found and not page.offset:
        raise InvalidArgument(_missing(conn, ref) if not _rows(conn, ref) else f"{ref} has no history")
    return [_event(row) for row in found]


def _history_of(conn: DeadlineConnection, memory_id: int, page: Page, chars: int = WHOLE) -> list[dict[str, Any]]:
    """Return the history of one memory, in whichever theme and even if it was removed."""
    asked = {"memory_id": memory_id, "limit": page.limit, "offset": page.offset, "chars": chars}
    return [row._asdict() for row in conn.execute(_query("history_of_memory"), asked)]


def texts_after(conn: DeadlineConnection, ids: Sequence[int], *, chars: int) -> dict[int, str]:
    """Return, by event id, the texts that resulted from events, if they are still kept."""
    found = conn.execute(_query("texts_after"), {"ids": list(ids), "chars": chars})
    return {row.id: row.content for row in found if row.content is not None}


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one entry of the history, with the memory's ref; empty values are left out."""
    who = as_object(row["who"])
    kept = {key: value for key, value in fit_for_json({**row, "who": who}).items() if value is not None}
    return {"ref": str(Ref("memories", row["id"])), "by": author(who, row["db_role"]), **kept}


def sessions(conn: DeadlineConnection, theme: str, page: Page) -> list[dict[str, Any]]:
    """Return the sessions of a theme, most recently active first."""
    if page.offset > _WALKED:
        far_down = conn.execute(_query("sessions_far_down"), {"theme": theme} | page.values()).fetchall()
        return [
            {"session_id": row.session_id} | fit_for_json(stored_sessions.session(conn, theme, row.session_id))
            for row in far_down
        ]
    found = stored_sessions.sessions(
        conn, theme, limit=page.limit, offset=page.offset, since=page.since, until=page.until
    )
    return [fit_for_json(row) for row in found]


def session(conn: DeadlineConnection, theme: str, session_id: str) -> dict[str, Any]:
    """Return the title, the times and the number of turns of a session, and the session that it continues."""
    found = fit_for_json(stored_sessions.session(conn, theme, session_id))
    found.pop("opening")
    return found


def transcript(
    conn: DeadlineConnection, theme: str, session_id: str, *, limit: int | None, offset: int
) -> Iterator[dict[str, Any]]:
    """Yield the turns of a session in the order in which they were said."""
    for row in stored_sessions.transcript(conn, theme, session_id, limit=limit, offset=offset):
        yield fit_for_json({"ref": str(Ref("turns", row["id"])), "at": row.pop("ts"), **row})
