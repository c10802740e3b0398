"""The numbers of rows that a copy keeps: an agent forgets a memory by the number that an answer of before gave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common.fetching import one

_MOST = 10_000_000  # that are drawn for this; it takes seconds
NONE: range = range(0)


def reserve(source: DeadlineConnection, target: DeadlineConnection, themes: Sequence[str]) -> Mapping[Store, range]:
    """Return the numbers that rows of these themes may keep at the target, drawn there for nobody else.

    Any other number may be one that another session there has drawn and is about to use.
    """
    highest = one(source, query("highest_numbers", package=__package__), {"themes": list(themes)})
    return {
        "memories": _drawn(target, "memory_entries_id_seq", highest.memories),
        "turns": _drawn(target, "conversations_id_seq", highest.turns),
    }


def number_of(number: int, drawn: int, kept: range) -> int:
    """Return the number that a row gets: the one it had if that is kept, otherwise `drawn`."""
    return number if number in kept else drawn


def _drawn(target: DeadlineConnection, sequence: str, highest: int | None) -> range:
    if not highest:
        return NONE
    first = _draw(target, sequence, 1)
    more = highest - first
    if not 0 <= more <= _MOST:
        return NONE
    # Where agents draw numbers meanwhile, which of them are ours is not known.
    return range(first, highest + 1) if not more or _draw(target, sequence, more) == highest else NONE


def _draw(target: DeadlineConnection, sequence: str, count: int) -> int:
    """Draw so many numbers from a sequence; return the last one."""
    asked = {"sequence": sequence, "count": count}
    return int(one(target, query("draw_numbers", package=__package__), asked).last)
