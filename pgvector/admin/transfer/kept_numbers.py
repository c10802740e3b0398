"""The numbers of rows that a copy keeps: an agent forgets a memory by the number that an answer of before gave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.replica import identity_of
from ...store.sql import query
from ..common.fetching import one
from ..common.operators import record_where_allowed
from ..common.row_security import has_own_themes

_MOST = 10_000_000  # that are drawn for this; it takes seconds
_AHEAD = 10_000  # for rows that the source's agents write before they are restarted
_SEQUENCES: Mapping[Store, str] = {"memories": "memory_entries_id_seq", "turns": "conversations_id_seq"}
_NONE = range(0)


@dataclass(frozen=True, slots=True)
class KeptNumbers:
    """The numbers that were drawn at a target for the rows of a source, by this copy and by earlier ones."""

    drawn: Mapping[Store, Sequence[range]]

    def free(self, conn: DeadlineConnection, store: Store, numbers: Sequence[int]) -> set[int]:
        """Return which of these numbers rows may keep. One may be in use for a row that the source has no longer."""
        kept = {number for number in numbers if any(number in each for each in self.drawn[store])}
        if kept:
            used = conn.execute(query(f"used_numbers_{store}", package=__package__), {"ids": list(kept)})
            kept -= {row.id for row in used}
        return kept


def numbers_for(
    conn: DeadlineConnection, store: Store, numbers: Sequence[int], kept: KeptNumbers | None
) -> Sequence[int]:
    """Return the number that each row gets: the one it had elsewhere if that is kept, otherwise a new one."""
    own = set() if kept is None else kept.free(conn, store, numbers)
    asked = {"sequence": _SEQUENCES[store], "count": sum(number not in own for number in numbers)}
    drawn = iter(conn.execute(query("new_numbers", package=__package__), asked))
    return [number if number in own else next(drawn).id for number in numbers]


def reserve(
    source: DeadlineConnection, target: DeadlineConnection, themes: Sequence[str], named: Sequence[str], rows: int
) -> KeptNumbers:
    """Return the numbers that rows of these themes may keep at the target, drawn there for nobody else.

    Any other number may be one that another session there has drawn and is about to use. The target's log notes what
    is drawn, for later runs, as after this one was killed, with how many `rows` are to be copied, of the themes that
    the operator has `named`.
    """
    highest = one(source, query("highest_numbers", package=__package__), {"themes": list(themes)})
    who = str(identity_of(source))
    with target.transaction():
        drawn = {store: _drawn(target, sequence, getattr(highest, store)) for store, sequence in _SEQUENCES.items()}
        if noted := {store: [numbers[0], numbers[-1]] for store, numbers in drawn.items() if numbers}:
            arguments = {"themes": list(named), "state": "begun", "source": who, "numbers": noted}
            record_where_allowed(target, "copy", arguments, {"rows": rows})
    before = _noted(target, who)
    return KeptNumbers({store: [drawn[store], *before[store]] for store in _SEQUENCES})


def _noted(target: DeadlineConnection, source: str) -> Mapping[Store, list[range]]:
    """Return what copies from a source have noted as drawn for its rows; nothing for a role that may not read that."""
    found: dict[Store, list[range]] = {store: [] for store in _SEQUENCES}
    if not has_own_themes(target):
        for row in target.execute(query("numbers_noted", package=__package__), {"source": source}):
            for store in _SEQUENCES:
                if store in row.numbers:
                    first, last = row.numbers[store]
                    found[store].append(range(first, last + 1))
    return found


def _drawn(target: DeadlineConnection, sequence: str, highest: int | None) -> range:
    if not highest:
        return _NONE
    last = highest + _AHEAD
    first = _draw(target, sequence, 1)
    more = last - first
    if not 0 <= more <= _MOST:
        return _NONE
    # Where agents draw numbers meanwhile, which of them are ours is not known.
    return range(first, last + 1) if not more or _draw(target, sequence, more) == last else _NONE


def _draw(target: DeadlineConnection, sequence: str, count: int) -> int:
    """Draw so many numbers from a sequence; return the last one."""
    asked = {"sequence": sequence, "count": count}
    return int(one(target, query("draw_numbers", package=__package__), asked).last)
