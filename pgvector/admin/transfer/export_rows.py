"""Reads whole themes in one snapshot, a few hundred rows at a time, with their tombstones and checksums.

Every function works inside the caller's transaction, which `begin` has begun.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ...domain.errors import InvalidArgument, StoreUnavailable
from ...domain.text import as_object
from ...domain.types import EmbeddingSpace, Removed, Store
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vectors import recorded_space
from ..common.fetching import one
from ..common.theme_rows import begin_reading, every_theme
from .float_arrays import as_floats
from .records import MemoryRecord, Part, Record, Said, TurnRecord, read_said, readable_said

logger = logging.getLogger(__name__)

_query = partial(query, package=__package__)
_SLICE = 500  # rows a statement
_IDS = {"memories": "leaving_memory_ids", "turns": "leaving_turn_ids"}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The period of an export, by the times at which turns were said and memories last confirmed or removed.

    `since` is inclusive, `until` exclusive.
    """

    since: datetime | None = None
    until: datetime | None = None


class Fingerprint(NamedTuple):
    """The number of distinct rows that a theme holds, and a checksum of them that does not depend on their order."""

    rows: int
    checksum: str


def begin(conn: DeadlineConnection) -> EmbeddingSpace:
    """Give this transaction one snapshot of the database, with vectors of one model; return that model's space.

    Raises StoreUnavailable while that model is being changed.
    """
    begin_reading(conn)
    # A transaction that waited here would see the rows from before the change and the columns from after it.
    if not one(conn, _query("try_hold_space")).got:
        raise StoreUnavailable("the model of the database is being changed at this moment; run this again")
    # The server's timeouts are meant for agents; an export may take an hour.
    for bound in ("statement_timeout", "idle_in_transaction_session_timeout"):
        conn.execute("SELECT set_config(%s, '0', true)", (bound,))
    return recorded_space(conn)


def themes(conn: DeadlineConnection) -> list[str]:
    """Return every theme that this role sees, including those of which only traces are left."""
    held = {str(row["theme"]) for row in every_theme(conn)}
    return sorted(held | {row.theme for row in conn.execute(_query("themes_with_traces"))})


def rows(conn: DeadlineConnection, theme: str, store: Store, period: TimeRange, *, vectors: bool) -> Iterator[Record]:
    """Yield the rows of a theme in a period, in the order in which they were written."""
    asked = {"theme": theme, "since": period.since, "until": period.until}
    with conn.cursor(f"leaving_{store}") as ids:
        ids.itersize = 20 * _SLICE
        ids.execute(_query(_IDS[store]), asked)
        while some := [row.id for row in ids.fetchmany(_SLICE)]:
            row = {"theme": theme, "ids": some, "vectors": vectors}
            parts = _parts(conn, store, row) if vectors else {}
            for found in conn.execute(_query(f"leaving_{store}"), row, binary=True):
                yield _record(theme, store, found, parts.get(found.id, ()))


def _record(theme: str, store: Store, row: Any, parts: Sequence[Part]) -> Record:
    embedding = None if row.embedding is None else as_floats(row.embedding)
    known = tuple(parts) if embedding is not None else ()
    metadata = as_object(row.metadata)
    if store == "memories":
        return MemoryRecord(
            theme, row.target, row.content, row.created_at, row.updated_at, metadata, embedding, known,
            owners=tuple(row.owners), said=_said(theme, row), number=row.id,
        )  # fmt: skip
    place = theme, row.session_id, row.role
    return TurnRecord(*place, row.content, row.ts, metadata, embedding, known, number=row.id)


def _said(theme: str, row: Any) -> Said:
    try:
        return read_said(row.said)
    except InvalidArgument:
        logger.warning(
            "hermes-pgvector: of m%d in the theme %r, what no import reads is left out: see hermes-pgvector show m%d",
            row.id, theme, row.id,
        )  # fmt: skip
        return readable_said(row.said)


def _parts(conn: DeadlineConnection, store: Store, row: Mapping[str, Any]) -> dict[int, list[Part]]:
    found: defaultdict[int, list[Part]] = defaultdict(list)
    for chunk in conn.execute(_query(f"leaving_chunks_{store}"), row, binary=True):
        found[chunk.row_id].append(Part(chunk.first_char, as_floats(chunk.embedding)))
    return found


def removed(conn: DeadlineConnection, theme: str, period: TimeRange) -> Iterator[Removed]:
    """Yield the tombstones of a theme in a period."""
    asked = {"theme": theme, "since": period.since, "until": period.until}
    for row in conn.execute(_query("leaving_tombstones"), asked):
        yield Removed(theme, row.target, bytes(row.digest), row.removed_at, row.origin)


def fingerprint(conn: DeadlineConnection, theme: str, store: Store) -> Fingerprint:
    """Return the row count and checksum of a theme's memories or turns."""
    row = one(conn, _query(f"fingerprint_{store}"), {"theme": theme})
    return Fingerprint(int(row.count), row.checksum)
