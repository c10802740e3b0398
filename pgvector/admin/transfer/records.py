"""Records of memories and turns that move between databases, files and other programs, where row ids differ.

A replaced memory is therefore identified by its target and the digest of its text, and a source turn by its session,
role, time and digest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ...capture.sanitize import Sanitizer
from ...domain.errors import HermesPgvectorError, InvalidArgument
from ...domain.facts import PLAIN, SOURCES_MOST, Structure, parse_notation, structure_of

_DIGEST_BYTES = 32


class SourceTurn(NamedTuple):
    """The identity of a turn that a memory was taken from."""

    session_id: str
    role: str
    ts: datetime
    digest: bytes


class ReplacedMemory(NamedTuple):
    """The identity of a memory that another memory of the same theme replaced."""

    target: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Said:
    """The structure of one memory, with links to other rows that do not use row ids.

    An `assumed` kind is for a memory that has none yet.
    """

    structure: Structure = PLAIN
    replaced: ReplacedMemory | None = None
    sources: tuple[SourceTurn, ...] = ()
    assumed: bool = False

    def links(self) -> bool:
        """Return whether the memory links to other rows."""
        return self.replaced is not None or bool(self.sources)


NOTHING_SAID = Said()


def read_said(given: object) -> Said:
    """Return the structure in a JSON object. Raises InvalidArgument, which names the fault but quotes no content."""
    if given is None:
        return NOTHING_SAID
    if not isinstance(given, Mapping):
        raise InvalidArgument("its structure is no JSON object")
    plain = {key: value for key, value in given.items() if key not in ("replaces", "sources", "closes", "obsoletes")}
    try:
        structure = structure_of(plain)
        replaced = given.get("replaces")
        sources = given.get("sources") or ()
        if len(sources) > SOURCES_MOST:
            raise InvalidArgument("it names too many sources")
        return Said(structure, None if replaced is None else _replaced(replaced), tuple(map(_source, sources)))
    except (HermesPgvectorError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise InvalidArgument("its structure cannot be read") from exc


def readable_said(given: Mapping[str, Any]) -> Said:
    """Return the structure in a JSON object without what `read_said` cannot read: SQL of others may have stored it."""
    kept = {}
    for name, value in given.items():
        with suppress(InvalidArgument):
            read_said({name: value})
            kept[name] = value
    return read_said(kept)


def said_as_json(said: Said) -> dict[str, Any]:
    """Return a structure in the form that `read_said` reads; an empty one gives an empty object."""
    row = said.structure.said()
    if said.structure.expires_at is not None:
        row["expires_at"] = datetime.fromtimestamp(said.structure.expires_at, UTC).isoformat()
    if said.replaced is not None:
        row["replaces"] = {"target": said.replaced.target, "sha256": said.replaced.digest.hex()}
    if said.sources:
        row["sources"] = [
            {
                "session_id": each.session_id,
                "role": each.role,
                "ts": each.ts.isoformat(),
                "sha256": each.digest.hex(),
            }
            for each in said.sources
        ]
    return row


def as_stored(said: Said, content: str, keep: Sanitizer, session: Callable[[str], str]) -> Said:
    """Return the structure as stored: notation in the text parsed, secrets masked, session names in stored form."""
    own = Structure(**keep.structure(said.structure.said(), Counter()))
    structure = own.over(parse_notation(content))
    assumed = structure.kind is None
    if structure.kind or structure.subject:
        structure = structure.settled()
    sources = tuple(each._replace(session_id=session(each.session_id)) for each in said.sources)
    return replace(said, structure=structure, sources=sources, assumed=assumed and structure.kind is not None)


def _replaced(given: Mapping[str, Any]) -> ReplacedMemory:
    return ReplacedMemory(str(given["target"]), _digest(given["sha256"]))


def _source(given: Mapping[str, Any]) -> SourceTurn:
    ts = datetime.fromisoformat(given["ts"])
    if ts.tzinfo is None:
        raise InvalidArgument("the time of a source has no zone")
    return SourceTurn(str(given["session_id"]), str(given["role"]), ts, _digest(given["sha256"]))


def _digest(given: str) -> bytes:
    found = bytes.fromhex(given)
    if len(found) != _DIGEST_BYTES:
        raise InvalidArgument("a sha256 is of another length")
    return found


_FIRST_YEAR, _LAST_YEAR = 2, 9998


class NotedEntry(NamedTuple):
    """An entry of a host's memory file when it was last read; `elsewhere`: only sessions of other themes wrote it."""

    noted_at: datetime
    elsewhere: bool


class Part(NamedTuple):
    """The vector of the part of a long text that begins at character `first_char`."""

    first_char: int
    vector: Sequence[float]


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A durable memory. `target` is memory or user; the times have a zone.

    `embedding` is the vector of the text, or of the beginning of a long text; `parts` are the vectors of the rest.
    `owners` keep the memory besides the hosts' memory files. `in_file`: a memory file that the agents of its theme read
    owns it, so the import does not become an owner. `said`: its structure.
    `where` tells a person where the record was read, such as "line 12"; it is not stored. `number`: the id that the row
    has in the database that it is copied from, otherwise 0.
    """

    theme: str
    target: str
    content: str
    created_at: datetime
    updated_at: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedding: Sequence[float] | None = None
    parts: tuple[Part, ...] = ()
    where: str = ""
    owners: tuple[str, ...] = ()
    in_file: bool = False
    said: Said = NOTHING_SAID
    number: int = 0


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn. `role` is user, assistant, system or tool; `ts` has a zone; the other fields are as in MemoryRecord."""

    theme: str
    session_id: str
    role: str
    content: str
    ts: datetime
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedding: Sequence[float] | None = None
    parts: tuple[Part, ...] = ()
    where: str = ""
    number: int = 0


Record = MemoryRecord | TurnRecord


def time_flaw(time: datetime) -> str:
    """Return why a time cannot be stored and read back in every time zone, or "" if it can."""
    if time.tzinfo is None:
        return "its time has no zone"
    return "" if _FIRST_YEAR <= time.year <= _LAST_YEAR else "its time is none of the years 2 to 9998"
