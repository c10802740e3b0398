"""What the verbs for single memories, turns and sessions share."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .commands import add_login, connection, settings_of

if TYPE_CHECKING:
    from ...domain.theme import ThemeRules
    from ...store.connection import DeadlineConnection
    from .browse_rows import Window
    from .command_context import Bench

STORES = ("memories", "turns")
WHOLE = 2**31 - 1  # characters
PIPED_CHARS = 2000  # of a text that a program reads; --json has the whole
PATIENCE_S = 15.0  # for a search: a local model may have to be read first
_MOST = 1000  # rows of a page


def add_theme(command: argparse.ArgumentParser) -> None:
    """Add --theme and --admin-dsn."""
    command.add_argument(
        "--theme", metavar="THEME", help="the theme (default: that of this home's sessions, or the only one there is)"
    )
    add_login(command)


def tell_theme(args: argparse.Namespace, conn: DeadlineConnection, theme: str) -> None:
    """Say which theme is shown, and that there are others, where none was named."""
    from ...store.theme_names import theme_names
    from .console import remark

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
    command.add_argument("--offset", type=int, default=0, metavar="N", help="how many to leave out first")


def page(args: argparse.Namespace) -> Window:
    """The page that the arguments mean. Raises WrongUsage, InvalidArgument for a date that cannot be read."""
    from ...domain.dates import parse_when
    from ..browse.browsing import window

    since, until = parse_when(args.since, "--since"), parse_when(args.until, "--until", end=True)
    return window(limit=args.limit, offset=args.offset, since=since, until=until, most=_MOST)


@contextmanager
def reading(args: argparse.Namespace, home: Path) -> Iterator[tuple[DeadlineConnection, ThemeRules]]:
    """A transaction that reads, and the rules of names."""
    from ...host.session_context import Policy
    from .browse_rows import begin

    settings = settings_of(home)
    with connection(settings, args.admin_dsn) as conn, conn.transaction():
        begin(conn)
        yield conn, Policy.of(settings).rules


@contextmanager
def at_bench(args: argparse.Namespace, home: Path, *, reads: bool = False) -> Iterator[tuple[Bench, ThemeRules]]:
    """What searches and corrects, and the rules of names; `reads`: only searches, so a replica will do."""
    from ...host.session_context import Policy, environment
    from .command_context import bench

    settings = settings_of(home)
    with bench(settings, home, environment(home), args.admin_dsn, reads=reads) as made:
        yield made, Policy.of(settings).rules


def one_line(text: str, question: str = "", *, lines: int = 1, indent: int = 0) -> str:
    """A text as it is shown among others: on a terminal the part that fits, else the beginning of a long one."""
    from ...recall.excerpt import excerpt

    room = max(40, (shutil.get_terminal_size().columns - indent) * lines) if sys.stdout.isatty() else PIPED_CHARS
    return excerpt(" ".join(text.split()), question, room)


def minute(moment: str) -> str:
    """An ISO time to the minute, by this machine's clock like all times that are shown."""
    from ...domain.dates import local_minute

    return local_minute(moment)
