"""What a user took back with `/undo`, by the host's session database, state.db.

The command line tells us that it happened and not how far it went; a chat on a platform gets a new agent and tells
nothing. Both mark the messages there first.
"""

from __future__ import annotations

import contextlib
import sqlite3
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ..domain.session_turns import Span

_BUSY_S = 0.05  # a hook waits for this
_SESSION = "SELECT coalesce(rewind_count, 0) FROM sessions WHERE id = ?"
_MESSAGES = """
SELECT timestamp, active = 0 AND NOT coalesce(compacted, 0), coalesce(compacted, 0), role, substr(content, 1, 200)
  FROM messages WHERE session_id = ? ORDER BY id
"""
_APART_S = 1e-5  # Postgres keeps microseconds, and of these a float is not sure
_AT_ONCE_S = 1e-4  # what a compression writes bears times a microsecond apart
_OWN_TIMES = 2  # so many messages of a compression, in a row, may have kept a time of their own


@dataclass(frozen=True)
class Rewound:
    """How often something of a session was taken back, and when those turns were accepted."""

    times: int
    spans: tuple[Span, ...]


class _Told(NamedTuple):
    """A message as the host has it; of its text the beginning."""

    at: float
    undone: bool
    compressed: bool
    role: str
    begins: str | bytes | None


def rewound(home: Path, session_id: str, now: float) -> Rewound:
    """Return what was taken back of a session; nothing where the host's database does not say, or cannot be read."""
    path = home / "state.db"
    try:
        address = f"file:{quote(str(path))}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as file:
            (times,) = file.execute(_SESSION, (session_id,)).fetchone() or (0,)
            if not times:
                return Rewound(0, ())
            rows = file.execute(_MESSAGES, (session_id,))
            told = [_Told(float(at), bool(undone), bool(old), *words) for at, undone, old, *words in rows]
            return Rewound(int(times), tuple(_spans(_as_first_said(told), now)))
    except (sqlite3.Error, ValueError, TypeError):  # none, of another version, or busy
        return Rewound(0, ())


def _as_first_said(told: Sequence[_Told]) -> list[_Told]:
    """Return the messages, each at the time when it was said, and undone where a copy of it is.

    A compression sets them all aside and writes down what is left of them anew, at its own time; `/undo` marks that.
    """
    first = _first_of_copies(told)
    undone = {first[at] for at, each in enumerate(told) if each.undone}
    return [each._replace(at=told[first[at]].at, undone=first[at] in undone) for at, each in enumerate(told)]


def _first_of_copies(told: Sequence[_Told]) -> list[int]:
    """Return for each message the place of the one that it is a copy of, mostly its own."""
    first = list(range(len(told)))
    places: dict[tuple[object, object], list[int]] = defaultdict(list)  # of what compressions have set aside
    start = 0
    while start < len(told):
        end = _end_of_compression(told, start)
        before = start
        for at in reversed(range(start, end) if end > start + 1 else ()):  # they stand in their order, the last ones
            earlier = places[told[at].role, told[at].begins]
            if found := bisect_left(earlier, before):
                before = earlier[found - 1]
                first[at] = first[before]
        for at in range(start, end):
            if told[at].compressed:
                places[told[at].role, told[at].begins].append(at)
        start = end
    return first


def _end_of_compression(told: Sequence[_Told], start: int) -> int:
    """Return where the messages end that were written at once with the one at `start`."""
    end = start + 1
    while following := [
        at for at in range(end, min(end + _OWN_TIMES + 1, len(told))) if 0 < told[at].at - told[end - 1].at < _AT_ONCE_S
    ]:
        end = following[-1] + 1
    return end


def _spans(told: Sequence[_Told], now: float) -> Iterator[Span]:
    """Give the times of what was undone, which `bring` may have stored by the host's time of each message.

    At the time of a message that stands there is nothing of what was undone.
    """
    stands = sorted(each.at for each in told if not each.undone)
    for since, until in _undone_turns([(each.at, each.undone) for each in told if each.role != "user"], now):
        for at in stands[bisect_left(stands, since) : bisect_right(stands, until)]:
            yield since, at - _APART_S
            since = at + _APART_S
        yield since, until
    standing = set(stands)
    yield from ((each.at, each.at) for each in told if each.undone and each.role == "user" and each.at not in standing)


def _undone_turns(by_host: Iterable[tuple[float, bool]], now: float) -> Iterator[Span]:
    """From the first message of the host in a row of undone ones to the next that stands; `now` where none does.

    What the host writes itself bears the host's time; a user's message that of their platform, which may be from
    before the turn in front of it.
    """
    since: float | None = None
    for at, undone in by_host:
        if undone and since is None:
            since = at
        elif not undone and since is not None:
            yield since, at
            since = None
    if since is not None:
        yield since, now
