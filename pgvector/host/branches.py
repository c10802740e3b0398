"""Sessions that begin as a copy of another one, according to the host's session database.

On platforms and in the apps, `/branch` gives the copy a new agent, which is not told of it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ..domain.session_turns import Session
from ..recall.transcripts import Transcripts
from .undone import opened

_MOST = 20  # copies of copies
# What a compression left of a copy is no copy any more. The API server's copies have no mark, but the original has.
_COPIED = """
SELECT coalesce(json_extract(copy.model_config, '$._branched_from'), original.id), copy.started_at
  FROM sessions AS copy
  LEFT JOIN sessions AS original ON original.id = copy.parent_session_id AND original.end_reason = 'branched'
 WHERE copy.id = ? AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = copy.id AND compacted <> 0)
"""


def follow_branch(transcripts: Transcripts, session: Session, home: Path, name: Callable[[str], str]) -> None:
    """Note whose turns a session begins with; nothing if it is known or if the database does not say.

    `name` converts the host's name of a session to ours.
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
        for _ in range(_MOST):
            before, at = file.execute(_COPIED, (session_id,)).fetchone() or (None, 0)
            if before is None:
                return
            yield str(before), session_id, float(at)
            session_id = str(before)
