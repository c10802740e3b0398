"""Brings what was said and noted before, from the host and from other memory providers, with its own times."""

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

# Live capture notes when a turn ended, the host when each message was written: a long turn lies between the two.
NEAR_S: Final = 6 * 3600.0


@dataclass
class ThemeShare:
    """What of a source goes to one theme, what is there already counted as well; and from when to when that is."""

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
    """What became of one source."""

    where: str
    tally: SourceTally
    arrivals: IngestResult
    shares: dict[str, ThemeShare]

    def skipped(self) -> dict[str, int]:
        """Return how many were left out, by reason, the commonest first."""
        return dict((self.tally.skipped + self.arrivals.skipped).most_common())

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines."""
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
    """What became of all sources; `failed` says of those that could not be read why, `really` False only counted."""

    really: bool
    brought: list[SourceReport] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {"done": self.really, "sources": [each.as_json() for each in self.brought], "failed": self.failed}


def bring(
    conn: DeadlineConnection,
    name: str,
    sources: Sequence[Source],
    intake: IngestOptions,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Report:
    """Take in every source; one that cannot be read does not keep the others out. `until` is exclusive.

    What is there already is left alone, so that a run may be repeated, and one that was interrupted goes on.
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
