"""The attributes of a memory besides its text: its kind, its subject, its expiry, and what it replaces."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from .dates import Zone, parse_when
from .errors import InvalidArgument
from .patterns import late_pattern
from .text import apart, clean

KINDS: Final = ("fact", "preference", "constraint", "decision", "value", "question", "procedure", "reflection")
STATES: Final = ("active", "closed", "superseded", "archived")
NAME_MOST_CHARS: Final = 200  # of a subject or a scope
WHEN_MOST_CHARS: Final = 1_000
SOURCES_MOST: Final = 100
MALFORMED_NOTE: Final = (
    "this looks like notation and is none, so it is kept as plain text; notation is written D[auth]: what was decided"
)
EXPIRED_NOTE: Final = "its `expires_at` is past, so it is not recalled"

_MARKS = {"C": "constraint", "D": "decision", "V": "value", "?": "question"}
_DONE, _OBSOLETE = "✓✔", "~"
_LINE = late_pattern(r"([CDV?✓✔~])\[([^\[\]\r\n]{1,200})\](:?)[ \t]*([^\r\n]*)")
_FIRST_S, _LAST_S = -6e10, 2e11  # the years 68 to 8307
# Invisible characters, which would turn one subject into two; those that join letters and emojis stay.
_UNSEEN = dict.fromkeys([0xAD, 0x61C, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
_ALMOST = late_pattern(r"[CDV?✓✔~]\[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The attributes that one write gives a memory besides its text; None for those that it does not give.

    Subjects and scopes differ by their letters, not by case, width or invisible characters. `expires_at` is in seconds
    since the epoch, `sources` are ids of turns, `replaces` is the id of a memory. `closes`: the scope or the question
    of that subject is done. `obsoletes`: the current memory of that subject is replaced, and passes on its kind and
    scope.
    """

    kind: str | None = None
    subject: str | None = None
    scope: str | None = None
    state: str | None = None
    expires_at: float | None = None
    confidence: float | None = None
    sources: tuple[int, ...] | None = None
    replaces: int | None = None
    when: str | None = None
    pinned: bool | None = None
    closes: bool | None = None
    obsoletes: bool | None = None

    def said(self) -> dict[str, Any]:
        """Return the fields that are set, as JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def over(self, other: Structure | None) -> Structure:
        """Return this structure, with what it does not set taken from `other`."""
        return self if other is None else Structure(**{**other.said(), **self.said()})

    def settled(self) -> Structure:
        """Return it with a kind and a state filled in, if it has a kind, a subject or a state."""
        if self.kind is self.subject is self.state is None:
            return self
        state = self.state or ("closed" if self.closes else "active")
        return replace(self, kind=self.kind or "fact", state=state)


PLAIN: Final = Structure()


def parse_notation(text: str) -> Structure | None:
    """Return the structure of a line of notation such as `D[auth]: tokens last 7 days`; None if it is not one.

    C constraint, D decision, V value, ? question; ✓ closes a scope or a question, ~ replaces what was current.
    """
    found = _LINE.fullmatch(text.strip())
    if found is None:
        return None
    mark, subject, colon, said = found.groups()
    subject = _name(subject)
    if not 0 < len(subject) <= NAME_MOST_CHARS or not ((colon and said.strip()) or (mark in _DONE and not said)):
        return None
    if mark in _DONE:
        return Structure(subject=subject, closes=True)
    if mark == _OBSOLETE:
        return Structure(subject=subject, obsoletes=True)
    return Structure(kind=_MARKS[mark], subject=subject)


def _name(text: str) -> str:
    """Return a subject or a scope in one form for all that look alike."""
    level = unicodedata.normalize("NFKC", apart(clean(text).translate(_UNSEEN)))
    return " ".join(level.translate(_UNSEEN).split())


def notes_on(text: str, said: Structure) -> list[str]:
    """Return what whoever stores a memory should know of it: that it is no notation, or has expired."""
    malformed = _ALMOST.match(text.strip()) is not None and parse_notation(text) is None
    expired = said.expires_at is not None and said.expires_at <= datetime.now(UTC).timestamp()
    return [MALFORMED_NOTE] * malformed + [EXPIRED_NOTE] * expired


def structure_of(said: Mapping[str, Any], zone: Zone = UTC) -> Structure:
    """Return the structure in a mapping from a file or from a tool's arguments; unknown names are ignored.

    `expires_at` may also be a date or a time, in `zone` if it names none. Raises InvalidArgument.
    """
    readers = {**_READERS, "expires_at": partial(_moment, zone=zone)}
    given = {name: said[name] for name in readers if said.get(name) not in (None, "")}
    return Structure(**{name: readers[name](value, name) for name, value in given.items()})


def choice_of(value: object, name: str, choices: tuple[str, ...]) -> str:
    """Return a value that is one of `choices`. Raises InvalidArgument."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(f"`{name}` must be one of {', '.join(choices)}, or left out")
    return value


def _short(most: int) -> Any:
    def read(value: object, name: str) -> str | None:
        text = _name(value) if isinstance(value, str) else ""
        if not text or len(text) > most:
            raise InvalidArgument(f"`{name}` must be a text of 1 to {most} characters, or left out")
        return text

    return read


def _moment(value: object, name: str, zone: Zone) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        moment = float(value) if _FIRST_S < value < _LAST_S else math.nan
    else:
        when = parse_when(value, name, end=True, zone=zone, ahead=True)
        moment = math.nan if when is None else when.timestamp()
    # An accepted value is read again from the spool, as a number, so it must pass as one.
    if not _FIRST_S < moment < _LAST_S:
        raise InvalidArgument(f"`{name}` must be a date such as 2026-05-03, of the years 69 to 8306, or left out")
    return moment


def _share(value: object, name: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise InvalidArgument(f"`{name}` must be a number from 0 to 1, or left out")


def _id(value: object, name: str) -> int:
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63:
        return value
    raise InvalidArgument(f"`{name}` must be the number of a row, as it was shown")


def _ids(value: object, name: str) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or len(value) > SOURCES_MOST:
        raise InvalidArgument(f"`{name}` must be a list of at most {SOURCES_MOST} numbers of turns, or left out")
    return tuple(_id(each, name) for each in value)


def says_yes(value: object) -> bool:
    """Return whether an argument says yes, as a JSON value or in words."""
    return value in (True, "true", "True", 1)


def _flag(value: object, name: str) -> bool:
    if says_yes(value):
        return True
    if value in (False, "false", "False", 0):
        return False
    raise InvalidArgument(f"`{name}` must be true or false, or left out")


_READERS: Final[Mapping[str, Any]] = {
    "kind": partial(choice_of, choices=KINDS),
    "subject": _short(NAME_MOST_CHARS),
    "scope": _short(NAME_MOST_CHARS),
    "state": partial(choice_of, choices=STATES),
    "confidence": _share,
    "sources": _ids,
    "replaces": _id,
    "when": _short(WHEN_MOST_CHARS),
    "pinned": _flag,
    "closes": _flag,
    "obsoletes": _flag,
}
