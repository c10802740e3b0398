"""Imports earlier conversations and notes, with their original times, from the host and other memory providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection, translated
from ..common.operators import record_where_allowed as log
from ..common.outcome import fit_for_json
from ..common.progress import progress
from .float_arrays import know_vectors
from .ingest import IngestOptions, IngestResult, take_in
from .records import MemoryRecord, Record
from .sources.source import Source, SourceTally

# Live capture records when a turn ended, the host when each message was written: the two differ by a whole turn.
NEAR_S: Final = 6 * 3600.0


@dataclass
class ThemeShare:
    """The records of a source for one theme, including those already stored, and the period that they span."""

    memories: int = 0
    turns: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def note(self, record: Record) -> None:
        """Count a record."""
        if isinstance(record, MemoryRecord):
            self.memories += 1
        else:
            self.turns += 1
        at = _time_of(record)
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)


@dataclass(frozen=True)
class SourceReport:
    """The result of importing one source."""

    where: str
    tally: SourceTally
    arrivals: IngestResult
    shares: dict[str, ThemeShare]

    def skipped(self) -> dict[str, int]:
        """Return how many records were left out, by reason, the most frequent first."""
        return dict((self.tally.skipped + self.arrivals.skipped).most_common())

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as JSON."""
        return self.arrivals.as_json() | {
            "where": self.where,
            "read": self.tally.read,
            "skipped": self.skipped(),
            "examples": [*self.tally.examples, *self.arrivals.examples],
            "themes": {
                theme: fit_for_json(asdict(share)) | {"added": self.arrivals.themes[theme]}
                for theme, share in sorted(self.shares.items())
            },
        }


@dataclass
class Report:
    """The results of all sources. `failed`: the reason for each that could not be read. `really` False: a dry run."""

    really: bool
    brought: list[SourceReport] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def refused(self) -> int:
        """Return how many records Postgres would not take."""
        return sum(each.arrivals.refused for each in self.brought)

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as JSON."""
        return {"done": self.really, "sources": [each.as_json() for each in self.brought], "failed": self.failed}


def bring(
    conn: DeadlineConnection,
    name: str,
    sources: Sequence[Source],
    intake: IngestOptions,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Report:
    """Import every source; one that cannot be read does not stop the others. `until` is exclusive.

    Records that are stored already are skipped, so a run may be repeated, and an interrupted one resumes.
    Raises StoreUnavailable for our own database.
    """
    report = Report(intake.really)
    with translated():
        know_vectors(conn)
    for source in sources:
        try:
            report.brought.append(_bring_one(conn, source, intake, since, until))
        except ConfigurationError as exc:
            report.failed[source.where] = str(exc)
            continue
        report.failed |= report.brought[-1].tally.failed
        counts = report.brought[-1].arrivals.counts()
        if intake.really and report.brought[-1].arrivals.added:
            with translated(), conn.transaction():
                log(conn, f"bring {name}", {"from": source.where}, counts)
    return report


def _bring_one(
    conn: DeadlineConnection, source: Source, intake: IngestOptions, since: datetime | None, until: datetime | None
) -> SourceReport:
    tally = SourceTally()
    shares: dict[str, ThemeShare] = {}
    with progress("read", source.total()) as advance:

        def watched() -> Iterator[Record]:
            told = 0
            for record in source.records(tally):
                at = _time_of(record)
                if (since is not None and at < since) or (until is not None and at >= until):
                    tally.skip("outside the period")
                    continue
                shares.setdefault(record.theme, ThemeShare()).note(record)
                yield record
                if tally.read != told:
                    advance(tally.read - told)
                    told = tally.read

        arrivals = take_in(conn, watched(), intake)
    return SourceReport(source.where, tally, arrivals, shares)


def _time_of(record: Record) -> datetime:
    return record.created_at if isinstance(record, MemoryRecord) else record.ts
