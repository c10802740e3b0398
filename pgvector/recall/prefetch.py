"""Prefetch: recall before a turn, without a request for it."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest
from operator import itemgetter
from typing import NamedTuple

from ..config.settings import Settings
from ..domain.dates import in_zone
from ..domain.errors import HermesPgvectorError
from ..domain.function_words import language_of
from ..domain.named_times import asks_what_was_said, named_periods, session_asked
from ..domain.times_ahead import days_ahead, only_what_comes, with_names
from ..domain.types import PAGES_END, Answer, HeldTurns, Hit, Question, Scope, Store
from .asking import asks
from .bars import MinSimilarity
from .block import Line, ask_alike, exchanges_in, goes_on_about, lines_of
from .follow_up import subject_of
from .numbered_names import names_another
from .questions import questions_in
from .ranking import is_question
from .render import render_block
from .searcher import Begun, Searcher
from .told_of import announces_any, tells_of
from .transcripts import Transcripts

MIN_COVERAGE = 0.35  # share of the weight of the question's words that makes a hit good enough
_COVERAGE_THEN = 0.5  # of MIN_COVERAGE, without a model, for a row of a time that the question names
SURE_COVERAGE = 0.60  # likewise, however low the similarity: models know nothing of error codes
_FAR = 1.7  # spreads below the similarity threshold, beyond which words count as shared by chance
_SHARE_BEFORE = 0.2  # of the deadline, for the turns of the preceding sessions
# The evidence of cross-encoder and similarity together. For a memory in quite different words the cross-encoder's
# probability differs from that for an unrelated one only in the third digit, so the unit is the logit.
SIMILARITY_WEIGHT = 4.5  # logits for each spread
MEMORIES_EVIDENCE = -9.5
TURNS_EVIDENCE = -8.0
SURE_LOGIT = -3.0  # from which a row with SURE_COVERAGE is shown, however low the similarity
_LEAST_CHANCE = 1e-7
_SPARE = 3  # hits looked at for each line shown: some are not relevant enough, some were shown before


class MessagePlace(NamedTuple):
    """The session of a message. `starts`: the session began empty, not as a copy or a summary of another one.

    `subject`: the last of its messages that says what it is about. `reply`: what was answered last, in brief.
    """

    theme: str
    session_id: str
    parent_session_id: str = ""
    starts: bool = True
    subject: str = ""
    reply: str = ""

    @property
    def session(self) -> tuple[str, str]:
        """Return the key of the session: session ids are unique only within a theme."""
        return self.theme, self.session_id

    @property
    def talk(self) -> tuple[str, ...]:
        """Return the sessions of the present conversation: a session that began empty does not continue its parent."""
        return (self.session_id,) if self.starts else (self.session_id, self.parent_session_id)


def prefetch_block(
    searcher: Searcher, transcripts: Transcripts, text: str, where: MessagePlace, settings: Settings
) -> str:
    """Return a block of the rows relevant to `text`, best first; empty if none is both good enough and new.

    Raises StoreUnavailable or DeadlineExceeded within `prefetch_deadline_s`.
    """
    end = time.monotonic() + settings.prefetch_deadline_s
    begins = where.starts and not transcripts.was_asked(where.session)
    where = where._replace(subject=transcripts.subject(where.session), reply=transcripts.reply(where.session))
    transcripts.is_about(where.session, subject_of(text, where.subject))
    before = _end_of_the_sessions_before(searcher, transcripts, where, settings) if begins else []
    lines = _lines(searcher, transcripts, text, where, settings, before, end, begins=begins)
    named = with_names(text, in_zone(datetime.now(UTC), searcher.zone).date())
    block, told = render_block(lines, named, max_tokens=settings.prefetch_max_tokens)
    transcripts.add(where.session, [line.statement for line in told])
    return block


def _lines(
    searcher: Searcher,
    transcripts: Transcripts,
    text: str,
    where: MessagePlace,
    settings: Settings,
    before: Sequence[Hit],
    end: float,
    *,
    begins: bool,
) -> list[Line]:
    """Return lines of the rows that are worth showing and were not shown yet, and of what is added to them.

    Added are the procedure for the situation with which a session `begins`, and the turns `before` the session.
    """
    lines: list[Line] = []
    besides = list(before)
    found: dict[tuple[Store, int], Hit] = {}
    begun: Begun = {}
    without = transcripts.held(where.session)
    for limit in (settings.prefetch_limit * _SPARE, PAGES_END):
        answer = _answer(searcher, text, where, limit, without, end, begun, first=not found, begins=begins)
        if answer is None:
            break
        besides += fitting(searcher, answer.procedures, text, settings, end)
        some = {(hit.store, hit.id): hit for hit in answer.hits}
        found |= some
        worth = worth_showing(searcher, list(found.values()), text, settings, end, answer.held)
        # What was written during the search is not among what the search leaves out.
        new = [hit for hit in worth if not transcripts.holds(where.session, hit)]
        # All together, as the last turns may say the same as what was found.
        said = lines_of([*besides, *_in_order(new, settings.prefetch_passes)], text)
        lines = [line for line in said if not transcripts.was_shown(where.session, line.statement)]
        if len(some) < limit or not _may_miss_some(said, worth, some, settings.prefetch_limit, text):
            break
    return _limited(lines, besides, settings.prefetch_limit)


def _answer(
    searcher: Searcher,
    text: str,
    where: MessagePlace,
    limit: int,
    without: HeldTurns,
    end: float,
    begun: Begun,
    *,
    first: bool,
    begins: bool,
) -> Answer | None:
    """Return what is found for a message, the `first` time with the theme's procedures where a session `begins`.

    `begun`: the searches that the first answer took. Return None if another one fails, as in a theme of long texts,
    where no time is left for it. Raises StoreUnavailable or DeadlineExceeded if the first one fails.
    """
    left_s = max(0.01, end - time.monotonic())
    rerank = searcher.reranks_prefetch
    asked = Question(
        text,
        Scope("theme", where.theme),
        limit,
        left_s,
        around=True,
        rerank=rerank,
        without=without,
        begins_task=begins and first,
        asking=where.talk,
        context=where.subject,
        reply=where.reply,
    )
    try:
        return searcher.recall(["memories", "turns"], asked, begun)
    except HermesPgvectorError:
        if first:
            raise
        return None


def fitting(
    searcher: Searcher, procedures: Sequence[Hit], text: str, settings: Settings, until: float
) -> Sequence[Hit]:
    """Return the one procedure whose situation matches the message best, or nothing if none does."""
    fit: list[Hit] = []
    for question in questions_in(text) if procedures else ():
        known = searcher.with_similarity(procedures, question, until)
        near = _bars(searcher, known, question, settings, until)
        fit += [hit for hit in known if _fits(hit, near)]
    return sorted(fit, key=lambda hit: (hit.similarity or 0.0, hit.coverage, hit.at))[-1:]


def _fits(hit: Hit, near: MinSimilarity | None) -> bool:
    """Return whether the message matches the procedure's situation, by words or by similarity."""
    if hit.coverage >= SURE_COVERAGE:
        return True
    return near is not None and hit.similarity is not None and hit.similarity >= near.situations


def _may_miss_some(
    said: Sequence[Line], worth: Sequence[Hit], found: Collection[tuple[Store, int]], limit: int, text: str
) -> bool:
    """Return whether other rows may rank behind an often repeated question, or say of the days ahead that it names."""
    firm = sum(not line.repeats for line in said)
    looked_at = [hit for hit in worth if (hit.store, hit.id) in found]
    return firm < limit and (only_what_comes(text) or len(exchanges_in(looked_at)) - firm > firm)


def _bars(
    searcher: Searcher, found: Sequence[Hit], text: str, settings: Settings, end: float, themes: Collection[str] = ()
) -> MinSimilarity | None:
    """Return the similarity from which a row is worth showing, or None if only words and a cross-encoder can tell."""
    if settings.min_similarity != "auto":
        return MinSimilarity(settings.min_similarity, settings.min_similarity)
    if all(hit.similarity is None for hit in found):
        return None
    return searcher.bars(text, end, themes)


def worth_showing(
    searcher: Searcher, found: Sequence[Hit], text: str, settings: Settings, until: float, held: Sequence[Hit] = ()
) -> list[Hit]:
    """Return those of `found` that likely answer, and what goes on about them, by the moment `until` (monotonic).

    Of a message with several questions, each row is compared with the one that has found it. `held` are the best of the
    turns that the session still has: questions like this one among them tell what a row can be expected to hold.
    """
    coming = _coming(found, text, until)
    if coming and only_what_comes(text):
        return _with_what_goes_on(found, {(hit.store, hit.id) for hit in coming.values()}, text)
    found = [coming.get(place, hit) for place, hit in enumerate(found)]
    alike, ordered = _by_question(held, text), asks(text, of_a_turn=True)
    answering = {
        (hit.store, hit.id)
        for question, hits in _by_question(found, text).items()
        for hit in _answering(searcher, hits, question, settings, until, alike.get(question, []), ordered=ordered)
    }
    return _with_what_goes_on(found, answering, text)


def _with_what_goes_on(found: Sequence[Hit], answering: Collection[tuple[Store, int]], text: str) -> list[Hit]:
    """Return the rows `answering`, in the order in which they were found, with what goes on about them."""
    going_on = goes_on_about(found, [hit for hit in found if (hit.store, hit.id) in answering], text)
    further: dict[tuple[Store, int], Hit] = {(hit.store, hit.id): hit for hit in going_on}
    rows = {*answering, *further}
    worth = {row: hit for hit in found if (row := (hit.store, hit.id)) in rows}
    return list((worth | further).values())


def _by_question(hits: Iterable[Hit], text: str) -> dict[str, list[Hit]]:
    """Return the rows by the question of the message `text` that has found each."""
    found: dict[str, list[Hit]] = {}
    for hit in hits:
        found.setdefault(hit.asked or text, []).append(hit)
    return found


def _answering(
    searcher: Searcher,
    found: Sequence[Hit],
    text: str,
    settings: Settings,
    until: float,
    held: Sequence[Hit],
    *,
    ordered: bool,
) -> list[Hit]:
    """Return the rows that likely answer one question; `ordered`: its message asks, or orders an answer."""
    near = _bars(searcher, found, text, settings, until, {hit.theme for hit in found if hit.store == "memories"})
    if session_asked(text) == "end" or (ordered and asks_what_was_said(text)):
        then = _then(found, text, until)
        if then is not None:
            return then
    most = _most_of([*found, *held], text)
    foreign = bool(language_of(text))
    return [hit for hit in found if is_worth_showing(_judged(hit, text), near, most, foreign=foreign)]


def _then(found: Sequence[Hit], text: str, until: float) -> list[Hit] | None:
    """Return the rows of the time that a question names, told then or about then, None if it names none.

    A row of another time can only have words in common such as "did we talk about". No text is read any more for what
    it is about after the moment `until` (monotonic): several hundred take a while.
    """
    zone = next((hit.at.tzinfo for hit in found), UTC)
    asked = named_periods(text, datetime.now(UTC), zone)
    if not asked and not any(hit.told_then for hit in found):
        return None
    return [hit for hit in found if hit.told_then or (time.monotonic() < until and tells_of(hit, asked))]


def _coming(found: Sequence[Hit], text: str, until: float) -> dict[int, Hit]:
    """Return by their places the rows that state something of a day ahead which a question names, as told then."""
    zone = next((hit.at.tzinfo for hit in found), None) or UTC
    # "See you tomorrow" asks for nothing of that day.
    wanted = only_what_comes(text) or asks(text, of_a_turn=True)
    ahead = days_ahead(text, in_zone(datetime.now(UTC), zone).date()) if wanted else ()
    states = filter(
        lambda each: time.monotonic() < until and not is_question(each[1]), enumerate(found if ahead else ())
    )
    return {place: hit._replace(told_then=True) for place, hit in states if announces_any(hit, ahead)}


def _judged(hit: Hit, text: str) -> Hit:
    """Return the hit as it is judged: only by its similarity, if it names another thing than the question.

    Words and cross-encoder hardly tell the two things apart.
    """
    return hit._replace(coverage=0.0, relevance=None) if names_another(text, hit.content) else hit


def _most_of(found: Sequence[Hit], text: str) -> float:
    """Return the share of the question's words that a row can be expected to hold.

    Words that even an earlier question like this one lacks, such as a ticket's number, say nothing about other rows.
    """
    by_coverage = sorted((hit for hit in found if hit.coverage), key=lambda hit: -hit.coverage)
    return next((hit.coverage for hit in ask_alike(by_coverage, text)), 1.0)


def _limited(lines: Sequence[Line], besides: Sequence[Hit], limit: int) -> list[Line]:
    """Return the first `limit` lines that answer, then those of `besides`: the procedure, and turns oldest first."""
    rows = {(hit.store, hit.id) for hit in besides}
    last = [line for line in lines if (line.told.store, line.told.id) in rows]
    others = [line for line in lines if line not in last]
    return others[:limit] + sorted(last, key=lambda line: (line.told.store, line.told.at, line.told.id))


def is_worth_showing(hit: Hit, near: MinSimilarity | None, most: float = 1.0, *, foreign: bool = False) -> bool:
    """Return whether a hit likely answers: by cross-encoder and similarity if it was scored, else similarity and words.

    `most`: the share of the weight of the question's words that a row can be expected to hold. `foreign`: the question
    is in another language than English.
    """
    above, coverage = _spreads_above(hit, near), hit.coverage / most
    if hit.relevance is not None:
        return _is_judged_worth(hit.store, _logit(hit.relevance), above or 0.0, coverage, foreign=foreign)
    if above is None:
        return coverage >= MIN_COVERAGE * (_COVERAGE_THEN if hit.told_then else 1)
    return above >= 0 or coverage >= (MIN_COVERAGE if above >= -_FAR else SURE_COVERAGE)


def _is_judged_worth(store: Store, logit: float, above: float, coverage: float, *, foreign: bool) -> bool:
    """Return whether a hit likely answers to which a cross-encoder gave this score."""
    if logit + SIMILARITY_WEIGHT * above >= (TURNS_EVIDENCE if store == "turns" else MEMORIES_EVIDENCE):
        return True
    # The cross-encoder knows English: what it rejects in another language may still have the question's words.
    return coverage >= SURE_COVERAGE and (foreign or logit >= SURE_LOGIT)


def _spreads_above(hit: Hit, near: MinSimilarity | None) -> float | None:
    """Return how many spreads the similarity is above its threshold, or None if either is unknown."""
    if near is None or hit.similarity is None:
        return None
    # At the time that the question names few turns were said, as there are few memories: a near one is no chance.
    among_many = hit.store == "turns" and not hit.told_then
    return (hit.similarity - (near.turns_of(hit.among) if among_many else near.memories)) / near.spread


def _logit(chance: float) -> float:
    chance = min(max(chance, _LEAST_CHANCE), 1 - _LEAST_CHANCE)
    return math.log(chance / (1 - chance))


def _end_of_the_sessions_before(
    searcher: Searcher, transcripts: Transcripts, where: MessagePlace, settings: Settings
) -> list[Hit]:
    """Return the last turns of the preceding sessions; none if they are late or cannot be read."""
    limit = settings.prefetch_recent_turns if settings.prefetch_passes == "several" else 0
    if not limit:
        return []
    deadline_s = settings.prefetch_deadline_s * _SHARE_BEFORE
    try:
        before = searcher.before_session(
            where.theme,
            where.session_id,
            where.parent_session_id,
            limit=limit,
            sessions=settings.prefetch_recent_sessions,
            deadline_s=deadline_s,
        )
    except HermesPgvectorError:
        return []  # the search that follows has an answer of its own, or reports what is wrong
    transcripts.add(where.session, [])
    return [hit._replace(around=tuple(_beside(hit, before[max(0, n - 1) : n + 2]))) for n, hit in enumerate(before)]


def _beside(hit: Hit, near: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the turns of the same session that stand before and after a turn."""
    return (other for other in near if other is not hit and other.session_id == hit.session_id)


def _in_order(hits: Sequence[Hit], passes: str) -> Sequence[Hit]:
    """Return the hits as found; with several passes, the best by vector and by words alternate, the others are last."""
    if passes == "one":
        return hits
    nearest = _ranked((hit.vector_rank, hit) for hit in hits)
    worded = _ranked((hit.word_rank, hit) for hit in hits)
    in_turn = filter(None, chain.from_iterable(zip_longest(nearest, worded)))
    return list({(hit.store, hit.id): hit for hit in chain(in_turn, hits)}.values())


def _ranked(hits: Iterable[tuple[int | None, Hit]]) -> list[Hit]:
    return [hit for _, hit in sorted(((rank, hit) for rank, hit in hits if rank is not None), key=itemgetter(0))]
