"""The file that `export` writes and `import` reads: JSON Lines with a header, a trailer and a checksum.

docs/moving.md describes it. Version 1 may gain fields; a change that older programs cannot read gets a new version.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ...domain.errors import ConfigurationError, InvalidArgument
from ...domain.text import steers_terminal
from ...domain.types import BY_IMPORT, TARGETS, EmbeddingSpace, Removed
from .records import MemoryRecord, Part, Record, TurnRecord, read_said, said_as_json, time_flaw

FORMAT = "hermes-memory-pgvector"
VERSION = 1
MAX_LINE_BYTES = 256 * 1024 * 1024
_MEMORY_FIELDS = (
    "theme",
    "target",
    "content",
    "created_at",
    "updated_at",
    "metadata",
    "embedding",
    "parts",
    "structure",
    "in_file",
)
_TURN_FIELDS = ("theme", "session_id", "role", "content", "ts", "metadata", "embedding", "parts")


@dataclass(frozen=True)
class Header:
    """The first line: format, origin and requested content. `themes` is None for all themes that the role could see."""

    space: EmbeddingSpace
    vectors: bool
    themes: Sequence[str] | None
    since: str | None
    until: str | None
    made_at: str
    made_by: str

    def line(self) -> bytes:
        """Return the header as a line of the file."""
        return _line(
            {
                "format": FORMAT,
                "version": VERSION,
                "made_at": self.made_at,
                "made_by": self.made_by,
                **asdict(self.space),
                "vectors": self.vectors,
                "themes": self.themes,
                "since": self.since,
                "until": self.until,
            }
        )


def read_header(line: bytes) -> Header:
    """Return the header of a file. Raises ConfigurationError if it is none, or of a version that we cannot read."""
    found = _object(line)
    if found is None or found.get("format") != FORMAT:
        raise ConfigurationError(
            "this is no export of hermes-memory-pgvector: its first line is no header; the history of other programs "
            "comes in with: hermes-pgvector bring"
        )
    if found.get("version") != VERSION:
        raise ConfigurationError(
            f"this export is of format version {found.get('version')!r}, and this program reads version {VERSION}: "
            "use the program's version that wrote it, or a newer one"
        )
    return Header(
        _header_space(found),
        bool(found.get("vectors")),
        found.get("themes"),
        found.get("since"),
        found.get("until"),
        str(found.get("made_at") or ""),
        str(found.get("made_by") or ""),
    )


def _header_space(header: Mapping[str, Any]) -> EmbeddingSpace:
    try:
        return EmbeddingSpace(
            str(header.get("model") or ""),
            int(header.get("dims") or 0),
            str(header.get("document_prefix") or ""),
            str(header.get("query_prefix") or ""),
        )
    except (TypeError, ValueError) as exc:
        raise ConfigurationError(f"the header of this export is damaged: dims is {header.get('dims')!r}") from exc


@dataclass(frozen=True)
class Trailer:
    """The last line: the number of lines of each kind before it, and the sha256 of all bytes before it."""

    counts: Mapping[str, int]
    sha256: str

    def line(self) -> bytes:
        """Return the trailer as a line of the file."""
        return _line({"end": True, **self.counts, "sha256": self.sha256})


def read_trailer(line: bytes) -> Trailer | None:
    """Return the trailer, or None if this line is not one."""
    if not line.startswith(b'{"end"'):
        return None
    found = _object(line) or {}
    counts = {key: value for key, value in found.items() if isinstance(value, int) and key != "end"}
    return Trailer(counts, str(found.get("sha256") or ""))


class Checksum:
    """The sha256 of all lines added so far."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> bytes:
        """Add a line to the checksum; return the line."""
        self._digest.update(line)
        return line

    def hex(self) -> str:
        """Return the checksum so far."""
        return self._digest.hexdigest()


# -- rows


def row_line(record: Record) -> bytes:
    """Return the line of a memory or a turn in the file."""
    if isinstance(record, MemoryRecord):
        row: dict[str, Any] = {
            "store": "memories",
            "theme": record.theme,
            "target": record.target,
            "content": record.content,
            "created_at": record.created_at.isoformat(),
            "updated_at": record.updated_at.isoformat(),
        }
        if said := said_as_json(record.said):
            row["structure"] = said
        if not record.owners:
            row["in_file"] = True
    else:
        row = {
            "store": "turns",
            "theme": record.theme,
            "session_id": record.session_id,
            "role": record.role,
            "content": record.content,
            "ts": record.ts.isoformat(),
        }
    row["metadata"] = dict(record.metadata)
    if record.embedding is not None:
        row["embedding"] = _floats_text(record.embedding)
        if record.parts:
            row["parts"] = [[part.first_char, _floats_text(part.vector)] for part in record.parts]
    return _line(row)


def removed_line(removed: Removed) -> bytes:
    """Return the line of a removed memory in the file."""
    row = {
        "store": "removed",
        "theme": removed.theme,
        "target": removed.target,
        "sha256": removed.digest.hex(),
        "removed_at": removed.removed_at.isoformat(),
    }
    return _line(row)


def read_row(line: bytes, number: int) -> Record | Removed:
    """Return the record in a line of the file. Unknown fields are kept in the metadata.

    Raises InvalidArgument, which names the fault but quotes no content.
    """
    row = _object(line)
    if row is None:
        raise InvalidArgument("it is no JSON object")
    kind, where = row.pop("store", None), f"line {number}"
    try:
        match kind:
            case "memories":
                metadata = _metadata(row, _MEMORY_FIELDS)
                return MemoryRecord(
                    _text(row, "theme"), _text(row, "target"), _text(row, "content"), _time(row, "created_at"),
                    _time(row, "updated_at"), metadata, _floats(row.get("embedding")), _parts(row), where,
                    in_file=row.get("in_file") is True, said=read_said(row.get("structure")),
                )  # fmt: skip
            case "turns":
                metadata = _metadata(row, _TURN_FIELDS)
                return TurnRecord(
                    _text(row, "theme"), _text(row, "session_id"), _text(row, "role"), _text(row, "content"),
                    _time(row, "ts"), metadata, _floats(row.get("embedding")), _parts(row), where,
                )  # fmt: skip
            case "removed":
                digest = bytes.fromhex(_text(row, "sha256"))
                if len(digest) != hashlib.sha256().digest_size:
                    raise InvalidArgument("its sha256 is of another length")
                if (target := _text(row, "target")) not in TARGETS:
                    raise InvalidArgument("its target is neither memory nor user")
                if flaw := time_flaw(removed_at := _time(row, "removed_at")):
                    raise InvalidArgument(flaw)
                return Removed(_text(row, "theme"), target, digest, removed_at, BY_IMPORT)
    except (ValueError, OverflowError, binascii.Error, TypeError) as exc:
        raise InvalidArgument("one of its fields cannot be read") from exc
    raise InvalidArgument("it is of a kind that this version does not know")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _line(row: Mapping[str, Any]) -> bytes:
    line = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    if not line.isprintable():  # an export may be written to a terminal, or read on one
        for each in filter(steers_terminal, set(line)):
            line = line.replace(each, json.dumps(each)[1:-1])
    # A lone surrogate cannot come from Postgres, which would not accept it back either.
    return line.encode("utf-8", "replace") + b"\n"


def _text(row: Mapping[str, Any], key: str) -> str:
    if not isinstance(value := row.get(key), str):
        raise InvalidArgument(f"its {key} is missing" if value is None else f"its {key} is no text")
    return value


def _time(row: Mapping[str, Any], key: str) -> datetime:
    try:
        return datetime.fromisoformat(_text(row, key))
    except ValueError as exc:
        raise InvalidArgument(f"its {key} is no time") from exc


def _metadata(row: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    given = row.get("metadata") or {}
    if not isinstance(given, dict):
        raise InvalidArgument("its metadata is no JSON object")
    return {key: value for key, value in row.items() if key not in known and key != "id"} | given


def _parts(row: Mapping[str, Any]) -> tuple[Part, ...]:
    return tuple(Part(int(first), _vector(text)) for first, text in row.get("parts") or ())


def _floats(text: object) -> array[float] | None:
    return None if text is None else _vector(text)


def _vector(text: object) -> array[float]:
    if not isinstance(text, str):
        raise InvalidArgument("its embedding is not base64")
    floats = array("f", base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def _floats_text(given: Sequence[float]) -> str:
    floats = array("f", given)
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()
