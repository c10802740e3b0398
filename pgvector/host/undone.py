"""What a user undid with `/undo`, according to the host's session database, state.db.

The command line tells us of an undo but not how far it went; a chat on a platform gets a new agent and tells us
nothing, nor does a command line that has resumed a session and no agent yet. All first mark the messages in that
database. What follows may be said in another session of the same chat.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ..domain.operations import Span

_BUSY_S = 0.05  # a hook waits for this
_SESSION = "SELECT coalesce(rewind_count, 0) FROM sessions WHERE id = ?"
_CONTINUED = """
SELECT before.id FROM sessions AS after JOIN sessions AS before ON before.id = after.parent_session_id
 WHERE after.id = ? AND before.end_reason = 'compression'
"""
# Only the last ones: a session's row holds its whole prompt, and no index knows what was undone.
_OF_CHAT = """
SELECT id, rewind_count
  FROM (SELECT id, rewind_count FROM sessions WHERE session_key IS ? ORDER BY started_at DESC LIMIT 50)
 WHERE rewind_count > 0
"""
_MESSAGES = """
SELECT id, timestamp, active = 0 AND NOT coalesce(compacted, 0), coalesce(compacted, 0), role,
       CASE role WHEN 'user' THEN substr(content, 1, 200) END
  FROM messages WHERE session_id = ? ORDER BY id
"""
_APART_S = 1e-5  # Postgres stores microseconds, which a float may not hold exactly
_AT_ONCE_S = 5e-6  # messages that a compression writes are a microsecond apart, others never are
_STORED_WITHIN_S = 60.0  # of the host's last message, whose time is ahead of now if the clock was set back since
_OWN_TIMES = 2  # so many consecutive messages of a compression may have kept their own times


class Rewound(NamedTuple):
    """How often something of a session was undone, and when those turns were accepted.

    `before`: the sessions that it continues after a compression and that lost turns as well.
    """

    times: int
    spans: tuple[Span, ...]
    before: tuple[str, ...] = ()


class HostMessage(NamedTuple):
    """A message in the host's database; `begins` is the beginning of what a user said.

    `undone`: the user undid it; `compressed`: a compression set it aside.
    """

    id: int
    at: float
    undone: bool
    compressed: bool
    role: str
    begins: str | bytes | None = None


def rewound(home: Path, session_id: str, now: float) -> Rewound:
    """Return what was undone of a session; nothing if the host's database does not say, or cannot be read."""
    try:
        with opened(home) as file:
            (times,) = file.execute(_SESSION, (session_id,)).fetchone() or (0,)
            if not times:
                return Rewound(0, ())
            told, before = lineage(session_id, partial(_messages, file), partial(_continued, file))
            return Rewound(int(times), tuple(_spans(told, now)), before)
    except (sqlite3.Error, ValueError, TypeError):  # there is none, or it is of another version, or busy
        return Rewound(0, ())


def has_session(home: Path, session_id: str) -> bool:
    """Return whether the host writes this session down; False if its database cannot be read."""
    try:
        with opened(home) as file:
            return file.execute(_SESSION, (session_id,)).fetchone() is not None
    except (sqlite3.Error, ValueError):
        return False


def rewound_in_chat(home: Path, chat: str) -> dict[str, int]:
    """Return the last sessions of a chat in which something was undone, and how often; "" names those of no chat.

    It is empty if the host's database does not say, or cannot be read.
    """
    try:
        with opened(home) as file:
            return {str(name): int(times) for name, times in file.execute(_OF_CHAT, (chat or None,))}
    except (sqlite3.Error, ValueError, TypeError):
        return {}


def opened(home: Path) -> contextlib.closing[sqlite3.Connection]:
    """Open the host's database for reading; it is closed at the end of the block. Raises sqlite3.Error."""
    address = f"file:{quote(str(home / 'state.db'))}?mode=ro"
    return contextlib.closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S))


def lineage(
    session_id: str, messages: Callable[[str], list[HostMessage]], continued: Callable[[str], str]
) -> tuple[list[HostMessage], tuple[str, ...]]:
    """Return the messages of a session, preceded by those of the sessions that it continues and that lost some.

    An undone message is marked in all of them: a compression writes copies of what it keeps, and `/undo` marks only the
    copies. `messages` returns those of a session in order; `continued` the session that a compression ended and this
    one continues, "" if there is none. The second value names these sessions, the oldest first.
    """
    told, before = _with_originals(messages(session_id)), list[str]()
    while _begins_with_undone(told) and (older := continued(before[0] if before else session_id)):
        if older in before:
            break
        aside = [each if each.undone else each._replace(compressed=True) for each in messages(older)]
        told = _with_originals([*aside, *told])
        before.insert(0, older)
    return told, tuple(before)


def _begins_with_undone(told: Sequence[HostMessage]) -> bool:
    """Return whether the messages begin with those that a compression wrote, and some of these are undone."""
    first = next(iter(_compressions(told)), range(0))
    return bool(first) and first.start <= _OWN_TIMES and any(told[at].undone for at in range(first.stop))


def _messages(file: sqlite3.Connection, session_id: str) -> list[HostMessage]:
    rows = file.execute(_MESSAGES, (session_id,))
    return [HostMessage(id, float(at), bool(undone), bool(old), *words) for id, at, undone, old, *words in rows]


def _continued(file: sqlite3.Connection, session_id: str) -> str:
    with contextlib.suppress(sqlite3.Error):  # of a version without this
        row = file.execute(_CONTINUED, (session_id,)).fetchone()
        return "" if row is None else str(row[0])
    return ""


def _with_originals(told: Sequence[HostMessage]) -> list[HostMessage]:
    """Return the messages, with the originals of undone copies marked as undone, too.

    A compression sets all messages aside and writes copies of what is left, at its own time; `/undo` marks the copies.
    """
    marked = list(told)
    for written in reversed(_compressions(told)):
        originals = _originals(marked, written)
        first = next((originals[at] for at in written if marked[at].undone and at in originals), written.start)
        for at in range(first, written.start):  # and everything said after it
            marked[at] = marked[at]._replace(undone=marked[at].undone or marked[at].compressed)
    return marked


def _compressions(told: Sequence[HostMessage]) -> list[range]:
    """Return the index ranges of messages that were written at once, in order."""
    times = [each.at for each in told]
    found: list[range] = []
    for start, after in enumerate(times[1:]):
        if not 0 < after - times[start] < _AT_ONCE_S or (found and start < found[-1].stop):
            continue
        end = start + 1
        while at_once := [
            at
            for at in range(end, min(end + _OWN_TIMES + 1, len(times)))
            if 0 < times[at] - times[end - 1] < _AT_ONCE_S
        ]:
            end = at_once[-1] + 1
        found.append(range(start, end))
    return found


def _originals(told: Sequence[HostMessage], written: range) -> dict[int, int]:
    """Return, for the user's messages that a compression wrote, the index of the original of each.

    The originals are the last ones before it, in their order; one more may be of the turn in which it happened.
    """
    copies = [at for at in written if told[at].role == "user"]
    aside = [at for at in range(written.start) if told[at].role == "user" and told[at].compressed]
    # If both are possible, the shorter reach is right: what it leaves can still be forgotten.
    for old in (copies[:-1], copies):
        pairs = list(zip(reversed(old), reversed(aside), strict=False))
        same = list(itertools.takewhile(lambda pair: told[pair[0]].begins == told[pair[1]].begins, pairs))
        if same:
            return dict(same)
    return {}


def _spans(told: Sequence[HostMessage], now: float) -> Iterator[Span]:
    """Yield the time spans of what was undone, which `bring` may have stored under the host's time of each message.

    The times of messages that were not undone are left out of the spans.
    """
    stands = sorted(each.at for each in told if not each.undone)
    by_host = sorted((each for each in told if each.role != "user"), key=lambda each: each.at)
    for since, until in _undone_turns(by_host, now):
        yield from _between(stands, since, until)
    standing = set(stands)
    yield from ((each.at, each.at) for each in told if each.undone and each.role == "user" and each.at not in standing)


def _between(stands: Sequence[float], since: float, until: float) -> Iterator[Span]:
    """Yield the parts of a span between the times that `stands` holds."""
    for at in stands[bisect_left(stands, since) : bisect_right(stands, until)]:
        yield since, at - _APART_S
        since = at + _APART_S
    yield since, until


def _undone_turns(by_host: Sequence[HostMessage], now: float) -> Iterator[Span]:
    """Yield spans from the first of a run of the host's undone messages to the next not undone, or else to `now`.

    Messages that the host writes itself have the host's time; a user's message has that of their platform, which may
    be earlier than the turn before it. They are in the order of time: where the clock was wrong for some of them, a
    span in the order of the conversation would hold others that stand.
    """
    since: float | None = None
    for each in by_host:
        if each.undone and since is None:
            since = each.at
        elif not each.undone and since is not None:
            yield since, each.at
            since = None
    if since is not None:
        last = by_host[-1].at
        yield since, now if last <= now else last + _STORED_WITHIN_S  # a clock that was ahead has been set right
