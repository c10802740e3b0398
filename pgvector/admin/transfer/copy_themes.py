"""Copies themes with their vectors from one database of ours to another, and verifies that they arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from shlex import quote
from typing import Any

from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import ConfigurationError
from ...domain.theme import ThemeRules
from ...domain.types import EmbeddingSpace
from ...store.connection import DeadlineConnection, role_of, translated
from ...store.memories import note_actor
from ...store.vectors import STORES, recorded_space
from ..common.database_identity import identity
from ..common.moved_themes import moved_themes
from ..common.operators import operator, record_where_allowed
from ..common.progress import progress
from ..common.row_security import lacks, own_themes
from . import copy_rows as store
from . import export_rows
from .export import rows_of, themes_meant
from .export_rows import Fingerprint, TimeRange
from .float_arrays import know_vectors
from .ingest import IngestOptions, IngestResult, take_in
from .kept_numbers import KeptNumbers, reserve
from .records import Record


@dataclass(frozen=True)
class Compared:
    """The comparison of one theme, memories and turns together. `missing`: rows of the source that the target lacks.

    `moved`: the theme that it was last renamed to or merged into at the target, or None.
    """

    theme: str
    moved: str | None
    source_rows: int
    target_rows: int
    same: bool
    missing: int

    @property
    def fits(self) -> bool:
        """Return whether the target holds every row of the source."""
        return self.same or not self.missing

    def as_row(self) -> dict[str, Any]:
        """Return the comparison for a table."""
        more = f"all there, or in {self.moved!r}" if self.moved else "all there, and more"
        said = "the same" if self.same else f"{self.missing:,} missing" if self.missing else more
        return asdict(self) | {"result": said}


@dataclass(frozen=True)
class Copy:
    """The result of a copy and of the comparison. `since`: rows written to the source after the copy began.

    `removed`: memories that the target held before and that were removed from it, as they were removed at the source.
    """

    arrivals: IngestResult
    removed: int
    history: int | None
    themes: Sequence[Compared]
    since: int
    vectors_fit: bool

    @property
    def verified(self) -> bool:
        """Return whether the target holds every row that the source held when the copy began."""
        return all(each.fits for each in self.themes)

    def as_json(self) -> dict[str, Any]:
        """Return the whole result as JSON."""
        return self.arrivals.as_json() | {
            "removed": self.removed,
            "history": self.history,
            "themes": [each.as_row() for each in self.themes],
            "written_meanwhile": self.since,
            "verified": self.verified,
        }


@dataclass(frozen=True)
class CopyRequest:
    """The source and target of a copy, and the themes to copy (all if none is named). `really`: False is a dry run."""

    source: DeadlineConnection
    target: DeadlineConnection
    settings: Settings
    rules: ThemeRules
    themes: Sequence[str] = field(default_factory=tuple)
    really: bool = True


def copy(request: CopyRequest) -> Copy:
    """Copy and compare. An interrupted copy can be run again: rows that are there already are skipped.

    A dry run counts what would arrive and what would be removed at the target, and compares nothing.

    Raises ConfigurationError if both are the same database, if the target's role may not write a theme, or if the
    target holds rows under a name that their theme no longer has at the source.
    """
    source, target = request.source, request.target
    with translated():
        know_vectors(source)
        know_vectors(target)
        if identity(source) == identity(target):
            raise one_database()
        with source.transaction():
            space = export_rows.begin(source)
            names = themes_meant(source, request.themes, request.rules)
            _require_rights(target, names)
            _require_same_names(source, target, names)
            before = _written(source, names)
            fits = _fits(space, recorded_space(target))
            kept = reserve(source, target, names, request.themes, before) if request.really else None
            # First: what took the place of a removed text has its number.
            removed = _copy_removals(request, names) if request.really else 0
            with progress("copied", sum(rows_of(source, name) for name in names)) as advance:
                arrivals = _copy_rows(request, names, space, kept, advance)
            if kept is None:
                gone = sum(store.count_removals(source, target, name) for name in names)
                return Copy(arrivals, gone, None, (), 0, fits)
            history = _copy_traces(request, names, kept)
            moved = moved_themes(target)
            compared = [_compare(source, target, name, moved) for name in names]
        # Also of themes that began meanwhile.
        written = _written(source, names if request.themes else themes_meant(source, (), request.rules))
        with target.transaction():
            done = arrivals.for_log() | ({"removed": removed} if removed else {})
            record_where_allowed(target, "copy", {"themes": list(request.themes)}, done)
    return Copy(arrivals, removed, history, compared, max(0, written - before), fits)


def one_database() -> ConfigurationError:
    """Return the error that source and target are one database."""
    return ConfigurationError(
        "both are the same database: name another one; if this home was switched to it before, what is still "
        f"in the other one comes with: {typed('hermes-pgvector copy --from OLD_DSN')}"
    )


def _require_rights(target: DeadlineConnection, names: Sequence[str]) -> None:
    """Raise ConfigurationError if row-level security keeps the target's role from a theme that is to be copied."""
    own = own_themes(target)
    if lacking := " ".join(quote(name) for name in names if lacks(own, name)):
        role = quote(role_of(target))
        raise ConfigurationError(
            f"row-level security does not give the role {role} of the target these themes: {lacking}; nothing was "
            f"copied; an admin grants them: hermes-pgvector tenants grant {role} {lacking} --admin-dsn DSN, DSN being "
            "the target's, or copies with --admin-dsn; or name the themes to copy: --theme"
        )


def _require_same_names(source: DeadlineConnection, target: DeadlineConnection, names: Sequence[str]) -> None:
    """Raise ConfigurationError if rows that an earlier copy brought would be brought again under their new name."""
    moved_there = moved_themes(target)
    for old, new in [(old, new) for old, places in moved_themes(source).items() for new in places]:
        if new not in names or new in moved_there.get(old, ()) or not rows_of(target, old):
            continue
        if store.are_under(source, target, new, old):
            verb = "merge" if rows_of(target, new) else "rename"
            command = typed(f"hermes-pgvector themes {verb} {quote(old)} {quote(new)} --yes --admin-dsn DSN")
            raise ConfigurationError(
                f"{old!r} was renamed to {new!r} at the source, or merged into it, and the target still has rows of it "
                f"as {old!r}, which would be there twice; nothing was copied; first have the same done there, DSN "
                f"being the target's: {command}"
            )


def _fits(source: EmbeddingSpace, target: EmbeddingSpace) -> bool:
    """Return whether the vectors can be copied as well; a target without a model adopts the source's."""
    return source.dims == target.dims and (not target.model or source.comparable(target))


def _copy_rows(
    request: CopyRequest,
    names: Sequence[str],
    space: EmbeddingSpace,
    kept: KeptNumbers | None,
    advance: Callable[[int], None],
) -> IngestResult:
    def leaving() -> Iterator[Record]:
        for name in names:
            for kind in STORES:
                yield from export_rows.rows(request.source, name, kind, TimeRange(), vectors=bool(space.model))

    intake = IngestOptions(
        request.settings,
        request.rules,
        origin="copy",
        space=space if space.model else None,
        adopt=True,
        restore=False,
        really=request.really,
        kept=kept,
    )
    return take_in(request.target, leaving(), intake, advance)


def _copy_removals(request: CopyRequest, names: Sequence[str]) -> int:
    """Return how many memories were removed from the target."""
    removed = 0
    for name in names:
        with request.target.transaction():
            note_actor(request.target, operator("copy"))
            removed += store.copy_removals(request.source, request.target, name)
    return removed


def _copy_traces(request: CopyRequest, names: Sequence[str], kept: KeptNumbers) -> int | None:
    """Return the number of copied history entries; None without the right to copy any."""
    history = 0
    allowed = store.may_copy_history(request.target)
    for name in names:
        with request.target.transaction():
            note_actor(request.target, operator("copy"))
            store.copy_traces(request.source, request.target, name)
            if allowed:
                history += store.copy_history(request.source, request.target, name, kept)
    return history if allowed else None


def _compare(
    source: DeadlineConnection, target: DeadlineConnection, theme: str, moved: Mapping[str, Sequence[str]]
) -> Compared:
    here = {kind: export_rows.fingerprint(source, theme, kind) for kind in STORES}
    there = {kind: export_rows.fingerprint(target, theme, kind) for kind in STORES}
    differing = [kind for kind in STORES if here[kind] != there[kind]]
    missing = sum(store.missing(source, target, theme, kind, moved) for kind in differing)
    *_, last = (None, *moved.get(theme, ()))
    return Compared(theme, last, _rows(here.values()), _rows(there.values()), not differing, missing)


def _rows(fingerprints: Iterable[Fingerprint]) -> int:
    return sum(each.rows for each in fingerprints)


def _written(conn: DeadlineConnection, names: Sequence[str]) -> int:
    return sum(rows_of(conn, name) for name in names)
