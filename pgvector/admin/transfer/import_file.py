"""Imports a file that `export` wrote: it is checked first, then written; a killed import resumes when run again."""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, InvalidArgument, OperationRejected
from ...domain.format import plural
from ...domain.theme import ThemeRules, normalise_theme
from ...domain.types import EmbeddingSpace, Removed
from ...store.connection import DeadlineConnection, translated
from ...store.replays import bring_tombstones
from ...store.vectors import recorded_space
from ..common.operators import record_where_allowed as log
from ..common.progress import progress
from .exchange_format import MAX_LINE_BYTES, Checksum, Header, Trailer, read_header, read_row, read_trailer
from .float_arrays import know_vectors
from .ingest import IngestOptions, IngestResult, take_in
from .records import MemoryRecord, Record

_MAGIC = b"\x1f\x8b"
_EMPTY = (
    "this is no export of hermes-memory-pgvector: it is empty; `hermes backup` does not export a server that `dsn` "
    "names: its memory is in that server's own backup"
)
_MORE = "something stands after its last line; several exports are imported one by one"
_DAMAGED = "; what can be read of it comes in with --salvage"


@dataclass(frozen=True)
class ImportOptions:
    """What to import from a file, and how.

    `themes`: only these, by their name in the file or a name that normalises to it; `renamed`: old name to new. `own`:
    the embedding space of the configured model, or None. `salvage`: import what can be read of a damaged file.
    """

    settings: Settings
    rules: ThemeRules
    themes: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    own: EmbeddingSpace | None = None
    restore: bool = False
    salvage: bool = False
    really: bool = True

    def asked(self) -> tuple[str, ...]:
        """Return the names of the themes that the file must hold."""
        return tuple(dict.fromkeys((*self.themes, *self.renamed)))

    def means(self, name: str, theme: str) -> bool:
        """Return whether the given name means this theme of the file."""
        return theme in (name, normalise_theme(name, self.rules.identity_key))

    def absent(self, held: Iterable[str]) -> tuple[str, ...]:
        """Return the given names that match no theme of the file."""
        held = tuple(held)
        return tuple(name for name in self.asked() if not any(self.means(name, theme) for theme in held))

    def name_of(self, theme: str) -> str | None:
        """Return the theme to store this theme's rows in, or None if they are not wanted."""
        if self.themes and not any(self.means(name, theme) for name in self.themes):
            return None
        meant = (new for old, new in self.renamed.items() if self.means(old, theme))
        return self.renamed.get(theme) or next(meant, theme)


@dataclass(frozen=True)
class Import:
    """The result of an import: the header, what became of the rows, and the damage of the file ("" if none).

    `held`: the themes in the file; `absent`: themes that were asked for but are not in it.
    """

    header: Header
    arrivals: IngestResult
    malformed: int
    damage: str
    vectors_fit: bool
    held: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Return whether every line could be read."""
        return not self.malformed and not self.damage

    def as_json(self) -> dict[str, Any]:
        """Return the whole result as JSON."""
        return self.arrivals.as_json() | {
            "malformed": self.malformed,
            "damage": self.damage,
            "made_at": self.header.made_at,
            "vectors_fit": self.vectors_fit,
            "absent_themes": list(self.absent),
        }


def import_file(conn: DeadlineConnection, path: Path | None, options: ImportOptions) -> Import:
    """Import an export; without a path, from stdin. A file is read to its end and checked before anything is written.

    A pipe, such as a shell's <(...), can be read only once, so it is imported unchecked as it arrives, like stdin.

    Raises ConfigurationError if it is no export, or damaged; rows of a stream that came before the damage are kept.
    Raises InvalidArgument for a theme that a file does not hold.
    """
    total = 0
    if path is not None and not _is_pipe(path):
        with _opened(path) as stream:
            total = _check(stream, salvage=options.salvage)
        if options.asked():
            with _opened(path) as stream:
                _check_asked(stream, options)
    with _opened(path) as stream:
        reader = _Reader(stream)
        header = reader.header()
        with progress("imported" if options.really else "read", total) as advance:
            arrivals, fits = _take_in(conn, header, reader, options, advance)
        damage = reader.damage
    if damage and not options.salvage:
        raise ConfigurationError(
            f"the stream is damaged: {damage}; {plural(arrivals.added, 'row')} before that imported; send it once "
            "more: what is there already is skipped"
        )
    if options.really and arrivals.added:
        with translated(), conn.transaction():
            log(conn, "import", {"file": path.name if path else "-", "made_at": header.made_at}, arrivals.for_log())
    absent = options.absent(reader.themes)
    return Import(header, arrivals, reader.malformed, damage, fits, tuple(sorted(reader.themes)), absent)


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except OSError:  # reported when the file is opened
        return False


def _check_asked(stream: BinaryIO, options: ImportOptions) -> None:
    """Raise InvalidArgument if a theme was named that the file does not hold."""
    reader = _Reader(stream)
    reader.header()
    held = sorted({row.theme for row in reader.rows()})
    if absent := options.absent(held):
        raise InvalidArgument(f"{absent_themes(absent, held)}; nothing of it was taken in")


def absent_themes(absent: Iterable[str], held: Sequence[str]) -> str:
    """Return the message about themes that a file does not hold."""
    return f"the file holds no theme {', '.join(map(repr, absent))}; it holds: {', '.join(map(repr, held)) or 'none'}"


def _take_in(
    conn: DeadlineConnection, header: Header, reader: _Reader, options: ImportOptions, advance: Callable[[int], None]
) -> tuple[IngestResult, bool]:
    with translated():
        know_vectors(conn)
        recorded = recorded_space(conn)
    adopt = not recorded.model and options.own is not None and options.own.comparable(header.space)
    fits = bool(header.vectors) and (
        recorded.comparable(header.space) or (adopt and recorded.dims == header.space.dims)
    )
    intake = IngestOptions(
        options.settings,
        options.rules,
        origin="export",
        space=header.space if header.vectors else None,
        adopt=adopt,
        restore=options.restore,
        really=options.really,
    )
    removals: list[Removed] = []

    def wanted() -> Iterator[Record]:
        for row in reader.rows():
            reader.themes.add(row.theme)
            if (name := options.name_of(row.theme)) is None:
                continue
            if isinstance(row, Removed):
                removals.append(row._replace(theme=name))
                if len(removals) >= 1000:
                    _bury(conn, removals, options)
            elif isinstance(row, MemoryRecord) and name != row.theme:
                yield replace(row, theme=name, in_file=False)  # agents of the new theme do not read that file
            else:
                yield replace(row, theme=name)

    arrivals = take_in(conn, wanted(), intake, advance)
    _bury(conn, removals, options)
    for example in reader.examples:
        arrivals.examples.append(example)
    return arrivals, fits


def _bury(conn: DeadlineConnection, removals: list[Removed], options: ImportOptions) -> None:
    """Store tombstones of what was removed at the source, so that no host's stale file brings it back."""
    if options.really and not options.restore:
        themes = {each.theme: options.rules.resolve_name(each.theme) for each in removals}
        for name, theme in themes.items():
            some = [each._replace(theme=theme) for each in removals if each.theme == name]
            # Rows of a theme that this role may not write are rejected as well, and that is reported.
            with contextlib.suppress(OperationRejected), translated(), conn.transaction():
                bring_tombstones(conn, some if theme else [])
    removals.clear()


# -- the file


class _Reader:
    """Reads the rows of a stream. Unreadable lines are counted; `damage` says what is wrong with the whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = _lines(stream)
        self._checksum = Checksum()
        self.malformed = 0
        self.examples: list[str] = []
        self.themes: set[str] = set()
        self.damage = ""

    def header(self) -> Header:
        """Return the header. Raises ConfigurationError."""
        try:
            return self.first()
        except _Damaged as exc:
            raise ConfigurationError(f"this cannot be read: {exc}") from exc

    def first(self) -> Header:
        """Return the header, read from the first line. Raises ConfigurationError and _Damaged."""
        _, line = next(self._lines, (0, b""))
        if not line:
            raise ConfigurationError(_EMPTY)
        return read_header(self._checksum.add(line))

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and bytes of each row up to the trailer; after that `damage` is known."""
        try:
            for number, line in self._lines:
                if (trailer := read_trailer(line)) is not None:
                    self.damage = _wrong(trailer, self._checksum) or (_MORE if any(self._lines) else "")
                    return
                self._checksum.add(line)
                yield number, line
            self.damage = "it ends without its last line: it was cut off"
        except _Damaged as exc:
            self.damage = str(exc)

    def rows(self) -> Iterator[Record | Removed]:
        """Yield the rows that can be read."""
        for number, line in self.lines():
            try:
                yield read_row(line, number)
            except InvalidArgument as exc:
                self.malformed += 1
                if len(self.examples) < 20:
                    self.examples.append(f"line {number}: {exc}")


def _check(stream: BinaryIO, *, salvage: bool) -> int:
    """Return the number of rows of a file. Raises ConfigurationError if it is damaged, unless `salvage`."""
    reader, count = _Reader(stream), 0
    try:
        reader.first()
        count = sum(1 for _ in reader.lines())
    except _Damaged as exc:
        reader.damage = str(exc)
    if reader.damage and not salvage:
        raise ConfigurationError(f"this export is damaged, and nothing of it was taken in: {reader.damage}{_DAMAGED}")
    return count


def _wrong(trailer: Trailer, checksum: Checksum) -> str:
    return (
        "" if trailer.sha256 == checksum.hex() else "its checksum is not that of its lines: something in it was changed"
    )


class _Damaged(Exception):
    """The stream cannot be read any further."""


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the number and bytes of every line that is not blank. Raises _Damaged."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise _Damaged(f"it cannot be decompressed after line {number - 1}: {exc}") from exc
        except OSError as exc:
            raise _Damaged(f"it cannot be read after line {number - 1}: {exc.strerror or exc}") from exc
        if not line:
            return
        if len(line) > MAX_LINE_BYTES:
            raise _Damaged(f"line {number} is longer than {MAX_LINE_BYTES >> 20} MB")
        if line.strip():
            yield number, line


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO]:
    """Yield the file or stdin, decompressed if its content is gzip, whatever its name. Raises ConfigurationError."""
    try:
        raw = sys.stdin.buffer if path is None else path.open("rb")
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    with raw if path is not None else contextlib.nullcontext(raw):
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
        try:
            packed = buffered.peek(len(_MAGIC)).startswith(_MAGIC)
        except OSError as exc:
            raise ConfigurationError(f"{path or 'stdin'} cannot be read: {exc.strerror or exc}") from exc
        yield cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if packed else buffered
