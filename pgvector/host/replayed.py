"""What the host replays of a session with the next message: its turns, and what was put before them or not."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..domain.patterns import late_pattern
from ..domain.session_turns import Session
from ..recall.follow_up import names_answered
from ..recall.render import HEADING
from ..recall.transcripts import Transcripts
from .session_context import SessionContext
from .sought import question_in
from .undone import opened

# The sessions that the API server names itself belong to clients that send the conversation, or that name the answer
# before: what was put before an earlier message is not in either.
_CLIENTS_OWN = late_pattern(r"api-[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_COPIES_MOST = 20  # copies of copies
# What a compression left of a copy is no copy any more. The API server's copies have no mark, but the original has.
_COPIED = """
SELECT coalesce(json_extract(copy.model_config, '$._branched_from'), original.id), copy.started_at
  FROM sessions AS copy
  LEFT JOIN sessions AS original ON original.id = copy.parent_session_id AND original.end_reason = 'branched'
 WHERE copy.id = ? AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = copy.id AND compacted <> 0)
"""


def note_message(
    transcripts: Transcripts,
    context: SessionContext,
    session: Session,
    turns: int | None,
    message: object,
    home: Path,
    name: Callable[[str], str],
) -> None:
    """Note a message that comes after as many turns of its session; None if the host did not count them anew.

    `name` converts the host's name of a session to ours.
    """
    by_server = context.scope.get("platform") == "api_server" and _CLIENTS_OWN.fullmatch(session[1])
    if by_server and not transcripts.knows(session):
        transcripts.learn(session, keeps=False)
    elif turns:
        _follow_branch(transcripts, session, home, name)
    text = message if isinstance(message, str) else ""
    transcripts.goes_on(session, text, turns, unique=context.place.chat)


def _follow_branch(transcripts: Transcripts, session: Session, home: Path, name: Callable[[str], str]) -> None:
    """Note whose turns a session begins with; nothing if it is known or if the host's database does not say.

    On platforms and in the apps, `/branch` gives the copy a new agent, which is not told of it.
    """
    if transcripts.knows(session):
        return
    theme, session_id = session
    with contextlib.suppress(sqlite3.Error, ValueError, TypeError):  # there is none, or of another version, or busy
        for before, after, at in reversed(list(_copied(home, session_id))):
            if not transcripts.knows((theme, name(after))):
                transcripts.branch((theme, name(before)), (theme, name(after)), at)


def _copied(home: Path, session_id: str) -> Iterator[tuple[str, str, float]]:
    """Yield from which session each is a copy, and when it was made, the latest first."""
    with opened(home) as file:
        for _ in range(_COPIES_MOST):
            before, at = file.execute(_COPIED, (session_id,)).fetchone() or (None, 0)
            if before is None:
                return
            yield str(before), session_id, float(at)
            session_id = str(before)


def note_transcript(
    transcripts: Transcripts, session: Session, messages: object, user: object, reply: object, max_chars: int
) -> None:
    """Note what a finished turn was answered, and whether its transcript holds what was put before earlier messages."""
    if isinstance(reply, str):
        names = names_answered(question_in(user, max_chars), reply, transcripts.reply(session))
        transcripts.was_answered(session, names)
    if isinstance(messages, list):
        asked = [each for each in messages if isinstance(each, Mapping) and each.get("role") == "user"]
        own = [at for at, each in enumerate(asked) if each.get("content") == user]  # the host may have added its own
        transcripts.learn(session, keeps=any(map(_has_block, asked[: own[-1] if own else -1])), seen=True)


def _has_block(message: Mapping[str, object]) -> bool:
    texts = (message.get("api_content"), message.get("content"))
    return any(isinstance(text, str) and HEADING in text for text in texts)
