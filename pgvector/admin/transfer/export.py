"""Writes a snapshot of themes as JSON Lines, with a few hundred rows in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ...domain.theme import ThemeRules
from ...store.connection import DeadlineConnection, translated
from ...store.vectors import STORES
from ..common import theme_rows as theme_store
from ..common.installation import package_version
from ..common.operators import record_where_allowed
from ..common.progress import progress
from ..common.theme_names import ThemeChoice
from . import export_rows as store
from .exchange_format import Checksum, Header, Trailer, removed_line, row_line
from .export_rows import TimeRange
from .float_arrays import know_vectors
from .outfile import ByteSink


@dataclass(frozen=True)
class ExportRequest:
    """The themes to export (all if none is named), the period, and whether vectors are included."""

    themes: Sequence[str] = ()
    period: TimeRange = field(default_factory=TimeRange)
    vectors: bool = False


@dataclass(frozen=True)
class Export:
    """The result of an export: lines of each kind, the number of themes, and the checksum in the trailer."""

    memories: int
    turns: int
    removed: int
    themes: int
    vectors: bool
    sha256: str


def export(
    conn: DeadlineConnection, wanted: ExportRequest, rules: ThemeRules, stream: Callable[[], ByteSink]
) -> Export:
    """Write the wanted themes to the stream, which is opened only once the themes are known to exist.

    A role that row-level security limits to some themes exports those. Raises InvalidArgument for a theme that holds
    nothing.
    """
    with translated():
        know_vectors(conn)
        with conn.transaction():
            space = store.begin(conn)
            names = themes_meant(conn, wanted.themes, rules)
            out = _Out(stream())
            header = Header(
                space,
                wanted.vectors and bool(space.model),
                list(names) if wanted.themes else None,
                _iso(wanted.period.since),
                _iso(wanted.period.until),
                datetime.now(UTC).isoformat(timespec="seconds"),
                package_version(),
            )
            out.write(header.line())
            with progress("exported", sum(rows_of(conn, name) for name in names)) as advance:
                for name in names:
                    for kind, line in _lines(conn, name, wanted):
                        out.write(line, kind)
                        advance(1)
            done = Export(**out.counts, themes=len(names), vectors=header.vectors, sha256=out.end())
            meant = {"theme": names[0]} if len(wanted.themes) == 1 else {"themes": list(wanted.themes)}
            arguments = meant | {"since": header.since, "until": header.until}
            record_where_allowed(conn, "export", arguments | {"vectors": wanted.vectors}, out.counts)
    return done


def themes_meant(conn: DeadlineConnection, wanted: Sequence[str], rules: ThemeRules) -> list[str]:
    """Return the stored names of the wanted themes; if none is named, of all that this role sees."""
    if not wanted:
        return store.themes(conn)
    return list(ThemeChoice(tuple(wanted)).held(conn, rules))


def rows_of(conn: DeadlineConnection, theme: str) -> int:
    """Return the number of rows of a theme plus its tombstones."""
    counted = theme_store.counts(conn, theme)
    return int(counted["memories"] + counted["user_facts"] + counted["turns"] + counted["removed"])


def _lines(conn: DeadlineConnection, theme: str, wanted: ExportRequest) -> Iterator[tuple[str, bytes]]:
    for kind in STORES:
        for record in store.rows(conn, theme, kind, wanted.period, vectors=wanted.vectors):
            yield kind, row_line(record)
    for removed in store.removed(conn, theme, wanted.period):
        yield "removed", removed_line(removed)


class _Out:
    """A stream that counts the lines written and computes their checksum."""

    def __init__(self, stream: ByteSink) -> None:
        self._stream = stream
        self._checksum = Checksum()
        self.counts = {"memories": 0, "turns": 0, "removed": 0}

    def write(self, line: bytes, kind: str = "") -> None:
        self._stream.write(self._checksum.add(line))
        if kind:
            self.counts[kind] += 1

    def end(self) -> str:
        """Write the trailer; return the checksum."""
        checksum = self._checksum.hex()
        self._stream.write(Trailer(self.counts, checksum).line())
        self._stream.flush()
        return checksum


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
