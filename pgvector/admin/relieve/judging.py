"""Finds reasons why a memory file entry need not be in every prompt, from stored rows, never by a language model."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from ...capture.mirror import Mirror
from ...domain.format import plural
from ...domain.text import clean
from ...domain.theme import Surface, ThemeRules, session_themes
from ...domain.types import MEMORY_FILES, Filters, Hit, Question, Scope
from ...host.session_context import profile_of
from ...recall.ranking import newest_of_near_equals
from ...recall.relevance import worth_showing
from ...store.sql import query
from ..common import theme_rows
from ..common.command_context import CommandContext
from ..common.progress import progress
from ..common.refs import Ref
from ..common.row_options import PATIENCE_S
from .file_entries import MemoryFile

_query = partial(query, package=__package__)
Kind = Literal["duplicate", "superseded", "unused", "removed"]

_SAME_SIMILARITY = 0.95  # from here on two memories with the same numbers count as equal, as for `compact`
_CANDIDATES = 6  # memories compared with each entry
_FITTING = 5  # turns looked up for each entry
_CHARS = 200  # shown of a similar or newer text
_TOLD_FROM = 10  # entries; fewer are looked up too fast to need a progress line
_OVER = ("closed", "superseded", "archived")  # states
_NOT_CURRENT: tuple[Kind, ...] = ("superseded", "removed")
_NUMBER = re.compile(r"\w*\d\w*")


class Reason(NamedTuple):
    """A reason why an entry could be moved: the kind, and the evidence as text."""

    kind: Kind
    said: str


@dataclass(frozen=True)
class JudgedEntry:
    """An entry of a file, with the memories that hold it and the reasons to move it. `place` counts from 0.

    `theme`: where it is stored if no memory holds it yet. `shown`: the text as the database keeps it, secrets masked.
    `written_at`: when the file was written, in seconds since the epoch.
    """

    number: int
    target: str
    place: int
    text: str
    shown: str
    written_at: float
    theme: str
    memories: tuple[Any, ...]
    reasons: list[Reason] = field(default_factory=list)

    @property
    def secret(self) -> bool:
        """Return whether the entry has a secret, so that the database would not keep it unchanged."""
        return self.shown != self.text

    @property
    def themes(self) -> set[str]:
        """Return the themes where the entry is stored, or is going to be."""
        return {memory.theme for memory in self.memories} or {self.theme}

    @property
    def kept(self) -> bool:
        """Return whether the database is to keep the entry: a removed or replaced memory is not stored again."""
        return bool(self.memories) or not self.is_a(*_NOT_CURRENT)

    @property
    def refs(self) -> list[str]:
        """Return the refs of its memories."""
        return [str(Ref("memories", memory.id)) for memory in self.memories]

    @property
    def said_at(self) -> datetime | None:
        """Return when it was last said or confirmed; None if it is not stored yet."""
        return max((memory.updated_at for memory in self.memories), default=None)

    def is_a(self, *kinds: Kind) -> bool:
        """Return whether the entry has a reason of one of these kinds."""
        return any(reason.kind in kinds for reason in self.reasons)

    def row(self) -> dict[str, Any]:
        """Return the entry as a row of JSON or of a table."""
        return {
            "number": self.number,
            "file": MEMORY_FILES[self.target],
            "content": self.shown,
            "chars": len(self.text),
            "themes": sorted(self.themes),
            "memories": self.refs,
            "said_at": self.said_at.astimezone(UTC).isoformat(timespec="seconds") if self.said_at else None,
            "secret": self.secret,
            "reasons": [reason._asdict() for reason in self.reasons],
        }


def look(context: CommandContext, rules: ThemeRules, files: Sequence[MemoryFile], *, after: int) -> list[JudgedEntry]:
    """Return every entry of the files with what stored rows say of it: superseded, removed, or owned by others as well.

    Numbers begin after the number `after`.
    """
    found = [(file, place, text) for file in files for place, text in enumerate(file.entries)]
    kept = [context.keep.text(clean(text), Counter()) for _, _, text in found]
    asked = {
        "theme": session_themes(Surface(profile=profile_of(context.home)), rules).files.name,
        "origin": Mirror(context.home).origin,
        "targets": [file.target for file, _, _ in found],
        "contents": kept,
        "file_times": [datetime.fromtimestamp(file.written_at, UTC) for file, _, _ in found],
        "chars": _CHARS,
    }
    known: dict[int, list[Any]] = {}
    with context.backend.connection(PATIENCE_S) as conn:
        for row in conn.execute(_query("entries_of_files"), asked):
            known.setdefault(row.number, []).append(row)
    entries = []
    for number, ((file, place, text), shown) in enumerate(zip(found, kept, strict=True), 1):
        rows = known[number]
        memories = tuple(row for row in rows if row.id is not None)
        reasons = list(_from_rows(rows, memories))
        entries.append(
            JudgedEntry(
                after + number, file.target, place, text, shown, file.written_at, rows[0].theme, memories, reasons
            )
        )
    return entries


def _from_rows(known: Sequence[Any], memories: Sequence[Any]) -> Iterator[Reason]:
    """Yield the reasons that the stored rows give for an entry."""
    if not memories:
        yield from _without_memory(known)
    elif all(row.state in _OVER or row.expired for row in memories):
        yield Reason("superseded", _how_over(memories[0]))
    for row in memories:
        if row.owners:
            yield Reason("duplicate", f"{Ref('memories', row.id)} is remembered besides ({', '.join(row.owners)})")


def _without_memory(known: Sequence[Any]) -> Iterator[Reason]:
    """Yield why an entry is no longer stored; nothing for one that never was."""
    successor = next((row for row in known if row.removed and row.successor is not None), None)
    if successor is not None:
        yield Reason("superseded", _says_now(successor))
    elif any(row.removed for row in known):
        yield Reason("removed", "forgotten or pruned in the database, and not stored again")


def _how_over(row: Any) -> str:
    if row.successor is not None:
        return _says_now(row)
    return str(row.state) if row.state in _OVER else "expired"


def _says_now(row: Any) -> str:
    return f"{Ref('memories', row.successor)} says now: {' '.join(row.successor_content.split())}"


# -- duplicates


def find_duplicates(context: CommandContext, entries: Sequence[JudgedEntry]) -> None:
    """Add the reason `duplicate` to entries that nearly equal a later entry or another memory of the theme."""
    by_id = {(memory.theme, memory.id): entry for entry in entries for memory in entry.memories}
    with progress("entries compared", len(entries), told_from=_TOLD_FROM) as advance:
        for entry in entries:
            later = [other for other in entries if other.number > entry.number and not other.is_a(*_NOT_CURRENT)]
            same = next((other for other in reversed(later) if _says_nearly(entry.text, other.text)), None)
            if same is not None:
                entry.reasons.append(Reason("duplicate", _entry_says(same)))
            else:
                entry.reasons.extend(_stored_duplicates(context, entry, later, by_id))
            advance(1)


def _entry_says(other: JudgedEntry) -> str:
    return f"entry {other.number} says so as well"


def _stored_duplicates(
    context: CommandContext,
    entry: JudgedEntry,
    later: Sequence[JudgedEntry],
    by_id: Mapping[tuple[str, int], JudgedEntry],
) -> Iterator[Reason]:
    """Yield a reason if a memory, of a later entry or of no entry, says nearly the same."""
    for memory in entry.memories:
        texts = _candidates(context, entry, memory, later)
        with context.backend.connection(PATIENCE_S) as conn:
            asked = {"theme": memory.theme, "id": memory.id, "others": list(list(texts))}
            near = {row.other: row.similarity for row in conn.execute(_query("similarities"), asked)}
        for other_id, text in texts.items():
            of_file = by_id.get((memory.theme, other_id))
            if of_file in (None, *later) and _says_the_same(entry.text, text, near.get(other_id, 0.0)):
                told = f"{Ref('memories', other_id)} says: {' '.join(text[:_CHARS].split())}"
                yield Reason("duplicate", told if of_file is None else _entry_says(of_file))
                return


def _candidates(
    context: CommandContext, entry: JudgedEntry, memory: Any, later: Sequence[JudgedEntry]
) -> dict[int, str]:
    """Return the memories to compare an entry with: those that recall finds for it, and those of later entries."""
    asked = Question(entry.text, Scope("theme", memory.theme), _CANDIDATES, PATIENCE_S)
    texts = {hit.id: hit.content for hit in context.searcher.recall(["memories"], asked).hits}
    return texts | {each.id: other.text for other in later for each in other.memories if each.theme == memory.theme}


def _says_nearly(one: str, other: str) -> bool:
    """Return whether recall would show only one of two statements."""
    now = datetime.now(UTC)
    hits = [Hit("memories", number, "", "", None, text, now, None) for number, text in enumerate((one, other))]
    return len(newest_of_near_equals(hits)) == 1


def _says_the_same(one: str, other: str, similarity: float) -> bool:
    """Return whether two texts are nearly equal by words, or by vectors with equal numbers, which models hardly see."""
    near = similarity >= _SAME_SIMILARITY and set(_NUMBER.findall(one)) == set(_NUMBER.findall(other))
    return near or _says_nearly(one, other)


# -- unused


def find_unused(context: CommandContext, entries: Sequence[JudgedEntry], before: datetime) -> list[str]:
    """Add the reason `unused` to entries that nobody has mentioned since `before`; return notes for the operator.

    An entry is unused if its memory was last said or confirmed before then, and recall would show no turn since then,
    of any theme of this home, for it. Entries that have not been stored for so long are left out.
    """
    old = [entry for entry in entries if entry.said_at is not None and entry.said_at < before]
    themes = _themes_with_turns(context, old, before) if old else []
    if old and not themes:
        return [f"since {before:%Y-%m-%d} no turn of this home is stored: nothing tells which entries are used"]
    young = plural(len(entries) - len(old), "entry was", "entries were")
    notes = [f"{young} written, confirmed or first read since {before:%Y-%m-%d}, and so not called unused"]
    with progress("entries looked up", len(old), told_from=_TOLD_FROM) as advance:
        for entry in old:
            if not _is_spoken_of(context, entry.text, themes, before):
                said = f"last said {entry.said_at:%Y-%m-%d}, and no turn since {before:%Y-%m-%d} is about it"
                entry.reasons.append(Reason("unused", said))
            advance(1)
    return notes if len(old) < len(entries) else []


def _themes_with_turns(context: CommandContext, entries: Sequence[JudgedEntry], since: datetime) -> list[str]:
    """Return the themes of this home that have turns since then."""
    with context.backend.connection(PATIENCE_S) as conn:
        of_home = theme_rows.of_home(conn, profile_of(context.home), Mirror(context.home).origin)
        themes = list(dict.fromkeys([*of_home, *(theme for entry in entries for theme in entry.themes)]))
        return [row.theme for row in conn.execute(_query("turns_since"), {"themes": themes, "since": since})]


def _is_spoken_of(context: CommandContext, text: str, themes: Collection[str], since: datetime) -> bool:
    for theme in themes:
        asked = Question(text, Scope("theme", theme), _FITTING, PATIENCE_S, Filters(since=since))
        hits = context.searcher.recall(["turns"], asked).hits
        if worth_showing(context.searcher, hits, text, context.settings, time.monotonic() + PATIENCE_S):
            return True
    return False
