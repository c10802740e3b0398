"""Output for people: drawn tables on a terminal, elsewhere plain columns that suit `grep` and `cut`.

NO_COLOR and TERM=dumb are honoured. Text from the database can neither move the cursor nor set a colour.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from ...domain.commandline import typed
from ...domain.dates import in_zone
from ...domain.text import harmless, on_one_line

_GAP = "  "
_LOOK_S, _LOOKS = 0.1, 3
_PADDED = 40  # columns; a longer name, or in a pipe a longer cell, sticks out instead of widening its column
_KEPT = 2000  # characters of a cell; for longer texts there are `show`, `export` and --json


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the row's key, the heading, and whether it may be cut.

    `flexible` columns are shortened first on a narrow terminal; elsewhere nothing is cut.
    """

    key: str
    heading: str = ""
    right: bool = False
    flexible: bool = False
    style: str = ""

    @property
    def title(self) -> str:
        """Return the heading of the column."""
        return self.heading or self.key.replace("_", " ")


def settle_streams() -> None:
    """Make the standard streams usable, whatever this process was started with.

    A closed stream is replaced by an empty one, and characters that stdout's encoding lacks are escaped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    # In the locale C stdout passes on the bytes of odd file names, and refuses all other characters.
    if isinstance(sys.stdout, io.TextIOWrapper) and (
        sys.stdout.errors == "strict" or codecs.lookup(sys.stdout.encoding).name != "utf-8"
    ):
        sys.stdout.reconfigure(errors="backslashreplace")


def abandon(stream: TextIO) -> None:
    """Discard whatever is still printed to `stream`, because its reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def show_table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], *, empty: str = "nothing found") -> None:
    """Print rows under the columns' headings, or `empty` if there are none."""
    cells = [[_shown(row.get(column.key)) for column in columns] for row in rows]
    if not cells:
        print(empty)
    elif sys.stdout.isatty():
        _draw_table(columns, cells)
    else:
        print("\n".join(_aligned(columns, cells)))


def used(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Return the columns that have a value in some row."""
    return [column for column in columns if any(row.get(column.key) for row in rows)]


def show_pairs(pairs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair a line, with the values aligned."""
    given = pairs.items() if isinstance(pairs, Mapping) else pairs
    known = [(_shown(name), _shown(value)) for name, value in given]
    width = min(_PADDED, max((len(name) for name, _ in known), default=0))
    for name, text in known:
        if sys.stdout.isatty():
            _say([(f"{name:<{width}}", "dim"), (_GAP + text, "")])
        else:
            print(f"{name:<{width}}{_GAP}{text}".rstrip())


def say(text: str = "", style: str = "") -> None:
    """Print a line; `style` is rich's, such as "bold" or "red", and only visible on a terminal."""
    if style and sys.stdout.isatty():
        _say([(harmless(text, lines=True), style)])
    else:
        print(harmless(text, lines=True))


def say_line(text: str, style: str = "") -> None:
    """Print what stays one line, whatever the names and texts in it hold; `style` as in `say`."""
    say(harmless(text), style)


def remark(text: str) -> None:
    """Print to stderr what a person should know about the output and no program needs."""
    _tell(text)


def warn(text: str) -> None:
    """Print a warning to stderr."""
    _tell(f"warning: {typed(text)}")


def complain(text: str) -> None:
    """Print an error to stderr."""
    _tell(f"error: {text}")


def _tell(line: str) -> None:
    """Print a line to stderr. If that takes nothing any more, the command goes on without saying it."""
    try:
        print(harmless(line, lines=True), file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)


@contextmanager
def said_while(line: str, busy: Callable[[], bool]) -> Iterator[None]:
    """Print `line` to stderr once `busy` has been true for 300 ms within the block."""

    def look(over: threading.Event) -> None:
        looks = 0
        while looks < _LOOKS and not over.wait(_LOOK_S):
            looks = looks + 1 if busy() else 0
        if looks == _LOOKS:
            _tell(line)

    with watched_by(look, "said-while"):
        yield


@contextmanager
def watched_by(watch: Callable[[threading.Event], None], name: str, *, joins: bool = True) -> Iterator[None]:
    """Run `watch` in a thread beside the block; its event is set at the block's end, which waits for it if `joins`."""
    over = threading.Event()
    watching = threading.Thread(target=watch, args=(over,), name=f"hermes-pgvector-{name}", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        if joins:
            watching.join()


def _shown(value: Any) -> str:
    """Return a value formatted for people, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    match value:
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3f}".rstrip("0").rstrip(".")
        case datetime():
            return in_zone(value, None).strftime("%Y-%m-%d %H:%M")
        case _:
            return _shortened(value)


def _shortened(value: Any) -> str:
    text = str(value)
    more = "..." if isinstance(value, str) and len(text) > _KEPT else ""
    return on_one_line(text[:_KEPT] if more else text) + more


def _width(text: str) -> int:
    """Return how many terminal columns a text takes."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text) if not text.isascii() else 0
    return len(text) + wide


def _aligned(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Iterable[str]:
    table = [[column.title for column in columns], *cells]
    widths = [max((w for w in map(_width, column) if w <= _PADDED), default=0) for column in zip(*table, strict=True)]
    for row in table:
        padded = [
            " " * (width - _width(cell)) + cell if column.right else cell + " " * (width - _width(cell))
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        yield _GAP.join(padded).rstrip()


def _needed(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return how many terminal columns each column of a table takes without cutting."""
    table = [[column.title for column in columns], *cells]
    return [max(map(_width, each)) + len(_GAP) for each in zip(*table, strict=True)]


def _draw_table(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    tight = any(column.flexible for column in columns) and sum(_needed(columns, cells)) > console.width
    table = Table(box=None, pad_edge=False, header_style="bold", expand=tight)
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            style=column.style or None,
            no_wrap=True,
            overflow="ellipsis",
            ratio=int(tight and column.flexible) or None,
        )
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _say(parts: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False, soft_wrap=True).print(Text.assemble(*parts))
