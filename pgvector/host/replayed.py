"""What the host replays of a session with the next message: its turns, and what was put before them or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ..domain.session_turns import Session
from ..recall.follow_up import names_answered
from ..recall.render import HEADING
from ..recall.transcripts import Transcripts
from .branches import follow_branch
from .hook_operations import question_in
from .session_context import SessionContext

# The sessions that the API server names itself belong to clients that send the conversation, or that name the answer
# before: what was put before an earlier message is not in either.
_CLIENTS_OWN = re.compile(r"api-[0-9a-f]{16}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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
        follow_branch(transcripts, session, home, name)
    text = message if isinstance(message, str) else ""
    transcripts.goes_on(session, text, turns, unique=context.place.chat)


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
