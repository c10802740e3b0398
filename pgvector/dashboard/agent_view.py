"""What an agent would have put before a message, and what it would leave out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..admin.common.refs import Ref
from ..admin.common.theme_names import theme_to_read
from ..capture.turn_filter import is_trivial_query
from ..config.settings import Settings
from ..domain.chunks import estimate_tokens
from ..domain.session_turns import Session, SessionTurns
from ..domain.theme import SessionThemes, Surface, session_themes
from ..domain.types import Answer, Hit, Question, Store
from ..host.hook_operations import question_in
from ..host.session_context import Policy, profile_of
from ..host.tool_scopes import ChatSearcher
from ..recall.bars import MinSimilarity
from ..recall.block import lines_of
from ..recall.excerpt import excerpt
from ..recall.prefetch import MIN_COVERAGE, MessagePlace, prefetch_block, worth_showing
from ..recall.searcher import Searcher
from ..recall.transcripts import Transcripts
from .desk import READ_S, Desk
from .page_route import PageRoute
from .params import Params

_CHARS = 600  # of a text among others
_BELOW_MOST = 20
_AFTER_S = 0.1  # for what is told of the rows that are not shown


class _Overheard:
    """A searcher that keeps what it has found, for whoever asks what became of it."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self.found: dict[tuple[Store, int], Hit] = {}
        self.besides: list[Hit] = []
        self.near: MinSimilarity | None = None
        self.mode = "lexical"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)

    def recall(self, stores: Sequence[Store], asked: Question) -> Answer:
        """As the searcher."""
        answer = self._searcher.recall(stores, asked)
        self.found |= {(hit.store, hit.id): hit for hit in answer.hits}
        self.besides += answer.procedures
        self.mode = answer.mode
        return answer

    def bars(self, text: str, until: float) -> MinSimilarity | None:
        """As the searcher."""
        self.near = self._searcher.bars(text, until)
        return self.near

    def bar(self, settings: Settings) -> MinSimilarity | None:
        """Return the similarity that was asked for; None where only words decided."""
        if settings.min_similarity == "auto":
            return self.near
        return MinSimilarity(settings.min_similarity, settings.min_similarity)

    def before_session(self, *place: str, **limits: Any) -> list[Hit]:
        """As the searcher."""
        before = self._searcher.before_session(*place, **limits)
        self.besides += before
        return before

    def by_text(self) -> dict[str, Hit]:
        """Return every row that a block may quote, by its words: found ones, those around them and others."""
        around = [turn for hit in self.found.values() for turn in hit.around]
        return {hit.content: hit for hit in (*around, *self.besides, *self.found.values())}


class _NewTranscript(Transcripts):
    """The transcript of a session that was shown nothing yet; `texts` are what it is shown, in order."""

    def __init__(self) -> None:
        super().__init__(SessionTurns())
        self.texts: list[str] = []

    def add(self, session: Session, texts: Iterable[str]) -> None:
        """Note what the session is shown."""
        shown = list(texts)
        self.texts += shown
        super().add(session, shown)


def agent_view(desk: Desk, params: Params) -> Mapping[str, Any]:
    """Return the block that a message gets in a theme, what it leaves out, and why there is none."""
    started = time.monotonic()
    message = params.needed("message")
    ready = desk.models.ready(desk.context())
    with desk.reading() as conn:
        theme = theme_to_read(conn, params.optional("theme"), desk.rules, desk.home)
    place = _themes(theme, desk)
    text = question_in(message, Policy.of(desk.settings).keep.max_chars)
    silent = _silenced(desk.settings, place, text)
    session = params.text("session")
    where = MessagePlace(theme, session, starts=not session)
    overheard, transcript, block = _Overheard(ready.searcher), _NewTranscript(), ""
    left_s = max(0.05, READ_S - _AFTER_S - (time.monotonic() - started))
    settings = replace(desk.settings, prefetch_deadline_s=min(desk.settings.prefetch_deadline_s, left_s))
    if not silent:
        searcher = cast("Searcher", ChatSearcher(cast("Searcher", overheard), place))
        block = prefetch_block(searcher, transcript, text, where, settings)
    known = overheard.by_text()
    told = [known[shown] for shown in transcript.texts if shown in known]
    below = _below(overheard, transcript, told, text, where, settings)
    near = overheard.bar(settings)
    return {
        "theme": theme,
        "block": block,
        "tokens": estimate_tokens(block) if block else 0,
        "budget_tokens": settings.prefetch_max_tokens,
        "lines": [_line(hit, text) for hit in told],
        "below": below,
        "bar": None if near is None else round(near.memories, 4),
        "bar_of_turns": None if near is None else round(near.turns, 4),
        "silent": silent or (None if block else _nothing(below)),
        "mode": overheard.mode,
        "why_by_words": None if silent else ready.why_by_words(overheard.mode),
        "loading": ready.loading,
        "took_ms": round((time.monotonic() - started) * 1000),
    }


def _themes(theme: str, desk: Desk) -> SessionThemes:
    """Return the themes of a session of this home that has its turns in `theme`."""
    own = session_themes(Surface(profile=profile_of(desk.home)), desk.rules)
    if not theme.startswith("@"):
        turns = own.turns._replace(name=theme)
        return SessionThemes(turns, turns, own.files)
    profile = session_themes(Surface(profile=theme.split("/")[1] if "/" in theme else ""), desk.rules)
    turns = own.turns._replace(name=theme, source="chat")
    return SessionThemes(
        turns, profile.memories if desk.rules.messaging == "split" else turns, profile.files, chat=True
    )


def _silenced(settings: Settings, place: SessionThemes, text: str) -> str | None:
    """Return why nothing is looked up at all; None where something is."""
    if settings.prefetch_limit == 0:
        return "recall before a turn is off (setting `prefetch_limit` is 0)"
    if Policy.of(settings).silences(place, Counter()):
        return "sessions of this theme recall nothing (setting `recall_off`)"
    if is_trivial_query(text):
        return "there is nothing to look for in this message: it only greets, thanks or agrees"
    return None


def _nothing(below: Sequence[Mapping[str, Any]]) -> str:
    """Return why nothing is shown of what was looked up."""
    return (
        "nothing in the theme is near enough to this message" if below else "nothing in the theme matches this message"
    )


def _below(
    overheard: _Overheard,
    transcript: Transcripts,
    told: Sequence[Hit],
    text: str,
    where: MessagePlace,
    settings: Settings,
) -> list[dict[str, Any]]:
    """Return the best of the rows that were found and are not in the block."""
    found = list(overheard.found.values())
    until = time.monotonic() + _AFTER_S
    worth = {(hit.store, hit.id) for hit in worth_showing(cast("Searcher", overheard), found, text, settings, until)}
    shown = {(hit.store, hit.id) for hit in told}
    lines = lines_of([hit for hit in found if (hit.store, hit.id) in worth])
    beside = {(line.beside.store, line.beside.id) for line in lines if line.beside is not None}
    leading = {(line.told.store, line.told.id) for line in lines}
    near = overheard.bar(settings)

    def why(hit: Hit) -> str:
        row = (hit.store, hit.id)
        if row not in worth:
            return _too_far(hit, near)
        if transcript.holds(where.session, hit):
            return "the session still has it before it"
        if row in leading:
            return "there was no room for another line (settings `prefetch_limit` and `prefetch_max_tokens`)"
        if row in beside:
            return "it is told in brief beside the other half of its exchange"
        return "another row says nearly the same, or its newer value"

    left_out = [hit for hit in found if (hit.store, hit.id) not in shown][:_BELOW_MOST]
    return [_line(hit, text) | {"why": why(hit)} for hit in left_out]


def _too_far(hit: Hit, near: MinSimilarity | None) -> str:
    """Return why a row is not held for an answer."""
    said = []
    if hit.relevance is not None:
        said.append(f"the reranker gives it a chance of {hit.relevance:.1%}")
    if near is not None and hit.similarity is not None:
        bar = near.turns if hit.store == "turns" else near.memories
        said.append(f"its similarity is {hit.similarity:.2f}, and {bar:.2f} would do")
    if hit.relevance is None:
        said.append(f"it holds {hit.coverage:.0%} of the question's words by weight, and {MIN_COVERAGE:.0%} may do")
    return "; ".join(said)


def _line(hit: Hit, text: str) -> dict[str, Any]:
    return {
        "ref": str(Ref(hit.store, hit.id)),
        "store": hit.store,
        "theme": hit.theme,
        "kind": hit.kind,
        "at": hit.at.isoformat(),
        "content": excerpt(hit.content, text, _CHARS),
        "similarity": None if hit.similarity is None else round(hit.similarity, 4),
    }


ROUTES = (PageRoute("/agent-view", agent_view),)
