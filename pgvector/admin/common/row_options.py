"""Options and output of the verbs for single memories, turns and sessions."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ...domain.dates import parse_when
from ...domain.errors import WrongUsage
from ...domain.text import both_ends, clean
from ...domain.theme import ThemeRules
from ...recall.excerpt import excerpt
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vector_search import theme_names
from .commands import Argument, add_login, argument, filled, not_negative
from .console import remark
from .database import database
from .stored_rows import SessionRows
from .theme_names import require_session, theme_to_read, theme_with_session

WHOLE = 2**31 - 1  # characters
PIPED_CHARS = 2000  # of a text that is printed into a pipe; --json has all of it
PATIENCE_S = 15.0  # for a search: a local model may have to be loaded first
_MOST = 1000  # rows of a page
_QUESTION_MAX_CHARS = 8000  # of a pasted file that are looked at; the search itself uses even fewer
_TIMEOUT_MS = 120_000


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of a timeline to show; `until` is exclusive."""

    limit: int
    offset: int = 0
    since: datetime | None = None
    until: datetime | None = None

    def values(self) -> dict[str, Any]:
        """Return the page as parameters of a statement."""
        return {
            "limit": self.limit,
            "offset": self.offset,
            "since": self.since.isoformat() if self.since else "-infinity",
            "until": self.until.isoformat() if self.until else "infinity",
        }


def theme_option(about: str) -> Argument:
    """Return a function that adds --admin-dsn and --theme, with the help text `about`."""

    def add(command: argparse.ArgumentParser) -> None:
        command.add_argument("--theme", type=filled, metavar="THEME", help=about)
        add_login(command)

    return add


add_theme = theme_option("the theme (default: that of this home's sessions, or the only one there is)")

THEME_CHOICE = (
    argument("--theme THEME", "of this theme; repeatable", action="append", type=filled, default=[]),
    argument("--all-themes", "of every theme"),
)


def tell_theme(args: argparse.Namespace, conn: DeadlineConnection, theme: str) -> None:
    """Say on stderr which theme was chosen, and whether there are others, if none was named."""
    if args.theme is not None or args.json:
        return
    others = len(set(theme_names(conn)) - {theme})
    more = "" if not others else f"; {others} other{'s' if others > 1 else ''}: --theme NAME, see themes list"
    remark(f"theme {theme!r}{more}")


def add_page(command: argparse.ArgumentParser, *, limit: int, what: str) -> None:
    """Add --since, --until, --limit and --offset."""
    command.add_argument("--since", metavar="WHEN", help=f"only {what} from then on: 2026-05-03, 2026-05, 7d, today")
    command.add_argument("--until", metavar="WHEN", help="only before then; of a day, month or year, to its end")
    command.add_argument("--limit", type=int, default=limit, metavar="N", help=f"how many (default: {limit})")
    command.add_argument("--offset", type=not_negative, default=0, metavar="N", help="how many to leave out first")


def page(args: argparse.Namespace, now: datetime | None = None) -> Page:
    """Return the page described by the arguments; "7d" counts back from `now`, by default this machine's clock.

    Raises WrongUsage, InvalidArgument for a date that cannot be read.
    """
    # As the times are shown that such a command prints.
    since = parse_when(args.since, "--since", zone=None, now=now)
    until = parse_when(args.until, "--until", end=True, zone=None, now=now)
    if not 1 <= args.limit <= _MOST:
        raise WrongUsage(f"--limit must be 1 to {_MOST}")
    if since is not None and until is not None and since >= until:
        raise WrongUsage("--since is not before --until: nothing can lie between them")
    return Page(args.limit, args.offset, since, until)


def question_text(given: str) -> str:
    """Return a question in the form in which it is searched for. Raises WrongUsage for an empty one."""
    kept = both_ends(clean(given), _QUESTION_MAX_CHARS).strip()
    if not kept:
        raise WrongUsage("the question is empty; say in plain words what to look for")
    return kept


@contextmanager
def reading(args: argparse.Namespace, home: Path) -> Iterator[tuple[DeadlineConnection, ThemeRules]]:
    """Yield a reading transaction in which no statement takes more than two minutes, and the rules for theme names."""
    with database(args, home) as (conn, _, rules), conn.transaction():
        bounds = {"statement_ms": str(_TIMEOUT_MS), "lock_ms": str(_TIMEOUT_MS), "idle_ms": "0", "transaction_ms": "0"}
        conn.execute(query("set_timeouts"), bounds | {"plans": "auto", "path": conn.path})
        yield conn, rules


@contextmanager
def reading_theme(
    args: argparse.Namespace, home: Path, of: SessionRows | None = None
) -> Iterator[tuple[DeadlineConnection, str]]:
    """Yield a reading transaction and the theme that is meant; it is reported if none was named.

    `of`: what is read of the session that --session may name, which is looked for in every theme. Raises
    InvalidArgument if there is no such theme or session.
    """
    with reading(args, home) as (conn, rules):
        named = args.session if of else None
        found = theme_with_session(conn, named, of) if named and of and args.theme is None else None
        if named and not found:
            require_session(conn, named)
        theme = found or theme_to_read(conn, args.theme, rules, home)
        tell_theme(args, conn, theme)
        yield conn, theme


def one_line(text: str, question: str = "", *, lines: int = 1, indent: int = 0) -> str:
    """Return a text shortened for a list: on a terminal the part that fits, elsewhere the beginning of a long one."""
    room = max(40, (shutil.get_terminal_size().columns - indent) * lines) if sys.stdout.isatty() else PIPED_CHARS
    return excerpt(" ".join(text.split()), question, room)
