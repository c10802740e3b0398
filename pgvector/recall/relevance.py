"""Whether a row that was found likely answers a message, so that it is worth showing without being asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from ..config.settings import Settings
from ..domain.dates import in_zone
from ..domain.function_words import in_first_person, language_of, telling_words, without_function_words
from ..domain.named_times import asks_what_was_said, named_periods, session_asked, without_times
from ..domain.times_ahead import days_ahead, only_what_comes
from ..domain.types import Hit, RowId, Store
from .asking import asks, asks_what_we_did
from .bars import MinSimilarity
from .block import ask_alike, goes_on_about
from .endings import said_to_end
from .numbered_names import names_another
from .questions import questions_in
from .ranking import is_question
from .searcher import Searcher
from .told_of import DAY_MOST, SAME_YEAR, announces_any, each_year, tells_of

MIN_COVERAGE = 0.35  # share of the weight of the question's words that makes a hit good enough
_COVERAGE_THEN = 0.5  # of MIN_COVERAGE, without a model, for a row of a time that the question names
SURE_COVERAGE = 0.60  # likewise, however low the similarity: models know nothing of error codes
_FAR = 1.7  # spreads below the similarity threshold, beyond which words count as shared by chance
# The evidence of cross-encoder and similarity together. For a memory in quite different words the cross-encoder's
# probability differs from that for an unrelated one only in the third digit, so the unit is the logit.
SIMILARITY_WEIGHT = 4.5  # logits for each spread
MEMORIES_EVIDENCE = -9.5
TURNS_EVIDENCE = -8.0
SURE_LOGIT = -3.0  # from which a row with SURE_COVERAGE is shown, however low the similarity
_LEAST_CHANCE = 1e-7
_DAY_WORDS = 1  # most words besides the day of a question that asks for whatever was told then
_DAY_CHARS = 120  # of such a question; a longer message that names a day is about something else


def worth_showing(
    searcher: Searcher, found: Sequence[Hit], text: str, settings: Settings, until: float, held: Sequence[Hit] = ()
) -> list[Hit]:
    """Return those of `found` that likely answer, and what goes on about them, by the moment `until` (monotonic).

    Of a message with several questions, each row is compared with the one that has found it. `held` are the best of the
    turns that the session still has: questions like this one among them tell what a row can be expected to hold.
    """
    coming = _coming(found, text, until)
    if coming and only_what_comes(text):
        return _with_what_goes_on(found, {hit.row for hit in coming.values()}, text)
    found = [coming.get(place, hit) for place, hit in enumerate(found)]
    alike, ordered = by_question(held, text), asks(text, of_a_turn=True)
    answering = {
        hit.row
        for question, hits in by_question(found, text).items()
        for hit in _answering(searcher, hits, question, settings, until, alike.get(question, []), ordered=ordered)
    }
    return _with_what_goes_on(found, answering, text)


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


def _bars(
    searcher: Searcher, found: Sequence[Hit], text: str, settings: Settings, end: float, themes: Collection[str] = ()
) -> MinSimilarity | None:
    """Return the similarity from which a row is worth showing, or None if only words and a cross-encoder can tell."""
    if settings.min_similarity != "auto":
        return MinSimilarity(settings.min_similarity, settings.min_similarity)
    if all(hit.similarity is None for hit in found):
        return None
    return searcher.bars(text, end, themes)


def by_question(hits: Iterable[Hit], text: str) -> dict[str, list[Hit]]:
    """Return the rows by the question of the message `text` that has found each."""
    found: dict[str, list[Hit]] = {}
    for hit in hits:
        found.setdefault(hit.asked or text, []).append(hit)
    return found


def _with_what_goes_on(found: Sequence[Hit], answering: Collection[RowId], text: str) -> list[Hit]:
    """Return the rows `answering`, in the order in which they were found, with what goes on about them.

    What says that one of them holds no longer stands before it: where only one of the two has room, it is the newer,
    but what was told at a time that is asked about.
    """
    shown = [hit for hit in found if hit.row in answering]
    further = {hit.row: hit for hit in goes_on_about(found, shown, text)}
    ended_by = said_to_end(found, shown, text)
    worth: dict[RowId, Hit] = {}
    for hit in found:
        if hit.row in answering or hit.row in further:
            ending = ended_by.get(hit.row, [])
            worth |= {each.row: each for each in ([hit, *ending] if hit.told_then else [*ending, hit])}
    return list((worth | further).values())


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
    then = said_then(found, text, until, ordered=ordered)
    if then is not None:
        return then
    most = _most_of([*found, *held], text)
    foreign = bool(language_of(text))
    worth = [hit for hit in found if is_worth_showing(_judged(hit, text), near, most, foreign=foreign)]
    return _with_those_of_the_day(found, worth, text) if ordered else worth


def _with_those_of_the_day(found: Sequence[Hit], worth: Sequence[Hit], text: str) -> list[Hit]:
    """Return the rows `worth` showing, with those told on a day where the question asks for whatever that was.

    "What did I find on 6 November?" has nothing but the day in common with what answers it.
    """
    then = _of_a_day([hit for hit in found if hit.told_then], text) if len(text) <= _DAY_CHARS else ()
    if not then or not _asks_for_whatever(text, answered=any(hit.told_then for hit in worth)):
        return list(worth)
    rows = {hit.row for hit in (*worth, *then)}
    return [hit for hit in found if hit.row in rows]


def _of_a_day(then: Sequence[Hit], text: str) -> Sequence[Hit]:
    """Return those of the rows told `then` that are of a day which a question names; none if it names a longer time.

    A day without a year that was more than half a year ago is as well the next one.
    """
    if not then:
        return ()
    now, zone = datetime.now(UTC), then[0].at.tzinfo or UTC
    named = named_periods(text, now, zone)
    if not named or any(each.end - each.start > DAY_MOST for each in named):
        return ()
    again = each_year(named, zone)
    return [hit for hit in then if f"{hit.at:%m-%d}" not in again or now - hit.at < SAME_YEAR]


def _asks_for_whatever(text: str, *, answered: bool) -> bool:
    """Return whether a question says little besides a time, so that whatever was told then may answer it.

    One for what the speaker did may say more, unless it is `answered` by what is near to it. "How do I claim for the
    delay of yesterday?" is for nothing that was told.
    """
    if asks_what_was_said(text):
        return True
    rest = without_function_words(without_times(text, datetime.now(UTC)))
    words = len(list(islice(telling_words(rest), _DAY_WORDS + 1)))
    if 0 < words <= _DAY_WORDS and in_first_person(text):
        return True
    return not answered and asks_what_we_did(text)


def said_then(found: Sequence[Hit], text: str, until: float, *, ordered: bool) -> list[Hit] | None:
    """Return the rows of the time about which a question asks what was said, told then or about then.

    None if it asks for no such time. A row of another time can only have words in common such as "did we talk about".
    No text is read any more for what it is about after the moment `until` (monotonic): several hundred take a while.
    `ordered`: as for `_answering`.
    """
    if not _asks_what_was_said(text, ordered=ordered):
        return None
    zone = next((hit.at.tzinfo for hit in found), UTC)
    asked = named_periods(text, datetime.now(UTC), zone)
    if not asked and not any(hit.told_then for hit in found):
        return None
    return [hit for hit in found if hit.told_then or (time.monotonic() < until and tells_of(hit, asked))]


def _asks_what_was_said(text: str, *, ordered: bool) -> bool:
    """Return whether a question is for the end of the last session, or for all that was said at some time."""
    return session_asked(text) == "end" or (ordered and asks_what_was_said(text))


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
    return (hit.similarity - near.of_hit(hit)) / near.spread


def _logit(chance: float) -> float:
    chance = min(max(chance, _LEAST_CHANCE), 1 - _LEAST_CHANCE)
    return math.log(chance / (1 - chance))
