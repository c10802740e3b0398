"""The names that a profile had before it was renamed.

Its theme has its name. What is stored stays under the old one, and no session of the profile asks for it there.
"""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..config.sources import read_cached
from ..domain.commandline import typed
from ..domain.files import note_text
from ..domain.theme import ThemeRules
from ..server.home_record import is_copy
from .guard import warn_once, warn_unknown_themes
from .session_context import SessionContext, profile_of


class _Record(NamedTuple):
    """Where a profile's home was, the theme that it had, and those of its former names, the last one last."""

    home: str
    theme: str
    former: tuple[str, ...] = ()


def note_themes(home: Path, context: SessionContext, rules: ThemeRules) -> None:
    """Log what is unexpected about a session's themes: names that are not allowed, and a new name of the profile."""
    warn_unknown_themes(context.place.unknown, rules.default)
    if context.scope.get("profile") != profile_of(home) or not home.is_dir():  # whoever only plays a session
        return
    here, theme, before = os.path.realpath(home), context.place.files.name, _recorded(home)
    former = () if before is None or is_copy(home, Path(before.home)) else before.former
    if before is not None and _was_renamed(before, here, theme):
        former = (*(each for each in former if each not in (before.theme, theme)), before.theme)
        warn_once(
            f"this profile was renamed, and its theme is {theme!r} now: what it stored in {before.theme!r} is not "
            f"recalled; to bring it along: {how_to_bring(before.theme, theme)}"
        )
    if before != (now := _Record(here, theme, former)):
        note_text(_path_in(home), json.dumps(now._asdict()) + "\n")


def themes_before(home: Path) -> tuple[str, ...]:
    """Return the themes of the former names of a home's profile, without those that another profile has by now."""
    known = _recorded(home)
    if known is None or known.home != os.path.realpath(home):
        return ()
    return tuple(each for each in known.former if not (home.parent / each).is_dir())


def how_to_bring(theme: str, into: str) -> str:
    """Return the command that brings what a theme holds into another one."""
    return typed(f"hermes-pgvector themes merge {shlex.quote(theme)} {shlex.quote(into)} --yes")


def _was_renamed(before: _Record, here: str, theme: str) -> bool:
    """Return whether the profile's home was moved, and its theme had the name of that home."""
    moved = before.home != here and not os.path.exists(before.home)
    return moved and before.theme == os.path.basename(before.home) != theme


def _path_in(home: Path) -> Path:
    return home / "pgvector" / "profile.json"


def _recorded(home: Path) -> _Record | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return read_cached(_path_in(home), _parse)
    return None


def _parse(raw: bytes) -> _Record:
    found = json.loads(raw)
    return _Record(str(found["home"]), str(found["theme"]), tuple(map(str, found["former"])))
