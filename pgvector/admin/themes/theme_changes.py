"""Renaming, merging and deleting of themes by an operator: shown before, logged after."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Any

from ...config.settings import Settings
from ...domain.errors import InvalidArgument
from ...domain.format import plural
from ...domain.theme import ThemeRules, ThemeSet, is_chat, normalise_theme
from ...store.connection import DeadlineConnection
from ...store.memories import note_actor
from ..common import row_security, theme_rows
from ..common.operators import operator, record
from ..common.outcome import Outcome, fit_for_json
from ..common.progress import progress
from ..common.retention_policy import RetentionPolicy
from ..common.theme_indexes import left_behind
from ..common.theme_names import existing, named_exactly, not_allowed
from ..common.theme_rows import rows_in
from . import theme_moves

_LOCK = 731057945  # so that one change of themes runs at a time, and no batch of an import, which shares it


def listed(conn: DeadlineConnection, rules: ThemeRules) -> list[dict[str, Any]]:
    """Return every theme that holds rows; `reachable` says whether a session can name it."""
    rows = theme_rows.every_theme(conn)
    return [fit_for_json(row) | {"reachable": _is_reachable(row["theme"], rules)} for row in rows]


def shown(conn: DeadlineConnection, name: str, rules: ThemeRules) -> dict[str, Any]:
    """Return what one theme holds. Raises InvalidArgument if there is no theme of that name."""
    theme, counts = existing(conn, name, rules)
    return {"theme": theme, **fit_for_json(counts), "reachable": _is_reachable(theme, rules)}


def rename(conn: DeadlineConnection, old: str, new: str, rules: ThemeRules, *, really: bool) -> Outcome:
    """Rename a theme. Raises InvalidArgument if the new name is taken, or is one that no session would have."""
    with conn.transaction():
        _begin(conn, really=really)
        theme, counts = existing(conn, old, rules)
        into, notes = _new_name(new, theme, rules)
        if into == theme:
            raise InvalidArgument(f"the theme is called {theme!r} already" + _because(new, into))
        if rows_in(theme_rows.counts(conn, into)):
            raise InvalidArgument(
                f"there is a theme {into!r} already{_because(new, into)}; "
                f"to put the two together: hermes-pgvector themes merge {quote(theme)} {quote(into)}"
            )
        notes += _still_named(theme, into, rules)
        return _move(conn, "rename", theme, into, counts, notes, really=really)


def merge(conn: DeadlineConnection, old: str, into: str, rules: ThemeRules, *, really: bool) -> Outcome:
    """Move everything of one theme into another; a memory that both hold is kept once.

    Raises InvalidArgument if one of the two does not exist.
    """
    with conn.transaction():
        _begin(conn, really=really)
        theme, counts = existing(conn, old, rules)
        kept, _ = existing(conn, into, rules)
        if kept == theme:
            raise InvalidArgument(f"both names mean the theme {theme!r}")
        notes = [] if _is_reachable(kept, rules) else [f"no session can name {kept!r} as it is stored: rename it"]
        notes += _superseding(theme_moves.contested(conn, theme, kept))
        notes += _still_named(theme, kept, rules)
        return _move(conn, "merge", theme, kept, counts, notes, really=really)


def _superseding(contested: int) -> Iterator[str]:
    """Yield a note on memories that a merge supersedes, which moving them back does not undo."""
    if contested:
        have = "has" if contested == 1 else "have"
        yield (
            f"{plural(contested, 'subject')} {have} a current memory in both: the one said last stays current, the "
            "other is superseded, and recall does not find it any more"
        )


def _still_named(theme: str, into: str, rules: ThemeRules) -> Iterator[str]:
    """Yield a note if sessions may still ask for the old name, and would find an empty theme."""
    if theme == normalise_theme(theme, rules.identity_key) and rules.resolve_name(theme) != into:
        yield (
            f"sessions that still name {theme!r} go on writing there, until they have another name, "
            f"or theme_aliases says {theme}: {into}"
        )


def _begin(conn: DeadlineConnection, *, really: bool) -> None:
    """Begin a change after those of other operators have ended, so that it sees their results.

    Raises ConfigurationError for a role that may not log it, also where it would only be shown.
    """
    theme_rows.begin(conn)
    row_security.refuse_confined(conn, "changes of themes are for the log, which it may not write")
    if really:
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _move(
    conn: DeadlineConnection,
    verb: str,
    theme: str,
    into: str,
    counts: dict[str, Any],
    notes: list[str],
    *,
    really: bool,
) -> Outcome:
    notes += left_behind(conn, theme, into)
    notes += [
        f"the role {role} may use {theme!r} and not {into!r}: hermes-pgvector tenants grant {quote(role)} {quote(into)}"
        for role in row_security.confined_to(conn, theme, without=into)
    ]
    if really:
        with progress(f"moved to {into}", rows_in(counts)) as advance:
            note_actor(conn, operator(verb))
            done = theme_moves.move(conn, theme, into, advance)
        record(conn, verb, {"theme": theme, "into": into}, done)
    else:
        merged = theme_moves.shared(conn, theme, into)
        memories = counts["memories"] + counts["user_facts"] - merged
        done = {"memories": memories, "merged": merged, "turns": counts["turns"]}
    return Outcome(verb, really, done, facts={"theme": theme, "into": into}, notes=notes)


def delete(conn: DeadlineConnection, name: str, rules: ThemeRules, *, really: bool) -> Outcome:
    """Delete what a theme and its history hold. Raises InvalidArgument if there is no theme of that name."""
    with conn.transaction():
        _begin(conn, really=really)
        texts = theme_moves.texts_kept(conn, name)
        theme, counts = (name, theme_rows.counts(conn, name)) if texts else named_exactly(conn, name, rules)
        notes = left_behind(conn, theme)
        for role in row_security.confined_to(conn, theme):
            revoke = f"hermes-pgvector tenants revoke {quote(role)} {quote(theme)} --yes"
            notes.append(f"the role {role} may still use {theme!r}: {revoke}")
        if texts:
            kept = plural(texts, "earlier or removed text")
            notes.append(f"{kept} in its history {'went' if really else 'goes' if texts == 1 else 'go'} as well")
        if counts["in_files"]:
            notes.append(theme_rows.note_of_files(counts["in_files"]))
        done = {"memories": counts["memories"] + counts["user_facts"], "turns": counts["turns"]}
        if really:
            with progress("deleted", rows_in(counts)) as advance:
                done = theme_moves.delete(conn, theme, advance)
            record(conn, "delete", {"theme": theme}, done)
        return Outcome("delete", really, done, facts={"theme": theme, "into": None}, notes=notes)


# -- settings


def other_in_settings(settings: Settings, theme: str, into: str) -> Iterator[str]:
    """Yield the settings of this home that differ between the theme that rows came from and the one they went to."""
    retention = RetentionPolicy(settings.retention, settings.identity_key)
    before, now = (_kept_for(retention, each) for each in (theme, into))
    if before != now:
        yield f"the setting `retention` keeps turns of {theme!r} {before}, and of {into!r} {now}"
    names = {
        "recall_off": settings.recall_off,
        "cross_theme": [each for each in settings.cross_theme if each not in ("agents", "all", "none")],
        "shared_chats": [each for each in settings.shared_chats if is_chat(each)],  # without the platforms in it
    }
    for name, words in names.items():
        named = ThemeSet(words, settings.identity_key)
        if (theme in named) != (into in named):
            which, other = (theme, into) if theme in named else (into, theme)
            yield f"the setting `{name}` means {which!r}, and not {other!r}"


def _kept_for(retention: RetentionPolicy, theme: str) -> str:
    period = retention.of(theme)
    return f"for {period}" if period else "for ever"


# -- names


def _new_name(given: str, old: str, rules: ThemeRules) -> tuple[str, list[str]]:
    """Return the name as it is stored, and notes about it for the operator."""
    name = normalise_theme(given, rules.identity_key)
    if not name:
        raise InvalidArgument("the new name is blank")
    if is_chat(name) and not is_chat(old):
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
    notes += [note] if (note := not_allowed(name, rules)) else []
    return name, notes


def _because(given: str, name: str) -> str:
    return f" ({given!r} is stored as that)" if given != name else ""


def _is_reachable(theme: str, rules: ThemeRules) -> bool:
    return theme == rules.resolve_name(theme)
