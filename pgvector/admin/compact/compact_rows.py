"""What `compact` asks of the turns of a theme, and does to them.

Every function that changes something works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

from ...domain.types import Candidate
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vector_search import DEEP_RERANK, LARGE_THEME, RERANK_DEPTH, SIGNED_DEPTH
from ..common.fetching import one

_SIGNS = ".,;:!\"'()[]\u2018\u2019\u201c\u201d\u00ab\u00bb\u3002\uff0c\uff01\u2026"
# Words that two texts may differ in and still say the same. Articles and negations are none of these.
_FILLERS = (
    "please", "pls", "thanks", "thx", "hi", "hello", "hey", "ok", "okay", "just", "really", "actually", "the",
    "bitte", "danke", "hallo", "merci", "bonjour", "gracias", "hola",
)  # fmt: skip
_PAIRED = 100  # nearest signatures of a question, to learn the scale from


@dataclass(frozen=True, slots=True)
class Share:
    """Of a theme: its turns, the old ones, and how many vectors of theirs can go, with their exact bytes."""

    theme: str
    turns: int
    old_turns: int
    vectors: int
    vector_bytes: int


@dataclass(frozen=True, slots=True)
class Scale:
    """How likeness by signatures tells the cosine of vectors: `offset + slope * cos(pi * share of differing bits)`."""

    slope: float
    offset: float


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the tables of turns and of their indexes; the graph's, and about how many vectors and rows there are."""

    table_bytes: int
    index_bytes: int
    graph_bytes: int
    graph_rows: float
    rows: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A stored turn in the place of a question."""

    theme: str
    id: int
    text: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class SessionTranscript:
    """What was said of an old session of a theme in one place, of which the last three fields tell."""

    theme: str
    session_id: str
    turns: int
    first_at: datetime
    last_at: datetime
    chars: int
    platform: str | None
    profile: str | None
    chat_type: str | None


def prepare(conn: DeadlineConnection) -> None:
    """Teach a connection to speak of vectors."""
    register_vector(conn)


def share(conn: DeadlineConnection, theme: str, before: datetime, gone: Collection[int]) -> Share:
    """Return what can go of a theme, of which the turns `gone` go as a whole."""
    return Share(theme, *one(conn, query("compact_share"), {"theme": theme, "before": before, "gone": list(gone)}))


def sizes(conn: DeadlineConnection) -> Sizes:
    """Return how large everything is now."""
    return Sizes(*one(conn, query("compact_sizes"), {}))


def candidates(conn: DeadlineConnection, theme: str, before: datetime) -> list[list[int]]:
    """Return groups of old turns that may say the same, each newest first."""
    asked = {"theme": theme, "before": before, "signs": _SIGNS, "fillers": list(_FILLERS)}
    return [row.ids for row in conn.execute(query("compact_candidates"), asked)]


def same(conn: DeadlineConnection, theme: str, pairs: Mapping[int, int], similar: float) -> dict[int, int]:
    """Return, of turns and the newer ones that may replace them, those that say the same, with their bytes."""
    asked = {"theme": theme, "kept": list(pairs.values()), "ids": list(pairs), "similar": similar}
    return {row.id: row.bytes for row in conn.execute(query("compact_same"), asked)}


def collapse(conn: DeadlineConnection, theme: str, pairs: Mapping[int, int], similar: float) -> int:
    """Delete turns that a newer one says again, which notes it; return how many."""
    ids = sorted(pairs.keys() | set(pairs.values()))
    there = {row.id for row in conn.execute(query("lock_turns"), {"theme": theme, "ids": ids})}
    # What was looked at before may have been changed since.
    still = same(conn, theme, {id: kept for id, kept in pairs.items() if {id, kept} <= there}, similar)
    if still:
        asked = {"theme": theme, "ids": list(still), "kept": [pairs[id] for id in still]}
        conn.execute(query("collapse_turns"), asked)
    return len(still)


def examples(conn: DeadlineConnection, theme: str, ids: Sequence[int], chars: int) -> dict[int, dict[str, Any]]:
    """Return the turns by their ids: at, role, and the beginning of their content."""
    rows = conn.execute(query("compact_examples"), {"theme": theme, "ids": list(ids), "chars": chars})
    return {row.id: row._asdict() for row in rows}


def cooling(conn: DeadlineConnection, theme: str, before: datetime) -> list[int]:
    """Return the old turns that have a vector, oldest first."""
    return [row.id for row in conn.execute(query("cooling_ids"), {"theme": theme, "before": before})]


def cool(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> int:
    """Drop the vectors of turns, and of their parts, and keep the signatures; return how many turns had one."""
    conn.execute(query("keep_signatures"))
    return int(one(conn, query("cool_turns"), {"theme": theme, "ids": list(ids)}).count)


def scale(conn: DeadlineConnection) -> Scale:
    """Return the scale that recall uses now."""
    return Scale(*one(conn, query("signature_scale"), {}))


def calibrate(conn: DeadlineConnection, measured: Scale) -> bool:
    """Let recall use this scale; False where row-level security forbids it."""
    row = {"slope": measured.slope, "offset": measured.offset}
    return bool(conn.execute(query("calibrate_signatures"), row).rowcount)


def questions(conn: DeadlineConnection, theme: str, limit: int) -> list[Asked]:
    """Return at most so many turns that have a vector, chosen without a meaning."""
    rows = conn.execute(query("sample_questions"), {"theme": theme, "limit": limit})
    return [Asked(theme, row.id, row.content, row.embedding) for row in rows]


def likenesses(conn: DeadlineConnection, asked: Asked) -> list[tuple[float, float]]:
    """Return pairs of likeness by signature and by vector, of the turns that are nearest by signature."""
    row = {"theme": asked.theme, "id": asked.id, "vector": asked.vector, "limit": _PAIRED}
    return [(found.told, found.real) for found in conn.execute(query("nearest_by_signature"), row)]


def nearest_exactly(conn: DeadlineConnection, asked: Asked, scale: Scale, limit: int) -> list[int]:
    """Return the nearest turns by every vector of the theme, nearest first. Reads them all."""
    row = {"theme": asked.theme, "vector": asked.vector, "limit": limit, "slope": scale.slope, "offset": scale.offset}
    return [found.id for found in conn.execute(query("nearest_exactly"), row)]


def nearest_when_cold(
    conn: DeadlineConnection, asked: Asked, scale: Scale, before: datetime, limit: int
) -> list[Candidate]:
    """Return what the vector leg of a search would propose once the vectors of turns from `before` are gone."""
    row = {
        "theme": asked.theme,
        "vector": asked.vector,
        "limit": limit,
        "slope": scale.slope,
        "offset": scale.offset,
        "before": before,
        "large": LARGE_THEME,
        "small": False,
        "deep": max(DEEP_RERANK, limit),
        "depth": max(RERANK_DEPTH, limit),
        "signed": max(SIGNED_DEPTH, limit),
    }
    return [Candidate(found.id, found.similarity) for found in conn.execute(query("nearest_when_cold"), row)]


def old_sessions(conn: DeadlineConnection, theme: str, before: datetime, fewest: int) -> list[SessionTranscript]:
    """Return the sessions of a theme that ended before a time and have at least `fewest` turns, oldest first."""
    rows = conn.execute(query("old_sessions"), {"theme": theme, "before": before, "fewest": fewest})
    return [SessionTranscript(theme, *row) for row in rows]


def turns_of(conn: DeadlineConnection, session: SessionTranscript) -> list[Any]:
    """Return the turns of a session in their order: id, at, role, content, metadata."""
    return list(conn.execute(query("session_turns"), _names(session)))


def replace_session(
    conn: DeadlineConnection,
    session: SessionTranscript,
    digests: Mapping[int, bytes],
    summary: str,
    metadata: Mapping[str, Any],
    language: str,
) -> bool:
    """Put a summary in the place of a session's turns; False, and nothing is changed, where they are not these now."""
    names = _names(session)
    if {row.id: row.digest for row in conn.execute(query("lock_session"), names)} != dict(digests):
        return False
    row = names | {"content": summary, "at": session.last_at, "metadata": Jsonb(dict(metadata)), "language": language}
    conn.execute(query("store_summary"), row)
    conn.execute(query("delete_turns"), {"theme": session.theme, "ids": list(digests)})
    return True


def may_vacuum(conn: DeadlineConnection) -> bool:
    """Return whether this role owns the tables."""
    owned = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'conversations'::regclass"
    return conn.execute(owned).fetchone() == (True,)


def vacuum(conn: DeadlineConnection, *, full: bool) -> None:
    """Give the space of what is gone to new rows, or with `full` back to the disk: nobody reads or writes meanwhile."""
    conn.execute("VACUUM (FULL, ANALYZE) conversations, conversation_chunks" if full else
                 "VACUUM (ANALYZE) conversations, conversation_chunks")  # fmt: skip


def _names(session: SessionTranscript) -> dict[str, str | None]:
    return {name: getattr(session, name) for name in ("theme", "session_id", "platform", "profile", "chat_type")}
