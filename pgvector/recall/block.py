"""Makes lines from hits: one for each exchange, answers before questions, a newer statement instead of an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, product, starmap
from operator import itemgetter
from typing import NamedTuple

from ..domain.dates import in_zone, read_moment
from ..domain.named_times import asks_what_was_said, named_periods
from ..domain.patterns import late_pattern
from ..domain.text import both_ends
from ..domain.times_ahead import only_what_comes
from ..domain.types import Hit
from .asking import asks_for_reply, pastes_error
from .changes import asked_in, asks_for_past, asks_for_value, confirmed_change, told_in, what_changed
from .follow_up import goes_on, takes_up
from .ranking import FITS_AS_WELL, are_alike, is_question, newest_of_near_equals
from .values import about, by_endpoint, replaced_part, states_value, values_in

_ASKED_ALIKE = 0.6  # least share of words in common, of all words but numbers, of two questions that ask the same
_ASKED_CHARS = 600  # of a longer question both ends, one of which says what is asked; the rest is what was pasted
_WORD_WITHOUT_DIGITS = late_pattern(r"(?<!\w)[^\W\d]+(?!\w)")
_ECHO_MAX_CHARS = 160  # a longer reply says more than the statement that it confirms


class Line(NamedTuple):
    """A hit that is quoted (`told`), and the other half of its exchange in brief where that is needed (`beside`).

    `replaced`: the part of an older text that no longer holds, and when that was said. `repeats`: its question is like
    that of an earlier line.
    """

    told: Hit
    beside: Hit | None = None
    replaced: tuple[str, datetime] | None = None
    repeats: bool = False

    @property
    def question(self) -> Hit | None:
        """Return the question of the exchange, if there is one."""
        return next((hit for hit in (self.told, self.beside) if hit is not None and is_question(hit)), None)

    @property
    def statement(self) -> str:
        """Return the text that identifies the line: an answer such as "Yes." says something only with its question."""
        if self.beside is None or self.told.kind != "assistant":
            return self.told.content
        return f"{self.beside.content}\n{self.told.content}"

    @property
    def told_then(self) -> bool:
        """Return whether the exchange is of a time that the question names."""
        return self.told.told_then or (self.beside is not None and self.beside.told_then)

    @property
    def stated(self) -> tuple[Hit, ...]:
        """Return the texts that state something: the one told, and what a short reply confirms."""
        asked = self.beside
        if asked is None or self.told.kind != "assistant" or is_question(asked):
            return (self.told,)
        return (self.told, asked) if len(self.told.content) <= _ECHO_MAX_CHARS else (self.told,)


def lines_of(hits: Sequence[Hit], question: str = "") -> list[Line]:
    """Return the lines of `hits` in their order, except that of the same the newer are first, and that some come last.

    These are the exchanges of which only the question was found, and behind them those whose question was asked before.
    """
    exchanges = sorted(exchanges_in(hits), key=lambda found: all(map(is_question, found)))
    line_of = partial(_line, replies=asks_for_reply(question))
    # What held at a time that the question names need not be the newest.
    timed = asks_what_was_said(question) or bool(named_periods(question, datetime.now(UTC)))
    lines = _newest(_current(list(map(line_of, exchanges)), timed=timed), timed=timed)
    if not timed:
        lines = _newer_first(lines)
        lines = lines if asks_for_past(question) else _changed_first(lines, question)
    return _with_what_follows(_folded(lines), question)


def goes_on_about(hits: Iterable[Hit], shown: Sequence[Hit], question: str = "") -> Iterator[Hit]:
    """Yield the user's statements that go on about an exchange that is shown, as "No, I meant 648" does.

    They are among `hits`, or stand beside what is shown. What such a statement names is named in that exchange only, so
    it is not found by itself; and without it what it corrects would be told as it was said first. To a question for
    what helped these are also the statements that take up what the reply advised.
    """
    before = _exchanges_before(shown)
    beside = {turn.id: turn for turn in _messages(chain.from_iterable(map(_turns_after, _turns(shown))))}
    helped = asks_for_reply(question)
    for hit in (beside | {hit.id: hit for hit in _messages(hits)}).values():
        exchange = before.of(hit)
        if exchange and (goes_on(hit.content) or (helped and takes_up(hit.content, *exchange))):
            yield hit


class _Exchanges(NamedTuple):
    """What was said and replied in some exchanges, by the id of their end, and by those of the turns beside them."""

    ended: Mapping[int, tuple[str, str]]
    before: Mapping[int, tuple[str, str]]

    def of(self, hit: Hit) -> tuple[str, str] | None:
        """Return the exchange that stands right before a turn, if it is one of these."""
        turn = _turn_before(hit)
        return self.before.get(hit.id) if turn is None else self.ended.get(turn.id)


def _exchanges_before(shown: Iterable[Hit]) -> _Exchanges:
    ended: dict[int, tuple[str, str]] = {}
    before: dict[int, tuple[str, str]] = {}
    for hit in _turns(shown):
        said, reply = _halves_of_exchange(hit)
        ended[reply.id] = said.content, reply.content
        before |= dict.fromkeys((turn.id for turn in _turns_after(hit)), ended[reply.id])
    return _Exchanges(ended, before)


def exchanges_in(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return the hits grouped by exchange, in the order of each group's first; other hits are groups of their own."""
    rows = {hit.row: hit for hit in hits}
    # An answer that came without its question beside it, as at the end of a session, may be in the question's `around`.
    said = (hit for hit in rows.values() if hit.kind == "user")
    asked_by = {(hit.store, other.id): hit.id for hit in said if (other := other_half(hit)) is not None}
    exchanges: dict[tuple[str, int], list[Hit]] = {}
    for row, hit in rows.items():
        exchanges.setdefault((hit.store, asked_by.get(row, _first_of_exchange(hit))), []).append(hit)
    return list(exchanges.values())


def ask_alike(hits: Iterable[Hit], question: str) -> Iterator[Hit]:
    """Yield those of `hits` that ask the same as `question`, except for numbers and a few words."""
    wanted = _words(question)
    return (hit for hit in hits if is_question(hit) and are_alike(_words(hit.content), wanted, _ASKED_ALIKE))


def _first_of_exchange(hit: Hit) -> int:
    """Return the id of the first half of the hit's exchange, which identifies the exchange for both halves."""
    asked = other_half(hit) if hit.kind == "assistant" else None
    return hit.id if asked is None else asked.id


def other_half(hit: Hit) -> Hit | None:
    """Return the answer to a user's message, or the message that an assistant's turn answers."""
    wanted = {"user": "assistant", "assistant": "user"}.get(hit.kind) if hit.store == "turns" else None
    for turn in hit.around:
        if turn.kind == wanted and ((turn.at, turn.id) > (hit.at, hit.id)) == (hit.kind == "user"):
            return turn
    return None


def _turns(hits: Iterable[Hit]) -> Iterator[Hit]:
    return (hit for hit in hits if hit.store == "turns")


def _halves_of_exchange(hit: Hit) -> tuple[Hit, Hit]:
    """Return what somebody said and the answer to it, or twice the hit itself where the other half is not there."""
    other = other_half(hit) or hit
    return (other, hit) if hit.kind == "assistant" else (hit, other)


def _messages(hits: Iterable[Hit]) -> Iterator[Hit]:
    return (hit for hit in _turns(hits) if hit.kind == "user")


def _turns_after(hit: Hit) -> Iterator[Hit]:
    return (turn for turn in hit.around if _is_later(turn, hit))


def _turn_before(hit: Hit) -> Hit | None:
    return next((turn for turn in hit.around if _is_later(hit, turn)), None)


def _is_later(turn: Hit, other: Hit) -> bool:
    return (turn.at, turn.id) > (other.at, other.id)


def _line(found: Sequence[Hit], *, replies: bool) -> Line:
    """Return the line of an exchange: the answer if the best hit is a question, else the best hit.

    `replies`: what is asked for is what the assistant said, to a statement as well.
    """
    first = found[0]
    other = found[1] if len(found) > 1 else other_half(first)
    if other is None:
        return Line(first, replaced=_predecessor(first))
    if is_question(first):
        return Line(other, first)
    if first.kind == "assistant":
        return _line_of_reply(first, other)
    if replies or pastes_error(first.content):
        # Whoever has found out what helps says so, and gets few words in reply: then both are shown as they are.
        return Line(first, other) if _only_confirms(other, first) else Line(other, first)
    return Line(first, other if len(found) > 1 else None)  # a statement is understood without the reply


def _line_of_reply(reply: Hit, said: Hit) -> Line:
    """Return the line of a reply, which is not understood without what it answers.

    One that only confirms a statement stands beside it, where otherwise the statement would be cut.
    """
    return Line(said, reply) if _only_confirms(reply, said) and not is_question(said) else Line(reply, said)


def _only_confirms(reply: Hit, said: Hit) -> bool:
    """Return whether a reply is so brief beside what it answers that it hardly says anything else."""
    return len(reply.content) <= _ECHO_MAX_CHARS < len(said.content)


def _predecessor(hit: Hit) -> tuple[str, datetime] | None:
    """Return the text that a memory replaced, and when that was said."""
    before = (hit.structure or {}).get("replaced")
    if before is None:
        return None
    return before["content"], in_zone(read_moment(before["said_at"]), hit.at.tzinfo)


def _newest(lines: Sequence[Line], *, timed: bool) -> list[Line]:
    """Return the lines without those that say nearly what a newer one says, or one of a time that is asked about."""
    by_row = {line.told.row: line for line in lines}
    said = [line.told._replace(content=line.statement, told_then=timed and line.told_then) for line in lines]
    return [by_row[hit.row] for hit in newest_of_near_equals(said)]


def _current(lines: Sequence[Line], *, timed: bool) -> list[Line]:
    """Return the lines; of two that contradict each other only the newer one, in the place of the first.

    `timed`: a time is asked about, and what was told then is not replaced by what was told at another one.
    """
    kept: list[Line] = []
    places: dict[object, dict[str, int]] = {}
    for line in lines:
        alike = [places.setdefault(key, {}) for said in line.stated for key in values_in(said)]
        for place in sorted(set(chain.from_iterable(each.values() for each in alike))):
            if one := _one_of(line, kept[place], timed=timed):
                kept[place] = one
                break
        else:
            for each in alike:
                each.setdefault(line.told.content, len(kept))
            kept.append(line)
    return kept


def _one_of(line: Line, other: Line, *, timed: bool) -> Line | None:
    """Return the newer of two lines with what it replaces, the last of several; None if the two do not contradict."""
    newer, older = (line, other) if line.told.at > other.told.at else (other, line)
    held_then = timed and older.told_then and not newer.told_then
    part = "" if held_then else _replaced_part(older, newer)
    if not part:
        return None
    return newer._replace(replaced=max(filter(None, (newer.replaced, (part, older.told.at))), key=itemgetter(1)))


def _replaced_part(older: Line, newer: Line) -> str:
    """Return the part of the older line that the newer one replaces, or ""."""
    return next(filter(None, starmap(replaced_part, product(older.stated, newer.stated))), "")


def _newer_first(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; those about the same that hold as much of the question take each other's places by date.

    A line that scores far less than the best of them keeps its place: then what stands beside it matches.
    """
    ordered = list(lines)
    for same in _about_the_same(lines):
        best = max(lines[place].told.score for place in same)
        fitting = [place for place in same if lines[place].told.score >= FITS_AS_WELL * best]
        newest_first = sorted((lines[place] for place in fitting), key=lambda line: line.told.at, reverse=True)
        for place, line in zip(fitting, newest_first, strict=True):
            ordered[place] = line
    return ordered


def _changed_first(lines: Sequence[Line], question: str) -> list[Line]:
    """Return the lines; one that says that something changed before the first older one about what is asked.

    Where a number or a time is asked for, so is the newest that states one: who changes a price need not say so.
    A question for what comes names nothing: then it stands before what is about the same.
    A line that scores far less than that one keeps its place, and so do all where a rerank endpoint put them in order.
    """
    words_of = _about(question)
    said_to_change = _with_newest_value(list(map(_said_to_change, lines)), lines, question)
    if not any(said_to_change):
        return list(lines)
    ordered: list[tuple[Line, frozenset[str]]] = []
    for line, changed in zip(lines, said_to_change, strict=True):
        asked = words_of(changed) if changed and not by_endpoint(line.told) else frozenset()
        older = (place for place, (other, about) in enumerate(ordered) if asked & about and _was_before(other, line))
        ordered.insert(next(older, len(ordered)), (line, words_of(line.statement)))
    return [line for line, _ in ordered]


def _said_to_change(line: Line) -> str:
    """Return what a line says that is another way than before, by its own words or the assistant's short reply."""
    changed = [what_changed(said.content) for said in line.stated]
    said, reply = _halves_of_exchange(line.told)
    if reply is not said and len(reply.content) <= _ECHO_MAX_CHARS and not is_question(said):
        changed.append(confirmed_change(said.content, reply.content))
    return " ".join(filter(None, changed))


def _with_newest_value(said_to_change: list[str], lines: Sequence[Line], question: str) -> list[str]:
    """Return what the lines say that changed; if a value is asked for, also what the newest line says that states one.

    Only one moves up by that alone: what has a number is often about something else, such as a bill of the dentist.
    """
    if not asks_for_value(question):
        return said_to_change
    words_of = _about(question)
    least = FITS_AS_WELL * max((line.told.score for line in lines), default=0.0)
    fitting = (place for place, line in enumerate(lines) if line.told.score >= least)
    stating = [place for place in fitting if _states_value(lines[place]) and words_of(lines[place].statement)]
    for newest in sorted(stating, key=lambda place: lines[place].told.at)[-1:]:
        said_to_change[newest] = lines[newest].statement
    return said_to_change


def _states_value(line: Line) -> bool:
    return any(states_value(said.content) for said in line.stated if not is_question(said))


def _about(question: str) -> Callable[[str], frozenset[str]]:
    """Return what tells of a text which of the things it is about are asked for: of what comes, all."""
    return told_in if only_what_comes(question) else partial(asked_in, question=question)


def _was_before(older: Line, newer: Line) -> bool:
    """Return whether a line is older than another one that fits as well."""
    if older.told.theme != newer.told.theme or older.told.at >= newer.told.at:
        return False
    return newer.told.score >= FITS_AS_WELL * older.told.score


def _about_the_same(lines: Sequence[Line]) -> list[list[int]]:
    """Return the places of the lines about each thing, in order."""
    groups: list[list[int]] = []
    group_of: dict[object, list[int]] = {}
    for place, line in enumerate(lines):
        keys = [key for said in line.stated for key in about(said)]
        same = next((group_of[key] for key in keys if key in group_of), None)
        if same is None:
            groups.append(same := [])
        same.append(place)
        for key in keys:
            group_of.setdefault(key, same)
    return groups


def _folded(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; where an earlier question is alike, move an answer to the end and drop a question."""
    first: list[Line] = []
    repeated: list[Line] = []
    asked: list[frozenset[str]] = []
    for line in lines:
        words = _words(line.question.content) if line.question is not None else frozenset()
        if not any(are_alike(words, other, _ASKED_ALIKE) for other in asked):
            first.append(line)
            if words:
                asked.append(words)
        elif line.told is not line.question:
            repeated.append(line._replace(repeats=True))
    return first + repeated


def _with_what_follows(lines: Sequence[Line], question: str) -> list[Line]:
    """Return the lines; one that goes on about an exchange stands right behind that, unless it stands before it."""
    halves = list(chain.from_iterable(map(_halves, lines)))
    going_on = {hit.id for hit in goes_on_about(halves, halves, question)}
    ordered: list[tuple[Line, _Exchanges]] = []
    for line in lines:
        on = [half for half in _messages(_halves(line)) if half.id in going_on]
        about = (place for place, (_, before) in enumerate(ordered) if any(before.of(half) for half in on))
        ordered.insert(next(about, len(ordered)) + 1, (line, _exchanges_before(_halves(line))))
    return [line for line, _ in ordered]


def _halves(line: Line) -> list[Hit]:
    return list(_turns(filter(None, (line.told, line.beside))))


def _words(question: str) -> frozenset[str]:
    """Return the words that distinguish a question from another: all without digits."""
    return frozenset(_WORD_WITHOUT_DIGITS.findall(both_ends(question, _ASKED_CHARS).casefold()))
