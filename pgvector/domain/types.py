"""The things the package speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

MEMORY_FILES: Final = {"memory": "MEMORY.md", "user": "USER.md"}  # of the host, by target
PAGES_END = 550  # rows: no page of results reaches further down; another question finds that better
Store = Literal["memories", "turns"]
ScopeKind = Literal["theme", "session", "all"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: one theme, one session of that theme, or every theme.

    `own`: `theme` is that of who asks, and everything in it is readable; else, as in the other themes of `all`, what is
    private is not. `shared`: addresses of chats that are not private, see domain/theme_access.py.
    """

    kind: ScopeKind
    theme: str
    session_id: str | None = None
    own: bool = True
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filters:
    """What a row must be besides matching. `target` and `kinds` are for memories, `role` for turns.

    `until` is exclusive. A memory of no kind is a fact.
    """

    target: str | None = None
    kinds: tuple[str, ...] | None = None
    role: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def restrict(self) -> bool:
        """Return whether some rows do not pass."""
        return any(value is not None for value in (self.target, self.kinds, self.role, self.since, self.until))


class Candidate(NamedTuple):
    """A row that one leg of the search proposes; `score` is its similarity, or how well it matches by words.

    `coverage`: the share of the weight of the question's words that it holds. `quoted`: how many quoted phrases.
    """

    id: int
    score: float
    coverage: float = 0.0
    quoted: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A remembered text. `similarity` is the cosine with the question, None where either has no embedding.

    `vector_rank` and `word_rank` count from 1 and are None where that leg did not propose the row; a turn that neither
    proposed stands beside one that matches, or began a session on the day that the question names. `rerank_rank` and
    `rerank_score` are a cross-encoder's, where one was asked. `relevance` is how likely the row answers, 0 to 1, by the
    bundled cross-encoder; None where that did not score it. `nearest_char` is where the part of a long text begins that
    is nearest to the question. Of a very long text `content` is the part from `first_char` on, and `size` that of the
    whole, in bytes; else it is 0. `structure` is what a memory says of itself besides its text, and what it took the
    place of (`replaced`). `around` holds the turns right before and after, when they were asked for.
    """

    store: Store
    id: int
    theme: str
    kind: str
    session_id: str | None
    content: str
    at: datetime
    similarity: float | None
    nearest_char: int = 0
    first_char: int = 0
    size: int = 0
    structure: Mapping[str, Any] | None = field(default=None, compare=False)
    coverage: float = 0.0
    score: float = 0.0
    vector_rank: int | None = None
    word_rank: int | None = None
    rerank_rank: int | None = None
    rerank_score: float | None = None
    relevance: float | None = None
    around: tuple[Hit, ...] = ()

    @property
    def when(self) -> str:
        """Return the situation that a procedure or a reflection is for, "" where it names none."""
        return str((self.structure or {}).get("when", ""))


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """What vectors must share to be compared: the model, their length, and what is put before a stored text.

    `query_prefix` is what the model wants before a question; it changes no stored vector.
    """

    model: str
    dims: int
    document_prefix: str = ""
    query_prefix: str = ""

    def comparable(self, other: EmbeddingSpace) -> bool:
        """Return whether vectors of the two mean something to each other."""
        return (self.model, self.dims, self.document_prefix) == (other.model, other.dims, other.document_prefix)


# Sessions of a theme, with from when to when their turns are meant, in seconds since the epoch.
HeldTurns = tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for, where, and how much of it.

    `around`: the turns before and after each hit as well. `rerank`: in the order of a cross-encoder, where there is
    one. `without`: turns that are left out. `begins_task`: what to do in which situation is wanted as well.
    """

    text: str
    scope: Scope
    limit: int
    deadline_s: float
    filters: Filters = field(default_factory=Filters)
    offset: int = 0
    around: bool = False
    rerank: bool = False
    without: HeldTurns = ()
    begins_task: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found; whether the vector leg took part (`hybrid`) or only words did (`lexical`); who had the last word.

    `reranked`: the order is a cross-encoder's. `procedures` are the newest of the theme that name a situation, whether
    it is this one or not; the `coverage` of each is the share of its situation's words that the question has.
    """

    hits: tuple[Hit, ...]
    mode: str
    reranked: bool = False
    procedures: tuple[Hit, ...] = ()


class Removed(NamedTuple):
    """A memory that was removed: what is left of it."""

    theme: str
    target: str
    digest: bytes
    removed_at: datetime
    origin: str = ""  # the home whose memory file let go of it
