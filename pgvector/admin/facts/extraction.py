"""Asks an operator's model to read turns, a piece of a session at a time, and stores the memories that it proposes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from ...domain.chunks import estimate_tokens
from ...domain.errors import EmbedderError
from ...domain.redaction import Masker
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ..common.asked_model import AskedModel
from ..common.operators import logged
from ..common.progress import progress
from ..common.repeat import held_back
from ..common.theme_rows import begin
from . import proposal_rows as store
from .model_answers import ANSWER_TOKENS, INSTRUCTION, Proposal, read_answer
from .proposal_rows import UnreadSession

_TURN_CHARS = 4_000  # of a turn: the beginning of a pasted log is enough to tell what it is
_MAX_FAILURES = 3  # consecutive pieces: then the endpoint is at fault, not the pieces
_SURFACE = ("platform", "profile", "chat_type")


@dataclass(frozen=True, slots=True)
class Piece:
    """Turns of one session that were said in one place, and the request about them to the model."""

    session: UnreadSession
    turns: Sequence[Any]
    question: str

    def named(self, proposal: Proposal) -> list[Any]:
        """Return the turns that a proposal was taken from."""
        return [self.turns[place - 1] for place in proposal.turns]

    def metadata(self, model: str) -> dict[str, str]:
        """Return metadata of where a proposal was said, so that only those who may read its turns may read it."""
        said = {name: getattr(self.turns[0], name) for name in _SURFACE}
        known = {"session_id": self.session.session_id, **said, "model": model}
        return {name: value for name, value in known.items() if value}


@dataclass
class Unread:
    """The unread turns of some sessions from `since` on, in pieces of at most about `max_tokens`."""

    conn: DeadlineConnection
    sessions: Sequence[UnreadSession]
    since: datetime
    masks: Masker
    max_tokens: int

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces session by session; a session's turns are fetched when its first piece is needed."""
        chars = min(_TURN_CHARS, self.max_tokens)  # a character is at most one token
        for session in self.sessions:
            with held_back():
                turns = store.unread_turns(self.conn, session, self.since, chars)
            for _, some in groupby(turns, lambda turn: [getattr(turn, name) for name in _SURFACE]):
                yield from self._cut(session, list(some))

    def estimated_tokens(self) -> int:
        """Return the estimated number of tokens in all requests."""
        return sum(estimate_tokens(INSTRUCTION + piece.question) for piece in self.pieces())

    def _cut(self, session: UnreadSession, turns: Sequence[Any]) -> Iterator[Piece]:
        some: list[Any] = []
        told: list[Mapping[str, Any]] = []
        size = 0
        for turn in turns:
            text = self.masks.mask(turn.content)[0]
            tokens = estimate_tokens(text) + 20
            if some and size + tokens > self.max_tokens:
                yield Piece(session, some, _question(told))
                some, told, size = [], [], 0
            some.append(turn)
            told.append({"turn": len(some), "at": f"{turn.at:%Y-%m-%d %H:%M}", "role": turn.role, "text": text})
            size += tokens
        if some:
            yield Piece(session, some, _question(told))


@dataclass
class Extraction:
    """One run over the unread turns. If it is killed or interrupted, finished pieces stay and it can be run again."""

    unread: Unread
    model: AskedModel
    arguments: Mapping[str, Any]
    done: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("pieces", "turns", "proposals", "known", "malformed"), 0)
    )
    failed: list[dict[str, str]] = field(default_factory=list)

    def run(self) -> dict[str, int]:
        """Read each piece and return the counts; the turns of a piece that fails stay unread.

        Raises EmbedderError if several consecutive pieces fail.
        """
        if not self.unread.sessions:
            return self.done
        in_a_row, turns = 0, sum(session.turns for session in self.unread.sessions)
        with (
            logged(self.unread.conn, "facts extract", self.arguments, self.done, {"turns": turns}),
            progress("turns", turns, told_from=0) as advance,
        ):
            for piece in self.unread.pieces():
                if self._try(piece):
                    in_a_row = 0
                    advance(len(piece.turns))
                    continue
                in_a_row += 1
                if in_a_row == _MAX_FAILURES:
                    raise EmbedderError(
                        f"{self.failed[-1]['why']}; that was {_MAX_FAILURES} requests in a row, the rest was not tried"
                    )
        return self.done

    def _try(self, piece: Piece) -> bool:
        try:
            self._read(piece)
        except EmbedderError as exc:
            where = {"theme": piece.session.theme, "session_id": piece.session.session_id}
            self.failed.append({**where, "why": str(exc)})
            return False
        return True

    def _read(self, piece: Piece) -> None:
        said = self.model.answer(INSTRUCTION, piece.question, max_tokens=ANSWER_TOKENS)
        proposals, malformed = read_answer(said, len(piece.turns), self.unread.masks)
        with held_back():
            with self.unread.conn.transaction():
                begin(self.unread.conn)
                read, stored, known = self._store(piece, proposals)
            for name, count in (
                ("pieces", 1), ("turns", read), ("proposals", stored), ("known", known), ("malformed", malformed),
            ):  # fmt: skip
                self.done[name] += count

    def _store(self, piece: Piece, proposals: Sequence[Proposal]) -> tuple[int, int, int]:
        """Store new proposals; return how many turns were read, and how many proposals were stored and already known.

        Proposals from turns that were deleted since, or that another run has read, are dropped.
        """
        conn, theme = self.unread.conn, piece.session.theme
        fresh = store.note_read(conn, theme, [turn.id for turn in piece.turns])
        # The theme is locked after the turns, in the order in which the deletion of a theme locks them.
        lock_theme(conn, theme)
        taken = [each for each in proposals if fresh.issuperset(turn.id for turn in piece.named(each))]
        known = store.said_already(conn, theme, [each.content for each in taken])
        for place, each in enumerate(taken):
            if place not in known:
                store.propose(conn, theme, each, piece.named(each), piece.metadata(self.model.name))
        return len(fresh), len(taken) - len(known), len(known)


def _question(told: Sequence[Mapping[str, Any]]) -> str:
    """Return turns as JSON, in which no text can end the transcript or begin another turn."""
    return json.dumps({"turns": list(told)}, ensure_ascii=False)
