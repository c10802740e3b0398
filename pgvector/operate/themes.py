"""Themes as an operator handles them: renamed, merged, deleted, written to a file; looked at before, logged after."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from ..domain.errors import ConfigurationError, InvalidArgument
from ..domain.text import clean
from ..domain.theme import ThemeRules, normalise_theme
from ..store import themes as store
from ..store.connection import DeadlineConnection
from .progress import ProgressLine

_TOLD_FROM = 5000  # rows; fewer are done before anybody wonders
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
    theme, counts = _existing(conn, name, rules)
    return {"theme": theme, **counts, "reachable": _is_reachable(theme, rules)}


def rename(conn: DeadlineConnection, old: str, new: str, rules: ThemeRules, *, really: bool) -> Change:
    """Give a theme another name. Raises InvalidArgument for a name that is taken, or that no session would have."""
    with conn.transaction():
        store.begin(conn)
        theme, counts = _existing(conn, old, rules)
        into, notes = _new_name(new, theme, rules)
        if into == theme:
            raise InvalidArgument(f"the theme is called {theme!r} already" + _because(new, into))
        if _rows(store.counts(conn, into)):
            raise InvalidArgument(
                f"there is a theme {into!r} already{_because(new, into)}; "
                f"to put the two together: hermes-pgvector themes merge {theme!r} {into!r}"
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
        theme, counts = _existing(conn, old, rules)
        kept, _ = _existing(conn, into, rules)
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
        with _Progress(f"moved to {into}", _rows(counts)) as advance:
            done = store.move(conn, theme, into, advance)
        _record(conn, verb, {"theme": theme, "into": into}, done)
    else:
        merged = store.shared(conn, theme, into)
        memories = counts["memories"] + counts["user_facts"] - merged
        done = {"memories": memories, "merged": merged, "turns": counts["turns"]}
    return Change(verb, theme, into, done, tuple(notes), really)


def delete(conn: DeadlineConnection, name: str, rules: ThemeRules, *, really: bool) -> Change:
    """Delete what a theme holds. Raises InvalidArgument when there is none of that name."""
    with conn.transaction():
        store.begin(conn)
        theme, counts = _existing(conn, name, rules)
        notes = []
        if counts["in_files"]:
            notes.append(
                f"{counts['in_files']} of the memories also stood in a MEMORY.md or USER.md when it was last read; "
                "they are not read in again, and stay in the prompts of that profile until they are removed there"
            )
        done = {"memories": counts["memories"] + counts["user_facts"], "turns": counts["turns"]}
        if really:
            with _Progress("deleted", _rows(counts)) as advance:
                done = store.delete(conn, theme, advance)
            _record(conn, "delete", {"theme": theme}, done)
        return Change("delete", theme, None, done, tuple(notes), really)


def export(
    conn: DeadlineConnection, name: str, rules: ThemeRules, stream: Callable[[], TextIO], *, vectors: bool
) -> Change:
    """Write a theme as JSON Lines, memories before turns, as it is at one moment.

    Raises InvalidArgument when there is none of that name, before `stream` is called.
    """
    done = {"memories": 0, "turns": 0}
    with conn.transaction():
        store.begin_reading(conn)
        theme, counts = _existing(conn, name, rules)
        out = stream()
        with _Progress("exported", _rows(counts)) as advance:
            for what in ("memories", "turns"):
                for row in store.read_out(conn, theme, what, vectors=vectors):
                    out.write(_line(what, row, vectors=vectors))
                    done[what] += 1
                    advance(1)
        out.flush()
        _record(conn, "export", {"theme": theme, "vectors": vectors}, done)
    return Change("export", theme, None, done, (), True)


def private_file(path: Path) -> TextIO:
    """A new file that only this user can read. Raises ConfigurationError when it exists or cannot be made."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")
    except FileExistsError as exc:
        raise ConfigurationError(f"{path} exists; name a new file") from exc
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def log(conn: DeadlineConnection, limit: int) -> list[dict[str, Any]]:
    """What was done to themes, newest first."""
    return [fit_for_json(row) for row in store.log(conn, limit)]


def fit_for_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its times as ISO text."""
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}


def _line(what: str, row: dict[str, Any], *, vectors: bool) -> str:
    if not vectors:
        del row["embedding"]
    return json.dumps({"store": what} | fit_for_json(row), ensure_ascii=False) + "\n"


# -- names


def _existing(conn: DeadlineConnection, name: str, rules: ThemeRules) -> tuple[str, dict[str, Any]]:
    """The theme that an operator means and what it holds: the very name before the form that sessions use."""
    for theme in dict.fromkeys((name, rules.resolve_name(name))):
        counts = store.counts(conn, theme) if theme and theme == clean(theme) else {}
        if counts and _rows(counts):
            return theme, counts
    raise InvalidArgument(f"no theme {name!r} holds anything; see: hermes-pgvector themes list")


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


# -- progress and log


class _Progress:
    """Says how far it is, where there is so much to do that somebody would wonder."""

    def __init__(self, what: str, total: int) -> None:
        self._line = ProgressLine(what, total) if total >= _TOLD_FROM else None

    def __enter__(self) -> store.Advance:
        return self._line.advance if self._line is not None else lambda count: None

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.finish()


def _record(conn: DeadlineConnection, verb: str, arguments: dict[str, Any], done: dict[str, int]) -> None:
    try:
        who = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        who = str(os.getuid())
    store.record(conn, verb, arguments, done, who=who, host=socket.gethostname())
