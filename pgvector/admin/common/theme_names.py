"""The theme that an operator means: a name as stored takes precedence over the form that sessions use."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...domain.errors import InvalidArgument, WrongUsage
from ...domain.text import clean
from ...domain.theme import Surface, ThemeRules, is_chat, session_themes
from ...host.session_context import profile_of
from ...store.connection import DeadlineConnection
from ...store.vector_search import theme_names
from . import stored_rows
from .outcome import first_of
from .stored_rows import SessionRows
from .theme_rows import counts, every_theme, rows_in, theme_exists

_NAMED = 12  # themes listed in a message


def theme_to_read(conn: DeadlineConnection, given: str | None, rules: ThemeRules, home: Path) -> str:
    """Return the theme that an operator means.

    If none is named, it is the one of this home's own sessions, or else the only one there is. Raises InvalidArgument.
    """
    if given is not None:
        theme = next((name for name in _meant(given, rules) if theme_exists(conn, name)), None)
        if theme is None:
            raise _nothing_in(given)
        return theme
    own = own_theme(rules, home)
    if theme_exists(conn, own):
        return own
    names = theme_names(conn)
    if len(names) > 1:
        some = first_of(names, _NAMED)
        raise InvalidArgument(f"this home's own theme {own!r} holds nothing; name one with --theme: {some}")
    return names[0] if names else own


def theme_with_session(conn: DeadlineConnection, session_id: str, of: SessionRows) -> str | None:
    """Return the one theme in which a session has such rows; None if there is none. Raises InvalidArgument for more."""
    themes = list(stored_rows.themes_of_session(conn, session_id, of))
    if len(themes) > 1:
        raise _several(session_id, themes)
    return themes[0] if themes else None


def require_session(conn: DeadlineConnection, session_id: str) -> None:
    """Raise InvalidArgument if no theme has a turn, a memory or a change of a session of that name."""
    left: tuple[SessionRows, ...] = ("turns", "memories", "history")
    if not any(stored_rows.themes_of_session(conn, session_id, of) for of in left):
        raise InvalidArgument(f"nothing is stored of a session {session_id!r}; see: hermes-pgvector sessions list")


def theme_to_write(given: str | None, rules: ThemeRules, home: Path) -> tuple[str, str]:
    """Return the theme for a new memory, and a note about it, or "".

    Raises InvalidArgument for a blank name.
    """
    if given is None:
        return own_theme(rules, home), ""
    theme = rules.resolve_name(given)
    if not theme:
        raise InvalidArgument("the theme's name is blank")
    note = not_allowed(theme, rules) or (f"{given!r} is stored as {theme!r}" if theme != given else "")
    return theme, note


def not_allowed(theme: str, rules: ThemeRules) -> str:
    """Return a warning if `allowed_themes` keeps sessions out of a theme, otherwise ""."""
    if rules.admits(theme) or is_chat(theme):
        return ""
    return f"allowed_themes does not name {theme!r}: until it does, no session has this theme"


def theme_of_session(conn: DeadlineConnection, session_id: str, given: str | None, rules: ThemeRules) -> str:
    """Return the theme in which a session has turns. Raises InvalidArgument if there is none, or more than one."""
    themes = list(stored_rows.themes_of_session(conn, session_id))
    if given is not None:
        themes = [theme for theme in themes if theme in (given, rules.resolve_name(given))]
    if not themes:
        where = f" in the theme {given!r}" if given is not None else ""
        raise InvalidArgument(f"no session {session_id!r} has turns{where}; see: hermes-pgvector sessions list")
    if len(themes) > 1:
        raise _several(session_id, themes)
    return themes[0]


def existing(conn: DeadlineConnection, name: str, rules: ThemeRules) -> tuple[str, dict[str, Any]]:
    """Return the theme that an operator means, and its counts. Raises InvalidArgument if it holds nothing."""
    for theme in _meant(name, rules):
        held = counts(conn, theme)
        if rows_in(held):
            return theme, held
    raise _nothing_in(name)


def named_exactly(conn: DeadlineConnection, name: str, rules: ThemeRules) -> tuple[str, dict[str, Any]]:
    """Return the theme of exactly this name, and its counts: what deletes uses no alias and no case folding.

    Raises InvalidArgument if it holds nothing; the message then says which theme sessions of that name have.
    """
    theme, held = existing(conn, name, rules)
    if theme != name:
        raise InvalidArgument(
            f"no theme {name!r} holds anything; sessions of that name have the theme {theme!r}: write that to mean it"
        )
    return theme, held


@dataclass(frozen=True, slots=True)
class ThemeChoice:
    """The themes that an operator names, or all themes."""

    names: tuple[str, ...] = ()
    every: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> ThemeChoice:
        """Return the choice made by --theme and --all-themes. Raises WrongUsage if neither or both are given."""
        if args.all_themes and args.theme:
            raise WrongUsage("give --theme or --all-themes, not both: name the themes, or take every one")
        if not args.all_themes and not args.theme:
            raise WrongUsage("say of which themes: --theme THEME, which may be repeated, or --all-themes")
        return cls(tuple(args.theme), args.all_themes)

    def held(self, conn: DeadlineConnection, rules: ThemeRules) -> dict[str, dict[str, Any]]:
        """Return the chosen themes by their stored names, with the counts of each. Raises InvalidArgument."""
        if self.every:
            return {str(row["theme"]): row for row in every_theme(conn)}
        return dict(existing(conn, name, rules) for name in self.names)

    def __str__(self) -> str:
        """Return the choice as it is written to the log."""
        return "*" if self.every else ", ".join(self.names)


def _meant(given: str, rules: ThemeRules) -> Iterator[str]:
    for theme in dict.fromkeys((given, rules.resolve_name(given))):
        if theme and theme == clean(theme):
            yield theme


def _several(session_id: str, themes: Sequence[str]) -> InvalidArgument:
    some = first_of(themes, _NAMED)
    return InvalidArgument(f"{session_id!r} is a session of several themes; name one with --theme: {some}")


def _nothing_in(given: str) -> InvalidArgument:
    return InvalidArgument(f"no theme {given!r} holds anything; see: hermes-pgvector themes list")


def own_theme(rules: ThemeRules, home: Path) -> str:
    """Return the theme of this home's own sessions."""
    return session_themes(Surface(profile=profile_of(home)), rules).memories.name
