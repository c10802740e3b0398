"""Selects from an old conversation what live capture would have stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from ....capture.turn_filter import is_synthetic, judge, own_words
from ....domain.text import clean, strip_injected
from .source import SourceTally

UNANSWERED = "a message without an answer"
SAID_BEFORE = "said before in this session"

# The host's markers of a summary that replaces older messages, and of the message text that it keeps beside one.
_SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
_BESIDE, _BESIDE_END = "[PRIOR CONTEXT", "\n\n[END OF PRIOR CONTEXT"
_SUMMARY = "a summary of a compression"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message: `role` is user or assistant; `where` tells a person where it was read."""

    role: str
    text: str
    at: datetime
    where: str = ""


class ConversationFilter:
    """A filter that passes what live capture would have stored, each exchange of a session once.

    `halves`: the source itself left out sides of turns, so a message without an answer may have had one.
    """

    def __init__(self, min_chars: int, tally: SourceTally, *, halves: bool = False) -> None:
        self._min_chars = min_chars
        self._tally = tally
        self._halves = halves

    def worth_storing(self, messages: Iterable[Utterance], seen: set[int]) -> Iterator[Utterance]:
        """Yield the cleaned messages worth storing; `seen` has the exchanges of this session and those it continues."""
        for user, answer in _exchanges(self._original(each) for each in messages):
            yield from self._judge(user, answer, seen)

    def _original(self, said: Utterance) -> Utterance:
        text = strip_injected(clean(said.text))
        if said.role == "user":
            text = own_words(text)
        if text.startswith(_BESIDE):
            text = text.partition("\n")[2].partition(_BESIDE_END)[0]
        elif text.startswith(_SUMMARIES):
            self._tally.skip(_SUMMARY)
            text = ""
        return replace(said, text=text)

    def _judge(self, user: Utterance | None, answer: Utterance | None, seen: set[int]) -> Iterator[Utterance]:
        asked, answered = _text(user), _text(answer)
        if not answered and not self._halves:
            self._skip([user, answer], UNANSWERED)
            return
        if _was_seen(asked, answered, seen):
            self._skip([user, answer], SAID_BEFORE)
            return
        verdict = judge(asked, answered, self._min_chars)
        reason = (verdict.reason or "empty").replace("_", " ")
        for side, keep in ((user, verdict.store_user), (answer, verdict.store_assistant)):
            if side is not None and keep:
                yield side
            else:
                self._skip([side], reason)

    def _skip(self, sides: Iterable[Utterance | None], reason: str) -> None:
        for side in sides:
            if side is not None and side.text:
                self._tally.skip(reason, side.where)


def _text(side: Utterance | None) -> str:
    return "" if side is None else side.text


def _was_seen(asked: str, answered: str, seen: set[int]) -> bool:
    """Return whether an exchange was seen before, and record it as seen."""
    # A compression may keep only the answer of a turn.
    whole, answer_alone = hash((asked, answered)), hash(("", answered))
    if (whole if asked else answer_alone) in seen:
        return True
    seen |= {whole, answer_alone} if answered else {whole}
    return False


def _exchanges(messages: Iterable[Utterance]) -> Iterator[tuple[Utterance | None, Utterance | None]]:
    """Yield each message of the user with its answer; either may be missing.

    What the host writes in between, as a compression or a cron job does, takes no answer away from the user's message.
    """
    user: Utterance | None = None
    for each in messages:
        if each.role == "user":
            if user is not None and is_synthetic(each.text):
                yield each, None
                continue
            if user is not None:
                yield user, None
            user = each
        else:
            yield user, each
            user = None
    if user is not None:
        yield user, None
