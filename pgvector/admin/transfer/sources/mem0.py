"""The stores of Mem0: a local folder of qdrant, a Postgres table, or its own history of changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....domain.errors import ConfigurationError
from ....domain.redaction import mask_dsn
from ..foreign_database import foreign
from ..records import MemoryRecord
from . import qdrant
from .source import Home, ImportDestination, SourceTally, at_iso, memory_of
from .sqlite_file import read_only

COLLECTION = "mem0"  # the default name in Mem0 and hermes-agent
HISTORY = "the history of Mem0 (history.db, as of mem0ai 2.2)"
TABLE = "the table of a collection of Mem0 (as of mem0ai 2.2)"
_HISTORY = ("memory_id", "new_memory", "event", "created_at", "updated_at", "is_deleted", "actor_id", "role")
_KEPT = ("user_id", "agent_id", "run_id", "actor_id", "role", "channel")
Fact = tuple[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class Mem0Settings:
    """The store that hermes-agent's mem0.json names: `path` of a local folder, or `dsn`."""

    path: Path | None
    dsn: str
    collection: str


def configured(home: Home) -> Mem0Settings | None:
    """Return the settings in a profile's mem0.json; None if there is no such file.

    Raises ConfigurationError if it names a store that is not on this host, or cannot be read.
    """
    file = home.path / "mem0.json"
    if not file.exists():
        return None
    store = _vector_store(file)
    given = _object(store.get("config"))
    collection = str(given.get("collection_name") or COLLECTION)
    match store.get("provider"):
        case "qdrant" if given.get("path"):
            return Mem0Settings(Path(str(given["path"])).expanduser(), "", collection)
        case "pgvector":
            names = ("host", "port", "user", "password", "dbname", "sslmode")
            pairs = [f"{name}={_quoted(given[name])}" for name in names if given.get(name)]
            return Mem0Settings(None, str(given.get("connection_string") or " ".join(pairs)), collection)
        case _:
            raise ConfigurationError(
                f"{file} names no store that can be read here (mode oss with a local qdrant `path`, or pgvector); what "
                "is in Mem0's cloud is exported there, the facts of another store are in Mem0's history.db: --path FILE"
            )


def _vector_store(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise ConfigurationError(f"{file} cannot be read: {exc}") from exc
    oss = _object(found.get("oss")) if isinstance(found, dict) and found.get("mode") == "oss" else {}
    return _object(oss.get("vector_store"))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Mem0Store:
    """The facts of one store: at `path` a folder of qdrant or a history.db, or the table `collection` at `dsn`."""

    home: Home
    destination: ImportDestination
    path: Path | None = None
    dsn: str = ""
    schema: str = "public"
    collection: str = COLLECTION

    @property
    def where(self) -> str:
        """Return the folder, file or database, and the collection."""
        return str(self.path) if self.path is not None else f"{mask_dsn(self.dsn)} ({self.collection})"

    def total(self) -> int:
        """Return the number of facts, or of entries in the history."""
        if self.path is None:
            with foreign(self.dsn, self.schema, TABLE) as database:
                database.demand(self.collection, "id", "payload")
                return database.count(self.collection)
        if self.path.is_dir():
            return qdrant.count(self.path, self._known_collection(self.path))
        with read_only(self.path, HISTORY) as file:
            file.demand("history", *_HISTORY[:6])
            return file.count("history")

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield a memory for each fact, with its owner in the metadata; vectors are left out and computed again."""
        for name, payload in self._facts(tally):
            tally.read += 1
            where = f"fact {name}"
            if payload is None:
                tally.skip("cannot be read", where)
                continue
            updated = at_iso(payload.get("updated_at"))
            created = at_iso(payload.get("created_at")) or updated
            words = {
                "platform": payload.get("channel") or "",
                "agent_identity": self.home.profile,
                "user_id": payload.get("user_id"),
            }
            target = self.destination.of_memory(words)
            metadata: dict[str, object] = {key: payload.get(key) for key in _KEPT}
            metadata |= {"source": "import:mem0", "mem0_id": name, "profile": self.home.profile}
            yield from memory_of(payload.get("data"), created, updated, target, metadata, tally, where)

    def _facts(self, tally: SourceTally) -> Iterator[Fact]:
        if self.path is None:
            with foreign(self.dsn, self.schema, TABLE) as database:
                database.demand(self.collection, "id", "payload")
                for row in database.rows("mem0_points", table=self.collection):
                    yield str(row.id), row.payload if isinstance(row.payload, dict) else None
        elif self.path.is_dir():
            yield from qdrant.payloads(self.path, self._known_collection(self.path))
        else:
            yield from self._latest(self.path, tally)

    def _known_collection(self, folder: Path) -> str:
        known = qdrant.collections(folder)
        if self.collection not in known:
            raise ConfigurationError(
                f"{folder} has no collection {self.collection}; it has {', '.join(known) or 'none'}: --collection NAME"
            )
        return self.collection

    def _latest(self, path: Path, tally: SourceTally) -> Iterator[Fact]:
        """Yield the last version of each fact, without deleted ones. A history does not say whose the facts were."""
        latest: dict[str, dict[str, Any]] = {}
        with read_only(path, HISTORY) as file:
            file.demand("history", *_HISTORY[:6])
            for row in file.paged("history", _HISTORY):
                before = latest.pop(row["memory_id"], {})
                row["created_at"] = before.get("created_at") or row["created_at"]
                latest[row["memory_id"]] = row
        for name, row in latest.items():
            if row["is_deleted"] or row["event"] == "DELETE" or row["new_memory"] is None:
                tally.read += 1
                tally.skip("deleted there", f"fact {name}")
            else:
                yield name, row | {"data": row["new_memory"]}


def _quoted(value: object) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
