"""Imports memories and turns, cleaned as live writes are, with their original times, each exactly once.

A record that was imported before is recognised by its content (a memory by theme, target and text; a turn by theme,
session, time, role and text), so a killed run can be repeated at any later time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Literal, TypeVar

from ...capture.sanitize import Sanitizer, session_name
from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import OperationRejected, StoreUnsettled
from ...domain.text import clean, clean_json, digest
from ...domain.theme import ROLES, Languages, ThemeRules
from ...domain.types import TARGETS, EmbeddingSpace
from ...store.connection import DeadlineConnection, role_of, translated
from ...store.memories import note_actor
from ...store.vectors import hold_space, record_space
from ..common.operators import operator
from ..common.row_security import lacks, own_themes
from ..common.theme_names import not_allowed
from . import import_rows as store
from .float_arrays import know_vectors
from .kept_numbers import KeptNumbers
from .records import MemoryRecord, Record, TurnRecord, as_stored, time_flaw

BATCH_RECORDS = 500
BATCH_CHARS = 2_000_000  # of text; a batch is one transaction and stays in memory
MAX_CHARS = 50_000_000  # of one text: well below what Postgres accepts in one row
_EXAMPLES = 20
REMOVED = "removed since it was written"

_Some = TypeVar("_Some", bound=Record)
Origin = Literal["foreign", "export", "copy"]
_VERBS: dict[Origin, str] = {"foreign": "bring", "export": "import", "copy": "copy"}


@dataclass(frozen=True)
class IngestOptions:
    """How records are imported.

    `origin`: another program ("foreign"), an export of ours ("export"), or another database of ours ("copy"). Personal
    identifiers in metadata of another program are digested; records of a copy are not changed at all.
    `space`: the embedding space of the records' vectors; None drops them. `adopt`: a database with no model adopts it.
    `near_s`: the same text in the same session within so many seconds counts as stored already if it has another
    metadata.source; this is for sources whose times differ from those of our hooks.
    `restore`: bring back memories that were removed after they were written. `really`: False is a dry run.
    `kept`: the numbers that records keep.
    `counted`: the keys of the records that a dry run has counted as added, in all sources: each would be added once.
    """

    settings: Settings
    rules: ThemeRules
    origin: Origin = "foreign"
    space: EmbeddingSpace | None = None
    adopt: bool = False
    near_s: float = 0.0
    restore: bool = False
    really: bool = True
    kept: KeptNumbers | None = None
    counted: set[int] = field(default_factory=set)


@dataclass
class IngestResult:
    """The counts of an import; `skipped` by reason, with `examples` that say where skipped records were read.

    `refused`: those of the skipped that Postgres would not take, or row-level security, and that are lacking therefore.
    `without_replaced` and `without_sources`: memories whose replaced memory or source turns are not in this database.
    `moved`: of the themes that hold rows again, the one that each was renamed to or merged into here.
    """

    memories_added: int = 0
    memories_there: int = 0
    turns_added: int = 0
    turns_there: int = 0
    vectors: int = 0
    masked: int = 0
    without_replaced: int = 0
    without_sources: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    examples: list[str] = field(default_factory=list)
    themes: Counter[str] = field(default_factory=Counter)
    unreachable: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)

    @property
    def added(self) -> int:
        """Return how many records were written."""
        return self.memories_added + self.turns_added

    def skip(self, record: Record, reason: str) -> None:
        """Count a record as skipped."""
        self.skipped[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{record.where}: {reason}" if record.where else reason)

    def for_log(self) -> dict[str, int]:
        """Return the counts that are not 0."""
        return {name: count for name, count in self.counts().items() if count}

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        names = ("memories_added", "memories_there", "turns_added", "turns_there", "vectors", "masked")
        return {name: getattr(self, name) for name in names} | {"skipped": self.skipped.total()}

    def as_json(self) -> dict[str, Any]:
        """Return the whole result as JSON."""
        return self.counts() | {
            "without_replaced": self.without_replaced,
            "without_sources": self.without_sources,
            "skipped": dict(self.skipped),
            "refused": self.refused,
            "examples": self.examples,
            "themes": dict(sorted(self.themes.items())),
            "unreachable": sorted(self.unreachable),
            "moved": self.moved,
        }


def take_in(
    conn: DeadlineConnection,
    records: Iterable[Record],
    intake: IngestOptions,
    progress: Callable[[int], None] = lambda count: None,
) -> IngestResult:
    """Write records in batches, a transaction each; `progress` gets the number done since its last call.

    `conn` must be in no transaction. Raises StoreUnavailable or DeadlineExceeded: what was written stays, and another
    run resumes after it. A record with any other fault is skipped alone.
    """
    with translated():
        know_vectors(conn)
    found = IngestResult()
    cleaning = _Cleaning(intake, found, _lacking(conn))
    languages = Languages(intake.settings.text_language, intake.settings.text_languages)
    linked: list[MemoryRecord] = []
    for batch in _batches(records, of_one_theme=conn.spread):
        fit = cleaning.accepted(batch)
        try:
            _write(conn, fit, intake, languages, found)
        except (OperationRejected, StoreUnsettled):
            for record in fit:
                _write_alone(conn, record, intake, languages, found)
        progress(len(batch))
        linked += [each for each in fit if isinstance(each, MemoryRecord) and each.said.links()]
    if intake.really:
        for some in _batches(linked, of_one_theme=conn.spread):
            _link(conn, some, found)
    return found


def _lacking(conn: DeadlineConnection) -> Callable[[str], str]:
    """Return what says why this role may not write to a theme; "" if it may. A dry run is told it, too."""
    own = own_themes(conn)
    role = "" if own is None else role_of(conn)

    def why(theme: str) -> str:
        if not lacks(own, theme):
            return ""
        grant = typed(f"hermes-pgvector tenants grant {quote(role)} {quote(theme)}")
        return f"row-level security does not give the role {role} the theme {theme!r}: {grant}"

    return why


def _link(conn: DeadlineConnection, records: Sequence[MemoryRecord], found: IngestResult) -> None:
    """Restore the memories' links to other rows, after all rows are written."""
    with translated(), conn.transaction():
        replaced, sources = store.link(conn, records)
    found.without_replaced += replaced
    found.without_sources += sources


def _batches(records: Iterable[_Some], *, of_one_theme: bool) -> Iterator[list[_Some]]:
    batch: list[_Some] = []
    chars = 0
    for record in records:
        full = len(batch) >= BATCH_RECORDS or chars >= BATCH_CHARS
        if batch and (full or (of_one_theme and record.theme != batch[0].theme)):
            yield batch
            batch, chars = [], 0
        batch.append(record)
        chars += len(record.content)
    if batch:
        yield batch


def _write(
    conn: DeadlineConnection,
    records: Sequence[Record],
    intake: IngestOptions,
    languages: Languages,
    found: IngestResult,
) -> None:
    """Write records in one transaction; count them after it is committed."""
    with translated(), conn.transaction():
        moved = store.begin(conn)  # rows found there are not imported under their old name
        note_actor(conn, operator(_VERBS[intake.origin]))
        with_vectors = _as_space_allows(conn, records, intake)
        memories = [each for each in with_vectors if isinstance(each, MemoryRecord)]
        turns = [each for each in with_vectors if isinstance(each, TurnRecord)]
        brought = store.bring_memories(
            conn,
            memories,
            languages,
            # A copy may be of another home that has its own theme of that name and its own memory of that text.
            {} if intake.origin == "copy" else moved,
            restore=intake.restore,
            really=intake.really,
            # Importing what a memory file keeps here already means to keep it, whatever happens to that file.
            owner_of_there="import" if intake.origin == "export" else "",
            kept=intake.kept,
        )
        said = store.bring_turns(
            conn,
            turns,
            languages,
            moved,
            near_s=intake.near_s,
            really=intake.really,
            kept=intake.kept,
        )
    found.memories_added += len(brought.added)
    found.memories_there += len(brought.there)
    found.turns_added += len(said.added)
    found.turns_there += len(said.there)
    for record in (*brought.added, *said.added):
        if not intake.really:
            intake.counted.add(hash(_identity(record)))
        found.themes[record.theme] += 1
        if places := moved.get(record.theme):
            found.moved[record.theme] = places[-1]
        found.vectors += record.embedding is not None
    for record in brought.removed:
        found.skip(record, REMOVED)


def _write_alone(
    conn: DeadlineConnection, record: Record, intake: IngestOptions, languages: Languages, found: IngestResult
) -> None:
    """Write one record in its own transaction; if Postgres rejects it, retry without its vectors, else skip it."""
    try:
        _write(conn, [record], intake, languages, found)
    except (OperationRejected, StoreUnsettled) as exc:
        bare = _bare(record)
        if bare is record:
            found.skip(record, f"Postgres refuses it: {exc}")
            found.refused += 1
        else:
            _write_alone(conn, bare, intake, languages, found)


def _as_space_allows(conn: DeadlineConnection, records: Sequence[Record], intake: IngestOptions) -> Sequence[Record]:
    """Return the records, stripped of vectors that this database cannot use; stripped records stay pending."""
    if all(record.embedding is None for record in records):
        return records
    dims = _usable_dims(conn, intake)
    return [each if dims and _can_be_compared(each, dims) else _bare(each) for each in records]


def _usable_dims(conn: DeadlineConnection, intake: IngestOptions) -> int:
    """Return the number of dimensions that vectors must have to be kept; 0 if this database can use none."""
    if intake.space is None:
        return 0
    recorded = hold_space(conn)
    adopts = intake.adopt and not recorded.model
    if adopts and intake.really and recorded.dims == intake.space.dims:
        recorded = record_space(conn, intake.space)
    usable = recorded.comparable(intake.space) or (adopts and not intake.really)
    return recorded.dims if usable else 0


def _can_be_compared(record: Record, dims: int) -> bool:
    """Return whether every vector of a record has `dims` floats and is not all zeros: nothing is similar to zeros."""
    vectors = [] if record.embedding is None else [record.embedding, *(part.vector for part in record.parts)]
    return all(len(vector) == dims and any(vector) for vector in vectors)


def _bare(record: Record) -> Record:
    return record if record.embedding is None else dataclasses.replace(record, embedding=None, parts=())


class _Cleaning:
    """The steps that a live write goes through: cleaning, masking, normalising of names, limits."""

    def __init__(self, intake: IngestOptions, found: IngestResult, lacking: Callable[[str], str]) -> None:
        self._intake = intake
        self._lacking = lacking
        self._keep = Sanitizer(intake.settings)
        self._found = found
        self._themes: dict[str, str] = {}

    def accepted(self, batch: Sequence[Record]) -> list[Record]:
        """Return the records that can be stored, in their stored form and each once; count the others as skipped."""
        fit: dict[tuple[object, ...], Record] = {}
        for record in batch:
            if reason := _flaw(record):
                self._found.skip(record, reason)
                continue
            kept = record if self._intake.origin == "copy" else self._as_stored(record)
            if not kept.theme:
                self._found.skip(record, "its theme is blank")
            elif not kept.content:
                self._found.skip(record, "its text is empty")
            elif reason := self._lacking(kept.theme):
                self._found.skip(record, reason)
                self._found.refused += 1
            elif (key := _identity(kept)) in fit or hash(key) in self._intake.counted:
                if isinstance(kept, MemoryRecord):
                    self._found.memories_there += 1
                else:
                    self._found.turns_there += 1
            else:
                fit[key] = kept
        return list(fit.values())

    def _as_stored(self, record: Record) -> Record:
        counts: Counter[str] = Counter()
        text = self._keep.text(clean(record.content), counts)
        if isinstance(record, MemoryRecord):
            text = text.strip()
        self._found.masked += counts["secrets_masked"]
        changed: dict[str, Any] = {
            "theme": self._theme(record.theme),
            "content": text if text.strip() else "",
            "metadata": self._metadata(record.metadata),
        }
        if text != record.content:
            changed |= {"embedding": None, "parts": ()}
        if isinstance(record, MemoryRecord):
            changed["owners"] = () if record.in_file else ("import",)
            changed["said"] = as_stored(record.said, text, self._keep, self._session)
        else:
            changed["session_id"] = self._session(record.session_id)
        return dataclasses.replace(record, **changed)

    def _session(self, name: str) -> str:
        return session_name(name, self._intake.settings.identity_key) or "unknown"

    def _metadata(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self._intake.origin == "foreign":
            return self._keep.metadata(given, Counter())
        plain = clean_json(given)
        return plain if isinstance(plain, dict) else {}

    def _theme(self, name: str) -> str:
        if name not in self._themes:
            rules = self._intake.rules
            theme = rules.resolve_name(name)
            self._themes[name] = theme
            if not_allowed(theme, rules):
                self._found.unreachable.add(theme)
        return self._themes[name]


def _flaw(record: Record) -> str:
    """Return why a record cannot be stored at all, or "" if it can."""
    times = (record.created_at, record.updated_at) if isinstance(record, MemoryRecord) else (record.ts,)
    if flaw := next(filter(None, map(time_flaw, times)), ""):
        return flaw
    if isinstance(record, MemoryRecord) and record.target not in TARGETS:
        return "its target is neither memory nor user"
    if isinstance(record, TurnRecord) and record.role not in ROLES:
        return f"its role is none of {', '.join(ROLES)}"
    if len(record.content) > MAX_CHARS:
        return f"its text is longer than {MAX_CHARS:,} characters"
    return ""


def _identity(record: Record) -> tuple[object, ...]:
    """Return the key that equal records share."""
    what = digest(record.content)
    if isinstance(record, MemoryRecord):
        return (record.theme, record.target, what)
    return (record.theme, record.session_id, record.role, record.ts, what)
