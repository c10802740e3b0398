"""The plain data types that all parts of the package share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

MEMORY_FILES: Final = {"memory": "MEMORY.md", "user": "USER.md"}  # of the host, by target
TARGETS: Final = tuple(MEMORY_FILES)  # what a memory may be about
PAGES_END = 550  # rows: no page of results reaches beyond; another question finds such rows better
Store = Literal["memories", "turns"]
ScopeKind = Literal["theme", "session", "all"]


class Scope(NamedTuple):
    """Where to look: one theme, one session of that theme, or every theme.

    `own`: `theme` is the asking session's own, and everything in it is readable; otherwise, and in the other themes of
    `all`, private rows are not. `shared`: addresses of chats that are not private, see domain/theme_access.py.
    """

    kind: ScopeKind
    theme: str
    session_id: str | None = None
    own: bool = True
    shared: tuple[str, ...] = ()


class Filters(NamedTuple):
    """Conditions on a row besides matching. `target` and `kinds` are for memories, `role` for turns.

    `until` is exclusive. A memory without a kind is a fact.
    """

    target: str | None = None
    kinds: tuple[str, ...] | None = None
    role: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def limits_time(self) -> bool:
        """Return whether only rows of some time pass."""
        return self.since is not None or self.until is not None

    def restrict(self) -> bool:
        """Return whether any filter is set."""
        return any(value is not None for value in (self.target, self.kinds, self.role, self.since, self.until))


class Candidate(NamedTuple):
    """A row that one leg of the search proposes; `score` is its similarity or its lexical score.

    `coverage`: the share of the weight of the question's words that it contains. `quoted`: how many quoted phrases.
    """

    id: int
    score: float
    coverage: float = 0.0
    quoted: int = 0


RowId = tuple[Store, int]  # a memory or a turn


class Hit(NamedTuple):
    """A remembered text. `similarity` is the cosine with the question, None if either has no embedding.

    `vector_rank` and `word_rank` count from 1 and are None if that leg did not propose the row; a turn that neither
    proposed is next to one that matches, or began a session on the day that the question names. `rerank_rank` and
    `rerank_score` come from a cross-encoder, if one was asked. `relevance` is how likely the row answers, 0 to 1, by
    the bundled cross-encoder; None if that did not score it. `nearest_char` is the offset of the part of a long text
    that is nearest to the question. For a very long text, `content` is the part from `first_char` on and `size` the
    size of the whole in bytes; otherwise `size` is 0. `structure` holds a memory's attributes besides its text, and
    what it replaced (`replaced`). `told_then`: it was told at a time that the question names. `around` holds the turns
    right before and after, if they were requested. `asked`: what was searched for instead of the message, if anything:
    one of its questions, with what it refers to, or with the words that are meant by misspelt ones. `among`: how many
    rows of its store were searched, up to some thousands; 0 if that is unknown.
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
    structure: Mapping[str, Any] | None = None
    coverage: float = 0.0
    score: float = 0.0
    vector_rank: int | None = None
    word_rank: int | None = None
    rerank_rank: int | None = None
    rerank_score: float | None = None
    relevance: float | None = None
    told_then: bool = False
    around: tuple[Hit, ...] = ()
    asked: str = ""
    among: int = 0

    @property
    def row(self) -> RowId:
        """Return which row this is."""
        return self.store, self.id

    @property
    def when(self) -> str:
        """Return the situation that a procedure or a reflection is for, "" if it names none."""
        return str((self.structure or {}).get("when", ""))


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """What vectors must share to be comparable: the model, their length, and the prefix of a stored text.

    `query_prefix` is the prefix that the model expects before a question; it changes no stored vector.
    """

    model: str
    dims: int
    document_prefix: str = ""
    query_prefix: str = ""

    def comparable(self, other: EmbeddingSpace) -> bool:
        """Return whether vectors of the two spaces can be compared."""
        fits = (self.dims, self.document_prefix) == (other.dims, other.document_prefix)
        return fits and same_model(self.model, other.model)


def same_model(one: str, other: str) -> bool:
    """Return whether two names mean one model. Ollama lists with `:latest` what it takes without a tag as well."""
    return one.removesuffix(":latest") == other.removesuffix(":latest")


# Sessions of a theme, each with the first and last time of the turns that are meant, in seconds since the epoch.
HeldTurns = tuple[tuple[str, float, float], ...]


class Question(NamedTuple):
    """A question to recall: its text, where to look, and how many results to return.

    `around`: return the turns before and after each hit as well. `rerank`: order by a cross-encoder, if there is one.
    `without`: turns to leave out of the results. `begins_task`: return procedures for situations as well. `asking`: the
    sessions that ask, which "last time" does not mean. `context`: what the conversation is about, for a text that names
    nothing; `reply`: what was answered last, in brief. `as_written`: no word is taken for a misspelt one.
    """

    text: str
    scope: Scope
    limit: int
    deadline_s: float
    filters: Filters = Filters()
    offset: int = 0
    around: bool = False
    rerank: bool = False
    without: HeldTurns = ()
    begins_task: bool = False
    asking: tuple[str, ...] = ()
    context: str = ""
    reply: str = ""
    as_written: bool = False


class Answer(NamedTuple):
    """What was found; `mode` is `hybrid` if the vector leg took part, `lexical` if only words did.

    `reranked`: the order is a cross-encoder's. `procedures` are the theme's newest ones that name a situation, whether
    it is this one or not; the `coverage` of each is the share of its situation's words that the question contains.
    `held`: turns that the question leaves out, and that would have been among the first results.
    """

    hits: tuple[Hit, ...]
    mode: str
    reranked: bool = False
    procedures: tuple[Hit, ...] = ()
    held: tuple[Hit, ...] = ()


BY_IMPORT = "import"


class Removed(NamedTuple):
    """The record of a removed memory."""

    theme: str
    target: str
    digest: bytes
    removed_at: datetime
    origin: str = ""  # the home whose memory file dropped it, or BY_IMPORT where an export says no more
