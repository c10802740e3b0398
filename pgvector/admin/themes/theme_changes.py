"""Themes as an operator handles them: renamed, merged, deleted; looked at before, logged after."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from shlex import quote
from typing import Any

from ...domain.errors import InvalidArgument
from ...domain.text import clean
from ...domain.theme import ThemeRules, normalise_theme
from ...store.audit_log import operator, record
from ...store.connection import DeadlineConnection
from ...store.history import note_actor
from ..common import theme_rows as store
from ..common.progress import progress

_MOVED = ("memories", "user_facts", "turns")


@dataclass(frozen=True)
class Change:
    """What a verb means for a theme, or has done. `counts` are rows; `notes` what else there is to know."""

    verb: str
    theme: str
    into: str | None
    counts: dict[str, int]
    notes: tuple[str, ...]
    done: bool

    def render(self) -> str:
        """The change for people."""
        what = f"{self.verb} {self.theme!r}" + (f" -> {self.into!r}" if self.into else "")
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        lines = [f"{what}: {counts}", *(f"note: {note}" for note in self.notes)]
        lines.append("done" if self.done else "nothing was changed: add --yes")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The change for machines."""
        return asdict(self) | {"notes": list(self.notes)}


def listed(conn: DeadlineConnection, rules: ThemeRules) -> list[dict[str, Any]]:
    """Every theme that holds rows; `reachable` says whether a session can name it."""
    return [row | {"reachable": _is_reachable(row["theme"], rules)} for row in store.every_theme(conn)]


def shown(conn: DeadlineConnection, name: str, rules: ThemeRules) -> dict[str, Any]:
    """What one theme holds. Raises InvalidArgument when there is none of that name."""
    theme, counts = existing(conn, name, rules)
    return {"theme": theme, **counts, "reachable": _is_reachable(theme, rules)}


def rename(conn: DeadlineConnection, old: str, new: str, rules: ThemeRules, *, really: bool) -> Change:
    """Give a theme another name. Raises InvalidArgument for a name that is taken, or that no session would have."""
    with conn.transaction():
        store.begin(conn)
        theme, counts = existing(conn, old, rules)
        into, notes = _new_name(new, theme, rules)
        if into == theme:
            raise InvalidArgument(f"the theme is called {theme!r} already" + _because(new, into))
        if _rows(store.counts(conn, into)):
            raise InvalidArgument(
                f"there is a theme {into!r} already{_because(new, into)}; "
                f"to put the two together: hermes-pgvector themes merge {quote(theme)} {quote(into)}"
            )
        if theme == normalise_theme(theme, rules.identity_key):
            notes.append(
                f"sessions that still name {theme!r} go on writing there, until they have another name, "
                f"or theme_aliases says {theme}: {into}"
            )
        return _move(conn, "rename", theme, into, counts, notes, really=really)


def merge(conn: DeadlineConnection, old: str, into: str, rules: ThemeRules, *, really: bool) -> Change:
    """Move everything of one theme into another; a memory that both hold stays once.

    Raises InvalidArgument when one of the two does not exist.
    """
    with conn.transaction():
        store.begin(conn)
        theme, counts = existing(conn, old, rules)
        kept, _ = existing(conn, into, rules)
        if kept == theme:
            raise InvalidArgument(f"both names mean the theme {theme!r}")
        notes = [] if _is_reachable(kept, rules) else [_unreachable(kept)]
        return _move(conn, "merge", theme, kept, counts, notes, really=really)


def _move(
    conn: DeadlineConnection,
    verb: str,
    theme: str,
    into: str,
    counts: dict[str, Any],
    notes: list[str],
    *,
    really: bool,
) -> Change:
    if really:
        with progress(f"moved to {into}", _rows(counts)) as advance:
            note_actor(conn, operator(verb))
            done = store.move(conn, theme, into, advance)
        record(conn, verb, {"theme": theme, "into": into}, done)
    else:
        merged = store.shared(conn, theme, into)
        memories = counts["memories"] + counts["user_facts"] - merged
        done = {"memories": memories, "merged": merged, "turns": counts["turns"]}
    return Change(verb, theme, into, done, tuple(notes), really)


def delete(conn: DeadlineConnection, name: str, rules: ThemeRules, *, really: bool) -> Change:
    """Delete what a theme holds. Raises InvalidArgument when there is none of that name."""
    with conn.transaction():
        store.begin(conn)
        theme, counts = existing(conn, name, rules)
        notes = []
        if counts["in_files"]:
            notes.append(
                f"{counts['in_files']} of the memories also stood in a MEMORY.md or USER.md when it was last read; "
                "they are not read in again, and stay in the prompts of that profile until they are removed there"
            )
        done = {"memories": counts["memories"] + counts["user_facts"], "turns": counts["turns"]}
        if really:
            with progress("deleted", _rows(counts)) as advance:
                done = store.delete(conn, theme, advance)
            record(conn, "delete", {"theme": theme}, done)
        return Change("delete", theme, None, done, tuple(notes), really)


def log(conn: DeadlineConnection, limit: int) -> list[dict[str, Any]]:
    """What was done to themes, newest first."""
    return [fit_for_json(row) for row in store.log(conn, limit)]


def fit_for_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its times as ISO text."""
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}


def existing(conn: DeadlineConnection, name: str, rules: ThemeRules) -> tuple[str, dict[str, Any]]:
    """The theme that an operator means and what it holds: the very name before the form that sessions use.

    Raises InvalidArgument when there is none of that name.
    """
    for theme in dict.fromkeys((name, rules.resolve_name(name))):
        counts = store.counts(conn, theme) if theme and theme == clean(theme) else {}
        if counts and _rows(counts):
            return theme, counts
    raise InvalidArgument(f"no theme {name!r} holds anything; see: hermes-pgvector themes list")


# -- names


def _new_name(given: str, old: str, rules: ThemeRules) -> tuple[str, list[str]]:
    """The name as it is stored, and what there is to say about it."""
    name = normalise_theme(given, rules.identity_key)
    if not name:
        raise InvalidArgument("the new name is blank")
    if name.startswith("@") and not old.startswith("@"):
        raise InvalidArgument(
            f"{name!r} begins with @, which only the themes of chats do: no other session can name it"
        )
    notes = []
    if name != given:
        notes.append(f"{given!r} is stored as {name!r}: that is how sessions that name it look it up")
    if (meant := rules.aliases.get(name, name)) != name:
        raise InvalidArgument(
            f"theme_aliases makes {name!r} mean {meant!r}: no session would find what is stored there"
        )
    if rules.allowed and name not in rules.allowed and name != rules.default and not name.startswith("@"):
        notes.append(f"allowed_themes does not name {name!r}: until it does, no session has this theme")
    return name, notes


def _because(given: str, name: str) -> str:
    return f" ({given!r} is stored as that)" if given != name else ""


def _is_reachable(theme: str, rules: ThemeRules) -> bool:
    return theme == rules.resolve_name(theme)


def _unreachable(theme: str) -> str:
    return f"no session can name {theme!r} as it is stored: rename it"


def _rows(counts: dict[str, Any]) -> int:
    return sum(int(counts[name]) for name in _MOVED)
