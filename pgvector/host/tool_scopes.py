"""Where a recall may look: the scope arguments of a tool, a chat's two themes, and themes that hold nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge, nlargest
from typing import TYPE_CHECKING, Any, Final

from ..config.settings import Settings
from ..domain.errors import HermesPgvectorError, InvalidArgument
from ..domain.fork_safety import at_import
from ..domain.theme import SessionThemes, is_chat
from ..domain.theme_access import Offer
from ..domain.types import Answer, Hit, Question, Scope, Store
from .session_context import Policy

if TYPE_CHECKING:
    from ..recall.searcher import Begun, Searcher
    from ..runtime.process import Runtime

_SUGGESTED_MOST = 3  # names of themes
_ALIKE = 0.6
_NAME_MOST_CHARS = 10_000  # of a scope; a theme has 256, but may be named by a longer key
# The scopes that a session may use, by Reach.offer.
_SCOPES_OFFERED: Final[dict[Offer, str]] = {
    "all": "current (this theme, the default), session (this conversation), all (every theme), or the name of a theme",
    "named": "current (this theme, the default), session (this conversation), or the name of a theme",
    "own": "current (this theme, the default) or session (this conversation)",
}


@dataclass(frozen=True)
class ToolScope:
    """The session in which a tool was called, and the deadline of its answer (`ends`, monotonic)."""

    runtime: Runtime
    place: SessionThemes
    session_id: str
    settings: Settings
    policy: Policy
    ends: float

    def theme(self, store: Store) -> str:
        """Return the session's own theme for memories or turns."""
        return (self.place.memories if store == "memories" else self.place.turns).name

    def scope(self, store: Store, scope: object = None, theme: object = None) -> tuple[Scope, str]:
        """Return the scope that the arguments mean, and a note if it is narrower than the settings say.

        `theme`, an argument of earlier schemas, and a scope `theme:NAME` always mean a theme, even one called "all".
        Raises InvalidArgument, also for what the setting `cross_theme` forbids.
        """
        own, chat = self.theme(store), self.place.chat
        offered = _SCOPES_OFFERED[self.policy.reach.offer(chat=chat)]
        word, named = _text("scope", scope, offered), _text("theme", theme, "the name of a theme")
        if named:
            if word.lower() not in ("", "current"):
                raise InvalidArgument("give `scope` or `theme`, not both")
            return self._named(named, own), ""
        kind = (word or self.settings.scope_default).lower()
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

    def recall(self, store: Store, asked: Question) -> Answer:
        """Return what the store answers; the call is counted."""
        found = self.runtime.searcher.recall([store], asked)
        self.runtime.counts.update(tool_recalls=1, tool_recalls_found=bool(found.hits))
        return found

    def about(self, scope: Scope) -> str:
        """Return a note if `scope` names another theme in which this session can find nothing; otherwise "".

        Themes with similar names are suggested if this session may read something in them, but never chats.
        """
        if scope.kind != "theme" or scope.own:
            return ""
        with at_import:
            from ..store.vector_search import theme_holds, theme_names
        try:
            with self.runtime.backend.connection(self._left_s) as conn:
                if theme_holds(conn, scope):
                    return ""
                names = self._readable(theme_names(conn))
            near = self._alike(scope.theme, names)  # without holding a connection: for thousands it takes seconds
            with self.runtime.backend.connection(self._left_s) as conn:
                known = [name for name in near if theme_holds(conn, scope._replace(theme=name))][:_SUGGESTED_MOST]
        except HermesPgvectorError:
            return ""
        meant = f"; did you mean {' or '.join(map(repr, known))}?" if known else ""
        return f"no theme of the name {scope.theme!r} holds anything that can be read here{meant}"

    @property
    def _left_s(self) -> float:
        return max(0.05, self.ends - time.monotonic())

    def _alike(self, theme: str, names: Iterable[str]) -> list[str]:
        """Return the names most similar to `theme`, among as many as can be compared in half of the time left."""
        with at_import:
            from difflib import SequenceMatcher
        ends = time.monotonic() + self._left_s / 2
        matcher = SequenceMatcher()
        matcher.set_seq2(theme)
        found: list[tuple[float, str]] = []
        for name in names:
            if time.monotonic() > ends:
                break
            matcher.set_seq1(name)
            if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE:
                found.append((matcher.ratio(), name))
        return [name for ratio, name in nlargest(2 * _SUGGESTED_MOST, found) if ratio >= _ALIKE]

    def _readable(self, names: Iterable[str]) -> list[str]:
        reach, chat = self.policy.reach, self.place.chat
        return [name for name in names if not is_chat(name) and reach.allows(name, chat=chat)]

    def _named(self, name: str, own: str) -> Scope:
        wanted = self.policy.rules.resolve_name(name)
        if not wanted:
            offered = _SCOPES_OFFERED[self.policy.reach.offer(chat=self.place.chat)]
            raise InvalidArgument(f"`scope` is empty; it may be {offered}")
        if wanted != own:
            self.policy.reach.check(wanted, chat=self.place.chat)
        return Scope("theme", wanted, own=wanted == own, shared=self.policy.reach.shared)


def _text(name: str, given: object, meaning: str) -> str:
    if given is None:
        return ""
    if not isinstance(given, str):
        raise InvalidArgument(f"`{name}` must be text: {meaning}")
    if given and not given.strip():
        raise InvalidArgument(f"`{name}` is empty; it may be {meaning}")
    if len(given) > _NAME_MOST_CHARS:
        raise InvalidArgument(f"`{name}` is longer than {_NAME_MOST_CHARS:,} characters; it may be {meaning}")
    return given.strip()


class ChatSearcher:
    """A searcher for a chat whose memories have another theme than its turns; transparent for other sessions."""

    def __init__(self, searcher: Searcher, place: SessionThemes) -> None:
        self._searcher = searcher
        self._place = place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)

    def recall(self, stores: Sequence[Store], asked: Question, begun: Begun | None = None) -> Answer:
        """Return the searcher's answer; for the chat's own theme, memories come from the theme of its memories."""
        turns, memories = self._place.turns.name, self._place.memories.name
        if turns == memories or asked.scope != Scope("theme", turns) or set(stores) != {"memories", "turns"}:
            return self._searcher.recall(stores, asked, begun)
        end = time.monotonic() + asked.deadline_s
        whole = asked._replace(offset=0, limit=asked.offset + asked.limit)
        first = self._searcher.recall(["turns"], whole, begun)
        left = whole._replace(scope=Scope("theme", memories), deadline_s=max(0.01, end - time.monotonic()))
        second = self._searcher.recall(["memories"], left, begun)
        # Each list keeps its own order, which may be a cross-encoder's rather than that of the scores.
        hits: list[Hit] = list(merge(first.hits, second.hits, key=lambda hit: -hit.score))
        mode = "hybrid" if "hybrid" in (first.mode, second.mode) else first.mode
        shown = tuple(hits[asked.offset :][: asked.limit])
        reranked = first.reranked or second.reranked
        return Answer(shown, mode, reranked=reranked, procedures=second.procedures, held=first.held)
