"""Names of single stored rows: m123 or `memory 123` for a memory, t123 or `turn 123` for a turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...domain.errors import InvalidArgument, WrongUsage
from ...domain.types import Store

WAYS = "m123 (or 123) for a memory, t123 for a turn"
_LETTERS: dict[Store, str] = {"memories": "m", "turns": "t"}
_WORDS: dict[str, Store] = {
    "": "memories", "m": "memories", "memory": "memories", "memories": "memories",
    "t": "turns", "turn": "turns", "turns": "turns",
}  # fmt: skip
# No minus sign: `forget -5` must not remove the fifth memory.
_REF = re.compile(r"([a-z]*)[\s:/#]*(\d{1,19})(?!\S)", re.ASCII)


class Ref(NamedTuple):
    """A memory or a turn by its number."""

    store: Store
    id: int

    def __str__(self) -> str:
        return f"{_LETTERS[self.store]}{self.id}"


def one_theme(ref: Ref, themes: Collection[str]) -> str:
    """Return the only theme with a row of this number. Raises InvalidArgument if several themes have one.

    That can happen after a restore that left sequences behind.
    """
    if len(themes) > 1:
        raise InvalidArgument(
            f"{ref} is the number of rows of several themes ({', '.join(sorted(themes))}): name one with --theme where "
            "there is that option, and see: hermes-pgvector doctor"
        )
    (theme,) = themes
    return theme


def parse_refs(words: Sequence[str]) -> list[Ref]:
    """Return the rows that arguments name, each once. A bare number is a memory, as in the tools.

    Raises WrongUsage, also for a blank argument: a shell variable may be unset.
    """
    refs: list[Ref] = []
    given, at = " ".join(" ".join(words).lower().replace(",", " ").split()), 0
    while at < len(given):
        match = _REF.match(given, at)
        if match is None or match[1] not in _WORDS or int(match[2]) >= 2**63:
            raise WrongUsage(f"{given[at:].split()[0]!r} names no row; write {WAYS}")
        refs.append(Ref(_WORDS[match[1]], int(match[2])))
        at = match.end() + 1
    if words and not refs:
        raise WrongUsage(f"the id is empty; write {WAYS}")
    return list(dict.fromkeys(refs))
