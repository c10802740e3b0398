"""An operator's question: what to look for and where, asked in the way that the agents' tools ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...domain.errors import InvalidArgument, WrongUsage
from ...domain.theme import ThemeRules
from ...domain.theme_access import EVERYTHING
from ...domain.types import PAGES_END, Filters, Hit, Question, Scope, Store
from ...store.connection import DeadlineConnection
from ..common.fact_options import FACT_KINDS
from ..common.row_options import Page
from ..common.theme_names import theme_of_session, theme_to_read

TYPES: Mapping[str, tuple[str, ...] | None] = {
    "facts": FACT_KINDS,
    "episodes": None,
    "procedures": ("procedure",),
    "reflections": ("reflection",),
}
_UNLIKE = 0.005  # a similarity or relevance below this would be shown as 0.00


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for: the text, the filters on rows, and the page of results.

    `store` may be `both`. `role` is for turns, `target` for memories, and `type` is one of TYPES.
    """

    text: str
    page: Page
    store: str = "both"
    role: str | None = None
    target: str | None = None
    type: str | None = None
    rerank: bool = True

    def stores(self) -> list[Store]:
        """Return the stores to search; a filter that applies to only one of the two excludes the other.

        Raises WrongUsage for filters that do not go together.
        """
        if (self.role and self.store == "memories") or (self.target and self.store == "turns"):
            raise WrongUsage("role is for turns, target for memories")
        if self.type:
            return [self._store_of_type(self.type)]
        if self.store != "both":
            return ["turns" if self.store == "turns" else "memories"]
        if bool(self.role) == bool(self.target):
            return ["memories", "turns"]
        return ["turns"] if self.role else ["memories"]

    def _store_of_type(self, type_: str) -> Store:
        store: Store = "memories" if TYPES[type_] else "turns"
        if (
            self.store not in ("both", store)
            or (self.role and store == "memories")
            or (self.target and store == "turns")
        ):
            raise WrongUsage(f"the type {type_} looks among {store}: store, role or target does not")
        return store

    def question(self, stores: Sequence[Store], scope: Scope, deadline_s: float) -> Question:
        """Return the question to these stores. Raises InvalidArgument for a page too far down."""
        if self.page.offset + self.page.limit > PAGES_END:
            raise InvalidArgument(f"offset and limit reach {PAGES_END} results at most; ask a narrower question")
        return Question(
            self.text,
            scope,
            self.page.limit,
            deadline_s,
            Filters(
                target=self.target if "memories" in stores else None,
                kinds=TYPES.get(self.type or "") if "memories" in stores else None,
                role=self.role if "turns" in stores else None,
                since=self.page.since,
                until=self.page.until,
            ),
            offset=self.page.offset,
            around="turns" in stores,
            rerank=self.rerank,
        )


def scope_of(
    conn: DeadlineConnection,
    rules: ThemeRules,
    home: Path,
    *,
    theme: str | None = None,
    session: str | None = None,
    everywhere: bool = False,
) -> Scope:
    """Return where to search: in a session, in every theme, or in one theme, see `theme_to_read`.

    Raises InvalidArgument if there is no such theme or session.
    """
    if session:
        return Scope("session", theme_of_session(conn, session, theme, rules), session)
    if everywhere:
        return Scope("all", rules.default, shared=EVERYTHING)
    return Scope("theme", theme_to_read(conn, theme, rules, home))


def is_unlike(hit: Hit) -> bool:
    """Return whether a row only fills the page: it was found by meaning alone, and is nothing like the question.

    The bundled cross-encoder scores such rows, too; what it says of them counts.
    """
    by_meaning = hit.vector_rank is not None and hit.word_rank is None
    judged = hit.rerank_rank is not None and (hit.relevance is None or hit.relevance >= _UNLIKE)
    return by_meaning and not judged and hit.similarity is not None and hit.similarity < _UNLIKE
