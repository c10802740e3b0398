"""Where a recall may look: what an argument of a tool means, and a chat's two themes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..domain.errors import InvalidArgument
from ..domain.theme import SessionThemes
from ..domain.types import Answer, Hit, Question, Scope, Store
from .session_context import Policy

if TYPE_CHECKING:
    from ..recall.searcher import Searcher

SCOPES = "current (this theme, the default), session (this conversation), all (every theme), or the name of a theme"
_MEANING = {"scope": SCOPES, "theme": "the name of a theme"}


@dataclass(frozen=True)
class ToolScope:
    """Where a tool was called."""

    place: SessionThemes
    session_id: str
    scope_default: str
    deadline_s: float
    max_tokens: int
    policy: Policy

    def theme(self, store: Store) -> str:
        """Return the session's own theme for memories or turns."""
        return (self.place.memories if store == "memories" else self.place.turns).name

    def scope(self, store: Store, scope: object = None, theme: object = None) -> tuple[Scope, str]:
        """Return what the arguments `scope` and, by an earlier schema, `theme` mean, and a note where that is less than the settings say.

        `theme`, and a scope `theme:NAME`, always mean a theme, also one called "all". Raises InvalidArgument, also for
        what the setting `cross_theme` forbids.
        """
        own, chat = self.theme(store), self.place.chat
        word, named = _text("scope", scope), _text("theme", theme)
        if named:
            if word.lower() not in ("", "current"):
                raise InvalidArgument("give `scope` or `theme`, not both")
            return self._named(named, own), ""
        kind = (word or self.scope_default).lower()
        if kind == "current":
            return Scope("theme", own), ""
        if kind == "session":
            return Scope("session", own, self.session_id), ""
        if kind != "all":
            return self._named(word.removeprefix("theme:"), own), ""
        try:
            self.policy.reach.check_all(chat=chat)
        except InvalidArgument as exc:
            if word:
                raise
            return Scope("theme", own), f"only this theme was searched: {exc}"
        return Scope("all", own, shared=self.policy.reach.shared), ""

    def _named(self, name: str, own: str) -> Scope:
        wanted = self.policy.rules.resolve_name(name)
        if not wanted:
            raise InvalidArgument(f"`scope` is empty; it may be {SCOPES}")
        self.policy.reach.check(wanted, own=frozenset({own}), chat=self.place.chat)
        return Scope("theme", wanted, own=wanted == own, shared=self.policy.reach.shared)


def _text(name: str, given: object) -> str:
    if given is None:
        return ""
    if not isinstance(given, str):
        raise InvalidArgument(f"`{name}` must be text: {_MEANING[name]}")
    if given and not given.strip():
        raise InvalidArgument(f"`{name}` is empty; it may be {_MEANING[name]}")
    return given.strip()


class ChatSearcher:
    """A searcher for a chat whose memories have another theme than its turns; for any other session, the searcher."""

    def __init__(self, searcher: Searcher, place: SessionThemes) -> None:
        self._searcher = searcher
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)

    def recall(self, stores: Sequence[Store], asked: Question) -> Answer:
        """As the searcher; of the chat's own theme, memories come from the theme of its memories."""
        turns, memories = self._place.turns.name, self._place.memories.name
        if turns == memories or asked.scope != Scope("theme", turns) or set(stores) != {"memories", "turns"}:
            return self._searcher.recall(stores, asked)
        end = time.monotonic() + asked.deadline_s
        whole = replace(asked, offset=0, limit=asked.offset + asked.limit)
        first = self._searcher.recall(["turns"], whole)
        left = replace(whole, scope=Scope("theme", memories), deadline_s=max(0.01, end - time.monotonic()))
        second = self._searcher.recall(["memories"], left)
        hits: list[Hit] = sorted((*first.hits, *second.hits), key=lambda hit: -hit.score)
        mode = "hybrid" if "hybrid" in (first.mode, second.mode) else first.mode
        return replace(first, hits=tuple(hits[asked.offset :][: asked.limit]), mode=mode)
