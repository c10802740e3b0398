"""Turns that take the place of earlier ones: after `/retry`, or after a message was edited.

The host does not tell us. But with a finished turn it hands over the transcript: if the same stands before this turn
as before an earlier one, that one is gone, with all later ones. After a compression a summary stands there.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..domain.operations import UndoTurns
from ..domain.session_turns import Session, SessionTurns, Telling
from ..domain.text import digest, flatten_within
from .hook_operations import undo_of
from .session_context import SessionContext
from .undone import has_session

_ROLES = ("user", "assistant", "tool")
_HEAD_CHARS = 200  # read of each message, beside its length


def telling(
    messages: object, user: object, assistant: object, context: SessionContext, max_chars: int
) -> Telling | None:
    """Return where a turn stands in the transcript that the host hands over; None if it hands over none.

    A client of the API server may send several conversations under one session id: there no turn has a place.
    """
    if not isinstance(messages, list) or context.scope.get("platform") == "api_server":
        return None
    said = [each for each in messages if isinstance(each, Mapping) and each.get("role") in _ROLES]
    asked, answered = (flatten_within(text, max_chars)[0] for text in (user, assistant))
    start = _start(said, asked)
    if start is None:
        return None
    return Telling(_digest(said[:start]), digest(asked), digest(answered), first=not start)


def _start(said: Sequence[Mapping[str, object]], asked: str) -> int | None:
    """Return where the turn's message stands; None if that is not certain.

    After a turn that failed, the host may have put this message into that one's, or its own words after this one.
    """
    own = [at for at, each in enumerate(said) if each["role"] == "user"]
    same = [at for at in own if said[at].get("content") == asked]
    if not own or (same and own[-1] not in same):
        return None
    return own[-1]


def taken_back_by(
    said: SessionTurns, place: Session, told: Telling | None, context: SessionContext, home: Path
) -> UndoTurns | None:
    """Return the operation that removes the turns whose place this one takes; None if there are none.

    A program that uses the host without its session database may have several conversations under one session id:
    there nothing is removed. In a chat only the same question is one that was asked again: a turn that the host could
    not write down is missing, too.
    """
    if told is None:
        return None
    start = said.replaced_by(place, told, edits=not context.place.chat)
    if start is None or not has_session(home, place[1]):
        return None
    spans, op_ids = said.take_back_from(place, start)
    return undo_of(place, spans, op_ids, time.time(), uuid.uuid4())


def _digest(messages: Sequence[Mapping[str, object]]) -> bytes:
    """Return a digest of messages by who spoke, how long, and how it begins."""
    seen = hashlib.sha256()
    for each in messages:
        content = each.get("content")
        text = content if isinstance(content, str) else ""
        seen.update(f"{each['role']} {len(text)} {text[:_HEAD_CHARS]}\n".encode("utf-8", "surrogatepass"))
    return seen.digest()
