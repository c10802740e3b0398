"""What is stored, as an operator looks at it: rows of a theme, one row with all that is known of it, sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ...domain.errors import InvalidArgument, WrongUsage
from ...domain.text import clean
from ...domain.theme import Surface, ThemeRules, session_themes
from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.theme_names import theme_names
from ..common import browse_rows as store
from ..common import history_rows
from ..common.browse_rows import Filter, Window
from ..common.refs import Ref
from ..common.sharing import profile_of
from ..themes.theme_changes import fit_for_json

OPENING_CHARS = 300  # of a session's first turn
_NAMED = 12  # themes in a message
_HISTORY_SHOWN = 50  # of one row


def theme_to_read(conn: DeadlineConnection, given: str | None, rules: ThemeRules, home: Path) -> str:
    """The theme that an operator means: the very name before the form that sessions use.

    Where none is named, that of this home's own sessions, or the only one there is. Raises InvalidArgument.
    """
    if given is not None:
        for theme in dict.fromkeys((given, rules.resolve_name(given))):
            if theme and theme == clean(theme) and store.theme_exists(conn, theme):
                return theme
        raise InvalidArgument(f"no theme {given!r} holds anything; see: hermes-pgvector themes list")
    own = session_themes(Surface(profile=profile_of(home)), rules).memories.name
    if store.theme_exists(conn, own):
        return own
    names = theme_names(conn)
    if len(names) > 1:
        some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        raise InvalidArgument(f"this home's own theme {own!r} holds nothing; name one with --theme: {some}")
    return names[0] if names else own


def theme_to_write(given: str | None, rules: ThemeRules, home: Path) -> tuple[str, str]:
    """The theme that a new memory gets, and what there is to say about it. Raises InvalidArgument for a blank name."""
    if given is None:
        return session_themes(Surface(profile=profile_of(home)), rules).memories.name, ""
    theme = rules.resolve_name(given)
    if not theme:
        raise InvalidArgument("the theme's name is blank")
    if rules.allowed and theme not in rules.allowed and theme != rules.default and not theme.startswith("@"):
        return theme, f"allowed_themes does not name {theme!r}: until it does, no session has this theme"
    return theme, "" if theme == given else f"{given!r} is stored as {theme!r}"


def listed(
    conn: DeadlineConnection, kind: Store, theme: str, window: Window, wanted: Filter, *, chars: int
) -> list[dict[str, Any]]:
    """Rows of a theme, newest first, with what an operator calls them."""
    return [
        {"ref": str(Ref(kind, row["id"])), "store": kind, "theme": theme} | fit_for_json(row)
        for row in store.listed(conn, kind, theme, window, wanted, chars=chars)
    ]


def shown(conn: DeadlineConnection, ref: Ref, theme: str | None, rules: ThemeRules) -> dict[str, Any]:
    """All that is known of a row; of a memory that is gone, its history.

    Raises InvalidArgument where there is neither, or the row stands in another theme than the one that was named.
    """
    row = store.shown(conn, ref.store, ref.id)
    past = history_rows.of_memory(conn, ref.id, limit=_HISTORY_SHOWN) if ref.store == "memories" else []
    if row is None and not past:
        raise InvalidArgument(_missing(conn, ref))
    known = row or past[0]
    if theme is not None and known["theme"] not in (theme, rules.resolve_name(theme)):
        raise InvalidArgument(f"{ref} is a row of the theme {known['theme']!r}")
    if row is None:
        found: dict[str, Any] = {"ref": str(ref), "store": ref.store, "theme": known["theme"], "state": "removed"}
    else:
        found = {"ref": str(ref), "store": ref.store} | fit_for_json(row)
        found["state"] = "waits for its vector" if row["pending"] else "embedded"
        found["parts"] = 1 + found.pop("more_parts")
    if ref.store == "memories":
        found["history"] = [event(each) for each in past]
    return found


def _missing(conn: DeadlineConnection, ref: Ref) -> str:
    if ref.store == "memories":
        other = Ref("turns", ref.id)
        more = f"; there is a turn {other}" if store.rows(conn, "turns", [ref.id]) else ""
        return f"there is no memory {ref}{more}; see: hermes-pgvector list"
    return f"there is no turn {ref}; see: hermes-pgvector list --store turns"


def happened(
    conn: DeadlineConnection, theme: str, window: Window, *, action: str | None, target: str | None, session: str | None
) -> list[dict[str, Any]]:
    """What happened to the memories of a theme, newest first."""
    found = history_rows.of_theme(conn, theme, window, action=action, target=target, session_id=session)
    return [event(row) for row in found]


def happened_to(conn: DeadlineConnection, ref: Ref, window: Window) -> list[dict[str, Any]]:
    """What happened to one memory, newest first. Raises InvalidArgument for a turn, or where nothing is known."""
    if ref.store != "memories":
        raise InvalidArgument(f"{ref} is a turn: turns are written once and have no history")
    found = history_rows.of_memory(conn, ref.id, limit=window.limit, offset=window.offset)
    if not found and not window.offset:
        raise InvalidArgument(_missing(conn, ref) if store.shown(conn, *ref) is None else f"{ref} has no history")
    return [event(row) for row in found]


def event(row: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of the history, with what an operator calls the memory; what says nothing is left out."""
    kept = {key: value for key, value in fit_for_json(dict(row)).items() if value is not None}
    memory = kept.pop("memory_id")
    return {"ref": str(Ref("memories", memory)), "memory_id": memory, "by": author(row["who"], row["db_role"]), **kept}


def author(who: Mapping[str, Any], db_role: str) -> str:
    """Who did something, in a few words."""
    source = str(who.get("source") or "")
    if source == "operator":
        return f"{who.get('os_user', '?')}@{who.get('host', '?')} ({who.get('verb', 'operator')})"
    if not source:
        return f"database role {db_role}"
    where = "/".join(str(who[key]) for key in ("platform", "profile") if who.get(key))
    return f"{source} ({where})" if where else source


def sessions(conn: DeadlineConnection, theme: str, window: Window) -> list[dict[str, Any]]:
    """The sessions of a theme, those that spoke last first."""
    return [fit_for_json(row) for row in store.sessions(conn, theme, window, chars=OPENING_CHARS)]


def session_place(conn: DeadlineConnection, session_id: str, given: str | None, rules: ThemeRules) -> str:
    """The theme in which a session has turns. Raises InvalidArgument where there is none, or more than one."""
    themes = list(store.session_themes(conn, session_id))
    if given is not None:
        themes = [theme for theme in themes if theme in (given, rules.resolve_name(given))]
    if not themes:
        where = f" in the theme {given!r}" if given is not None else ""
        raise InvalidArgument(f"no session {session_id!r} has turns{where}; see: hermes-pgvector sessions list")
    if len(themes) > 1:
        names = ", ".join(themes[:_NAMED])
        raise InvalidArgument(f"{session_id!r} is a session of several themes; name one with --theme: {names}")
    return themes[0]


def transcript(
    conn: DeadlineConnection, theme: str, session_id: str, *, limit: int | None, offset: int
) -> Iterator[dict[str, Any]]:
    """The turns of a session in the order in which they were said."""
    for row in store.transcript(conn, theme, session_id, limit=limit, offset=offset):
        yield {"ref": str(Ref("turns", row["id"]))} | fit_for_json(row)


def window(*, limit: int, offset: int, since: datetime | None, until: datetime | None, most: int) -> Window:
    """Checked bounds of a page. Raises WrongUsage."""
    if not 1 <= limit <= most:
        raise WrongUsage(f"--limit must be 1 to {most}")
    if offset < 0:
        raise WrongUsage("--offset must not be negative")
    if since is not None and until is not None and since >= until:
        raise WrongUsage("--since is not before --until: nothing can lie between them")
    return Window(limit, offset, since, until)
