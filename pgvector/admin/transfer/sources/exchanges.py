"""What of an old conversation is worth storing: the same as live capture would have stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from ....capture.turn_filter import TurnFilter, own_words
from ....domain.text import clean, strip_injected
from .source import Tally

UNANSWERED = "a message without an answer"
SAID_BEFORE = "said before in this session"

# How the host marks the summary that stands for older messages, and what it keeps of the message beside it.
_SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]")
_BESIDE, _BESIDE_END = "[PRIOR CONTEXT", "\n\n[END OF PRIOR CONTEXT"
_SUMMARY = "a summary of a compression"


@dataclass(frozen=True, slots=True)
class Said:
    """What one side said: `role` is user or assistant; `where` tells a person where it stood."""

    role: str
    text: str
    at: datetime
    where: str = ""


class Sieve:
    """Lets through what live capture would have stored, each exchange of a session once.

    `halves`: the source has left out sides of turns itself, so a message without an answer may have had one.
    """

    def __init__(self, min_chars: int, tally: Tally, *, halves: bool = False) -> None:
        self._filter = TurnFilter(min_chars)
        self._tally = tally
        self._halves = halves

    def sift(self, messages: Iterable[Said], seen: set[int]) -> Iterator[Said]:
        """The messages worth storing, clean; `seen` holds the exchanges of the session and of those it continues."""
        for user, answer in _exchanges(self._original(each) for each in messages):
            yield from self._judge(user, answer, seen)

    def _original(self, said: Said) -> Said:
        text = strip_injected(clean(said.text))
        if said.role == "user":
            text = own_words(text)
        if text.startswith(_BESIDE):
            text = text.partition("\n")[2].partition(_BESIDE_END)[0]
        elif text.startswith(_SUMMARIES):
            self._tally.skip(_SUMMARY)
            text = ""
        return replace(said, text=text)

    def _judge(self, user: Said | None, answer: Said | None, seen: set[int]) -> Iterator[Said]:
        both = [side for side in (user, answer) if side is not None and side.text]
        asked, answered = user.text if user is not None else "", answer.text if answer is not None else ""
        if not answered and not self._halves:
            self._skip(both, UNANSWERED)
            return
        # What a compression keeps of a turn may begin in its middle.
        whole, answer_alone = hash((asked, answered)), hash(("", answered))
        if (whole if asked else answer_alone) in seen:
            self._skip(both, SAID_BEFORE)
            return
        seen |= {whole, answer_alone} if answered else {whole}
        verdict = self._filter.judge(asked, answered)
        sides = ((user, verdict.store_user), (answer, verdict.store_assistant))
        stored = [side for side, keep in sides if keep and side is not None]
        self._skip([each for each in both if each not in stored], (verdict.reason or "empty").replace("_", " "))
        yield from stored

    def _skip(self, messages: Iterable[Said], reason: str) -> None:
        for each in messages:
            self._tally.skip(reason, each.where)


def _exchanges(messages: Iterable[Said]) -> Iterator[tuple[Said | None, Said | None]]:
    """Each message of a user with the answer to it; either may be missing."""
    user: Said | None = None
    for each in messages:
        if each.role == "user":
            if user is not None:
                yield user, None
            user = each
        else:
            yield user, each
            user = None
    if user is not None:
        yield user, None
