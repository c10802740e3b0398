"""Reads the folder of a local collection of qdrant-client, without that package and without executing pickled code.

A point is a pickled object, of which only plain values are unpickled: any other class that a file names is rejected.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....domain.errors import ConfigurationError
from .sqlite_file import read_only

EXPECTED = "the storage of a local collection of qdrant-client"
_POINT = ("qdrant_client.http.models.models", "PointStruct")
_FAULTS = (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, MemoryError)


class _Point:
    """A stand-in for a point that only stores its state."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.fields = state.get("__dict__") or {}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == _POINT:
            return _Point
        raise pickle.UnpicklingError(f"names {module}.{name}")


def collections(folder: Path) -> list[str]:
    """Return the names of the collections in a folder. Raises ConfigurationError if it is not one of qdrant-client."""
    try:
        found = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        return sorted(found["collections"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as exc:
        raise ConfigurationError(
            f"{folder} is no folder of qdrant-client: its meta.json cannot be read ({exc})"
        ) from exc


def count(folder: Path, collection: str) -> int:
    """Return the number of points in a collection."""
    with read_only(_storage(folder, collection), EXPECTED) as file:
        file.demand("points", "id", "point")
        return file.count("points")


def payloads(folder: Path, collection: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield the id and payload of each point; the payload is None if the point cannot be read."""
    with read_only(_storage(folder, collection), EXPECTED) as file:
        file.demand("points", "id", "point")
        for row in file.paged("points", ("id", "point")):
            try:
                point = _Unpickler(io.BytesIO(row["point"])).load()
            except _FAULTS:
                yield str(row["id"]), None
                continue
            fields = point.fields if isinstance(point, _Point) else {}
            payload = fields.get("payload")
            yield str(fields.get("id", row["id"])), payload if isinstance(payload, dict) else None


def _storage(folder: Path, collection: str) -> Path:
    return folder / "collection" / collection / "storage.sqlite"
