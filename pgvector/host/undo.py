"""`/undo`: which turns the user took back, as the host's session database has it.

The command line tells us that it happened and not how far it went; a chat on a platform gets a new agent and tells
nothing. Both mark the messages in state.db first.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..domain.operations import UndoTurns
from ..domain.session_turns import Session, SessionTurns, Span
from ..domain.text import named_uuid

_NAMESPACE = uuid.UUID("1d0c2f7a-2f0e-4d55-8f0f-6a7d5c2b9e31")
_BUSY_S = 0.05  # a hook waits for this
_SESSION = "SELECT coalesce(rewind_count, 0) FROM sessions WHERE id = ?"
# What the host writes itself bears the host's time; a user's message that of their platform, which may be from before
# the turn in front of it.
_MESSAGES = """
SELECT timestamp, active = 0 AND NOT coalesce(compacted, 0) FROM messages
 WHERE session_id = ? AND role <> 'user' ORDER BY id
"""


@dataclass(frozen=True)
class _Rewound:
    """How often something of a session was taken back, and when those turns were accepted."""

    times: int
    spans: tuple[Span, ...]


def taken_back(
    said: SessionTurns, session: Session, home: Path, host_session_id: str, *, told: bool
) -> UndoTurns | None:
    """Return the operation that takes out of memory what was undone since we last looked; None when nothing was.

    `told`: the host says that something was undone just now. Where its database does not say what, it was the last
    turn.
    """
    now = time.time()
    found = _rewound(home, host_session_id, now)
    if found.times and (op_ids := said.take_back(session, found.times, found.spans)) is not None:
        name = "\0".join((*session, str(found.times)))
        return _operation(session, found.spans, op_ids, now, named_uuid(_NAMESPACE, name))
    if told and (last := said.take_back_last(session, now)) is not None:
        return _operation(session, (last[0],), last[1], now, uuid.uuid4())
    return None


def _operation(
    session: Session, spans: tuple[Span, ...], op_ids: list[uuid.UUID], now: float, op_id: uuid.UUID
) -> UndoTurns:
    theme, session_id = session
    return UndoTurns(theme=theme, at=now, op_id=op_id, session_id=session_id, spans=spans, op_ids=tuple(op_ids))


def _rewound(home: Path, session_id: str, now: float) -> _Rewound:
    path = home / "state.db"
    try:
        address = f"file:{quote(str(path))}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as file:
            (times,) = file.execute(_SESSION, (session_id,)).fetchone() or (0,)
            if not times:
                return _Rewound(0, ())
            return _Rewound(int(times), tuple(_spans(file.execute(_MESSAGES, (session_id,)), now)))
    except (sqlite3.Error, ValueError, TypeError):  # none, of another version, or busy
        return _Rewound(0, ())


def _spans(messages: Iterator[tuple[float, int]], now: float) -> Iterator[Span]:
    """From the first message of the host in a row of undone ones to the next that stands; `now` where none does."""
    since: float | None = None
    for at, undone in messages:
        if undone and since is None:
            since = float(at)
        elif not undone and since is not None:
            yield since, float(at)
            since = None
    if since is not None:
        yield since, now
