"""The statements of `compact`: what it reads of a theme's turns, and how it changes them.

Every function that changes something works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from pgvector import Vector
from psycopg.types.json import Jsonb

from ...domain.types import Candidate
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vector_search import SIGNED_DEPTH, rerank_depth
from ..common.fetching import one

_query = partial(query, package=__package__)
_SIGNS = ".,;:!\"'()[]\u2018\u2019\u201c\u201d\u00ab\u00bb\u3002\uff0c\uff01\u2026"
# Words that may differ between two texts that still say the same. Articles and negations are not among them.
_FILLERS = (
    "please", "pls", "thanks", "thx", "hi", "hello", "hey", "ok", "okay", "just", "really", "actually", "the",
    "bitte", "danke", "hallo", "merci", "bonjour", "gracias", "hola",
)  # fmt: skip
_PAIRED = 100  # nearest signatures of a question from which the scale is measured


@dataclass(frozen=True, slots=True)
class Share:
    """One theme: its turns, the old ones, and how many of their vectors can be dropped, with their exact bytes."""

    theme: str
    turns: int
    old_turns: int
    vectors: int
    vector_bytes: int


@dataclass(frozen=True, slots=True)
class Scale:
    """The estimate of vectors' cosine from signatures: `offset + slope * cos(pi * share of differing bits)`."""

    slope: float
    offset: float


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the tables of turns and of their indexes; the graph's bytes; estimates of its vectors and the rows."""

    table_bytes: int
    index_bytes: int
    graph_bytes: int
    graph_rows: float
    rows: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A stored turn that is used as a question of its theme, which has `turns`."""

    theme: str
    turns: int
    id: int
    text: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class SessionTranscript:
    """An old session of a theme, as far as it was held in one place, which the last three fields describe."""

    theme: str
    session_id: str
    turns: int
    first_at: datetime
    last_at: datetime
    chars: int
    platform: str | None
    profile: str | None
    chat_type: str | None


def share(conn: DeadlineConnection, theme: str, before: datetime, gone: Collection[int]) -> Share:
    """Return what can be dropped in a theme whose turns `gone` are deleted as a whole."""
    return Share(theme, *one(conn, _query("compact_share"), {"theme": theme, "before": before, "gone": list(gone)}))


def sizes(conn: DeadlineConnection) -> Sizes:
    """Return the present sizes."""
    return Sizes(*one(conn, _query("compact_sizes"), {}))


def candidates(conn: DeadlineConnection, theme: str, before: datetime) -> list[list[int]]:
    """Return groups of old turns that may say the same, newest first in each group."""
    asked = {"theme": theme, "before": before, "signs": _SIGNS, "fillers": list(_FILLERS)}
    return [row.ids for row in conn.execute(_query("compact_candidates"), asked)]


def same(conn: DeadlineConnection, theme: str, pairs: Mapping[int, int], similar: float) -> dict[int, int]:
    """Return those turns that say the same as the newer ones that may replace them, with their bytes."""
    asked = {"theme": theme, "kept": list(pairs.values()), "ids": list(pairs), "similar": similar}
    return {row.id: row.bytes for row in conn.execute(_query("compact_same"), asked)}


def collapse(conn: DeadlineConnection, theme: str, pairs: Mapping[int, int], similar: float) -> int:
    """Delete turns that a newer turn repeats, and record that in the newer one; return how many were deleted."""
    ids = sorted(pairs.keys() | set(pairs.values()))
    there = {row.id for row in conn.execute(_query("lock_turns"), {"theme": theme, "ids": ids})}
    # Turns that were compared before may have been changed since.
    still = same(conn, theme, {id: kept for id, kept in pairs.items() if {id, kept} <= there}, similar)
    if still:
        asked = {"theme": theme, "ids": list(still), "kept": [pairs[id] for id in still]}
        conn.execute(_query("collapse_turns"), asked)
    return len(still)


def examples(conn: DeadlineConnection, theme: str, ids: Sequence[int], chars: int) -> dict[int, dict[str, Any]]:
    """Return these turns by id: at, role, and the beginning of their content."""
    rows = conn.execute(_query("compact_examples"), {"theme": theme, "ids": list(ids), "chars": chars})
    return {row.id: row._asdict() for row in rows}


def cooling(conn: DeadlineConnection, theme: str, before: datetime) -> list[int]:
    """Return the ids of old turns that have a vector, oldest first."""
    return [row.id for row in conn.execute(_query("cooling_ids"), {"theme": theme, "before": before})]


def cool(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> int:
    """Drop the vectors of turns and of their chunks, but keep the signatures; return how many turns had a vector."""
    conn.execute(_query("keep_signatures"))
    return int(one(conn, _query("cool_turns"), {"theme": theme, "ids": list(ids)}).count)


def scale(conn: DeadlineConnection) -> Scale:
    """Return the scale that recall uses at present."""
    return Scale(*one(conn, _query("signature_scale"), {}))


def calibrate(conn: DeadlineConnection, measured: Scale) -> bool:
    """Set the scale that recall uses; return False if row-level security forbids it."""
    row = {"slope": measured.slope, "offset": measured.offset}
    return bool(conn.execute(_query("calibrate_signatures"), row).rowcount)


def questions(conn: DeadlineConnection, theme: str, turns: int, limit: int) -> list[Asked]:
    """Return at most `limit` of a theme's `turns` that have a vector, chosen irrespective of their content."""
    rows = conn.execute(_query("sample_questions"), {"theme": theme, "limit": limit})
    return [Asked(theme, turns, row.id, row.content, row.embedding) for row in rows]


def likenesses(conn: DeadlineConnection, asked: Asked) -> list[tuple[float, float]]:
    """Return pairs of similarity by signature and by vector, for the turns nearest by signature."""
    row = {"theme": asked.theme, "id": asked.id, "vector": asked.vector, "limit": _PAIRED}
    return [(found.told, found.real) for found in conn.execute(_query("nearest_by_signature"), row)]


def nearest_exactly(conn: DeadlineConnection, asked: Asked, scale: Scale, limit: int) -> list[int]:
    """Return the nearest turns by comparing all vectors of the theme, nearest first."""
    row = {"theme": asked.theme, "vector": asked.vector, "limit": limit, "slope": scale.slope, "offset": scale.offset}
    return [found.id for found in conn.execute(_query("nearest_exactly"), row)]


def nearest_when_cold(
    conn: DeadlineConnection, asked: Asked, scale: Scale, before: datetime, limit: int
) -> list[Candidate]:
    """Return what the vector leg of a search would propose after dropping the vectors of turns from `before`."""
    row = {
        "theme": asked.theme,
        "vector": asked.vector,
        "limit": limit,
        "slope": scale.slope,
        "offset": scale.offset,
        "before": before,
        "depth": max(rerank_depth(asked.turns), limit),
        "signed": max(SIGNED_DEPTH, limit),
    }
    near = conn.execute(_query("nearest_when_cold", one_theme=conn.spread), row)
    return [Candidate(found.id, found.similarity) for found in near]


def old_sessions(conn: DeadlineConnection, theme: str, before: datetime, fewest: int) -> list[SessionTranscript]:
    """Return the sessions of a theme that ended before a time and have at least `fewest` turns, oldest first."""
    rows = conn.execute(_query("old_sessions"), {"theme": theme, "before": before, "fewest": fewest})
    return [SessionTranscript(theme, *row) for row in rows]


def turns_of(conn: DeadlineConnection, session: SessionTranscript) -> list[Any]:
    """Return the turns of a session in their order: id, at, role, content, metadata."""
    return list(conn.execute(_query("session_turns"), _names(session)))


def replace_session(
    conn: DeadlineConnection,
    session: SessionTranscript,
    digests: Mapping[int, bytes],
    summary: str,
    metadata: Mapping[str, Any],
    language: str,
) -> bool:
    """Replace a session's turns with a summary; return False, with no change, if they are not the expected ones."""
    names = _names(session)
    if {row.id: row.digest for row in conn.execute(_query("lock_session"), names)} != dict(digests):
        return False
    row = names | {"content": summary, "at": session.last_at, "metadata": Jsonb(dict(metadata)), "language": language}
    conn.execute(_query("store_summary"), row)
    conn.execute(query("delete_turns"), {"theme": session.theme, "ids": list(digests)})
    return True


def may_vacuum(conn: DeadlineConnection) -> bool:
    """Return whether this role owns the tables."""
    owned = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'conversations'::regclass"
    return conn.execute(owned).fetchone() == (True,)


def vacuum(conn: DeadlineConnection, *, full: bool) -> None:
    """Free the space of deleted rows for new ones, or with `full` return it to the disk, which locks the tables."""
    conn.execute("VACUUM (FULL, ANALYZE) conversations, conversation_chunks" if full else
                 "VACUUM (ANALYZE) conversations, conversation_chunks")  # fmt: skip


def _names(session: SessionTranscript) -> dict[str, str | None]:
    return {name: getattr(session, name) for name in ("theme", "session_id", "platform", "profile", "chat_type")}
