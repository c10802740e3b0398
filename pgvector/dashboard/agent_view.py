"""The block that an agent would put before a message, and what it would leave out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ..admin.common.theme_names import theme_to_read
from ..config.settings import Settings
from ..domain.chunks import estimate_tokens
from ..domain.session_turns import Session, SessionTurns
from ..domain.theme import SessionThemes, Surface, is_chat, session_themes
from ..domain.types import Answer, Hit, Question, RowId, Store
from ..host.session_context import Policy, profile_of
from ..host.sought import sought_before_turn
from ..host.tool_scopes import ChatSearcher
from ..recall.asking import asks
from ..recall.bars import MinSimilarity
from ..recall.block import Line, lines_of, other_half
from ..recall.excerpt import excerpt
from ..recall.numbered_names import names_another
from ..recall.prefetch import MessagePlace, prefetch_block
from ..recall.relevance import MIN_COVERAGE, by_question, said_then, worth_showing
from ..recall.searcher import Begun, Searcher
from ..recall.transcripts import Transcripts
from .page_route import PageRoute
from .params import Params
from .rows import row_of
from .served_homes import READ_S, ServedHome

_CHARS = 600  # of a text among others
_BELOW_MOST = 20
_AFTER_S = 0.1  # to find out why rows are not shown
_NO_ROOM = "there was no room for another line (settings `prefetch_limit` and `prefetch_max_tokens`)"


class _RecordingSearcher:
    """A searcher that records what it has found, to tell later what became of it."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self.found: dict[RowId, Hit] = {}
        self.besides: list[Hit] = []
        self.near: dict[str, MinSimilarity | None] = {}  # by question, of which a message may have several
        self.mode: str | None = None  # while nothing was searched for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)

    def recall(self, stores: Sequence[Store], asked: Question, begun: Begun | None = None) -> Answer:
        """Search, and record every hit."""
        answer = self._searcher.recall(stores, asked, begun)
        self.found |= {hit.row: hit for hit in (*answer.hits, *answer.held)}
        self.besides += answer.procedures
        self.mode = answer.mode
        return answer

    def bars(self, text: str, until: float, themes: Collection[str] = ()) -> MinSimilarity | None:
        """Return the bars, and record them."""
        self.near[text] = self._searcher.bars(text, until, themes)
        return self.near[text]

    def before_session(self, *place: str, **limits: Any) -> list[Hit]:
        """Return the end of the previous session, and record it."""
        before = self._searcher.before_session(*place, **limits)
        self.besides += before
        return before

    def by_text(self) -> dict[str, Hit]:
        """Return every row that a block may quote, by the text of its line: hits, turns around them and others."""
        hits = (*self.besides, *self.found.values())
        known = {hit.content: hit for hit in (*(turn for hit in hits for turn in hit.around), *hits)}
        for hit in hits:
            if (other := other_half(hit)) is not None:
                answer, asked = (hit, other) if hit.kind == "assistant" else (other, hit)
                known[Line(answer, asked).statement] = answer
        return known


class _NewTranscript(Transcripts):
    """The transcript of a session that has been shown nothing yet; `texts` are what it is shown, in order."""

    def __init__(self) -> None:
        super().__init__(SessionTurns())
        self.texts: list[str] = []

    def add(self, session: Session, texts: Iterable[str]) -> None:
        """Record what the session is shown."""
        shown = list(texts)
        self.texts += shown
        super().add(session, shown)


class _Asked:
    """A message that went through the agent's own code: the block that resulted, and all that was found."""

    def __init__(self, searcher: Searcher, place: SessionThemes, session: str, settings: Settings) -> None:
        self._recorded = _RecordingSearcher(searcher)
        self._searcher = cast("Searcher", ChatSearcher(cast("Searcher", self._recorded), place))
        self._transcript = _NewTranscript()
        self._where = MessagePlace(place.turns.name, session, starts=not session)
        self._settings = settings
        self._worth: list[Hit] = []
        self._of_other_times: set[RowId] = set()
        self._lines: list[Line] = []
        self._text = ""
        self.block = ""

    def ask(self, text: str) -> None:
        """Ask as `prefetch` does. Raises what `prefetch_block` raises."""
        self._text = text
        self.block = prefetch_block(self._searcher, self._transcript, text, self._where, self._settings)
        found = list(self._recorded.found.values())
        until = time.monotonic() + _AFTER_S
        self._worth = worth_showing(self._searcher, found, text, self._settings, until)
        ordered = asks(text, of_a_turn=True)
        for question, hits in by_question(found, text).items():
            then = said_then(hits, question, until, ordered=ordered)
            self._of_other_times |= set() if then is None else {hit.row for hit in hits} - {hit.row for hit in then}
        self._lines = lines_of(self._worth, text)

    @property
    def mode(self) -> str | None:
        """Return how rows were searched for; None if they were not."""
        return self._recorded.mode

    @property
    def turns(self) -> int:
        """Return how many turns were searched, 0 if none was found."""
        return next((hit.among for hit in self._recorded.found.values() if hit.store == "turns"), 0)

    def near(self, question: str = "") -> MinSimilarity | None:
        """Return the similarity that rows needed for a question of the message, by default for the whole of it.

        Where that was not asked for, it is the first one's; None if only words decided.
        """
        if self._settings.min_similarity == "auto":
            known = self._recorded.near
            return known.get(question or self._text, next(iter(known.values()), None))
        return MinSimilarity(self._settings.min_similarity, self._settings.min_similarity)

    def quoted(self) -> list[Hit]:
        """Return the rows that the block quotes, in order."""
        known = self._recorded.by_text() | {line.statement: line.told for line in self._lines}
        return [known[text] for text in self._transcript.texts if text in known]

    def left_out(self) -> list[tuple[Hit, str]]:
        """Return the best of the rows that were found but are not in the block, each with the reason."""
        shown, reasons = {hit.row for hit in self.quoted()}, self._reasons()
        others = [hit for hit in self._recorded.found.values() if hit.row not in shown]
        return [(hit, reasons.get(hit.row) or self._why_not(hit)) for hit in others[:_BELOW_MOST]]

    def _reasons(self) -> dict[RowId, str]:
        """Return why rows that answer are left out if they are not in the block."""
        reasons = {hit.row: "another row says nearly the same, or its newer value" for hit in self._worth}
        reasons |= {line.beside.row: "it stands in brief beside another row" for line in self._lines if line.beside}
        reasons |= {line.told.row: _NO_ROOM for line in self._lines}
        known = (hit.row for hit in self._worth if self._transcript.holds(self._where.session, hit))
        return reasons | dict.fromkeys(known, "the session still has it before it")

    def _why_not(self, hit: Hit) -> str:
        """Return why a row is not considered an answer."""
        if names_another(hit.asked or self._text, hit.content):
            return "it names another one than the message asks for, of the same kind"
        if hit.row in self._of_other_times:
            return "it is of another time than the message asks about"
        return _too_far(hit, self.near(hit.asked))


def agent_view(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return the block that a message gets in a theme, what it leaves out, and the reason if there is none."""
    started = time.monotonic()
    message = params.needed("message")
    ready = served.models.ready(served.context())
    with served.reading() as conn:
        theme = theme_to_read(conn, params.optional("theme"), served.rules, served.home)
    place = _themes(theme, served)
    settings = served.settings
    text, silent = sought_before_turn(message, settings, Policy.of(settings), place, Counter())
    asked = _Asked(ready.searcher, place, params.text("session"), _hurried(served.settings, started))
    if not silent:
        asked.ask(text)
    below = [_line(hit, text) | {"why": why} for hit, why in asked.left_out()]
    return {
        "theme": theme,
        "block": asked.block,
        "tokens": estimate_tokens(asked.block) if asked.block else 0,
        "budget_tokens": served.settings.prefetch_max_tokens,
        "lines": [_line(hit, text) for hit in asked.quoted()],
        "below": below,
        **_bars(asked.near(), asked.turns),
        "silent": silent or (None if asked.block else _nothing(below)),
        "mode": asked.mode,
        "why_by_words": ready.why_by_words(asked.mode),
        "loading": ready.loading,
        "took_ms": round((time.monotonic() - started) * 1000),
    }


def _hurried(settings: Settings, started: float) -> Settings:
    """Return the settings with a deadline that a page can wait for."""
    left_s = max(0.05, READ_S - _AFTER_S - (time.monotonic() - started))
    return replace(settings, prefetch_deadline_s=min(settings.prefetch_deadline_s, left_s))


def _themes(theme: str, served: ServedHome) -> SessionThemes:
    """Return the themes of a session of this home that has its turns in `theme`."""
    own = session_themes(Surface(profile=profile_of(served.home)), served.rules)
    if not is_chat(theme):
        turns = own.turns._replace(name=theme)
        return SessionThemes(turns, turns, own.files)
    profile = session_themes(Surface(profile=theme.split("/")[1] if "/" in theme else ""), served.rules)
    turns = own.turns._replace(name=theme, source="chat")
    memories = profile.memories if served.rules.messaging == "split" else turns
    return SessionThemes(turns, memories, profile.files, chat=True)


def _nothing(below: Sequence[Mapping[str, Any]]) -> str:
    """Return why the search gave nothing to show."""
    return f"nothing in the theme {'is near enough to' if below else 'matches'} this message"


def _too_far(hit: Hit, near: MinSimilarity | None) -> str:
    """Return what a row has of what would make it an answer, and how much that would take."""
    holds = f"{hit.coverage:.0%} of the question's words by weight"
    if near is None or hit.similarity is None:
        measured = "" if hit.relevance is None else f"; the reranker gives it a chance of {hit.relevance:.1%}"
        return f"it holds {holds}, and {MIN_COVERAGE:.0%} would do{measured}"
    bar = near.of_hit(hit)
    if hit.relevance is not None:
        return (
            f"the reranker gives it a chance of {hit.relevance:.1%}, too little for a similarity of "
            f"{hit.similarity:.2f} (the bar is {bar:.2f})"
        )
    return f"its similarity is {hit.similarity:.2f}, and {bar:.2f} would do; it holds {holds}, too few for that"


def _bars(near: MinSimilarity | None, turns: int) -> dict[str, float | None]:
    """Return the similarity from which a memory is shown, and a turn among so many."""
    if near is None:
        return {"bar": None, "bar_of_turns": None}
    return {"bar": round(near.memories, 4), "bar_of_turns": round(near.turns_of(turns), 4)}


def _line(hit: Hit, text: str) -> dict[str, Any]:
    similarity = None if hit.similarity is None else round(hit.similarity, 4)
    return row_of(hit) | {"content": excerpt(hit.content, text, _CHARS), "similarity": similarity}


ROUTES = (PageRoute("/agent-view", agent_view),)
