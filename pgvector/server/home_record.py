"""The record in a hermes home of its embedded Postgres: where the server was, and where the home itself was then.

The server's directory is derived from the paths of the home and of the user's data, and those change: a home is moved,
or a variable is set in one shell only.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..config.sources import read_cached
from ..domain.files import note_text, read_regular_file

EMBEDDED_PLACE = "the embedded Postgres"
ORIGIN = Path("pgvector", "origin")  # in the home: a random name, which a copy of the home has as well
# In the home: which database was last found at each place, the place that was used last at its end.
DATABASES = Path("pgvector", "databases.json")


class HomeRecord(NamedTuple):
    """The path of a home, and the directory of its server."""

    home: Path
    server: Path


def path_in(home: Path, *, chosen: bool = False) -> Path:
    """Return the path of the record's file; with `chosen` that for a directory which the settings name."""
    return home / "pgvector" / ("embedded_dir.json" if chosen else "embedded.json")


def recorded(home: Path, *, chosen: bool = False) -> HomeRecord | None:
    """Return the home's record; None if there is none that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return read_cached(path_in(home, chosen=chosen), _parse)
    return None


def _parse(raw: bytes) -> HomeRecord | None:
    found = json.loads(raw)
    record = HomeRecord(Path(found["home"]), Path(found["server"]))
    return record if record.server.is_absolute() else None


def record(home: Path, server: Path, *, chosen: bool = False) -> None:
    """Write the record if it changes anything; a home that is not there or cannot be written goes without one."""
    now = HomeRecord(home, server)
    if recorded(home, chosen=chosen) == now or not home.is_dir():
        return
    note_text(path_in(home, chosen=chosen), json.dumps({"home": str(home), "server": str(server)}) + "\n")


def copied_from(home: Path) -> Path | None:
    """Return the home that this one is a copy of; None if it is none, or was moved here from where the record says."""
    before = recorded(home)
    return before.home if before is not None and is_copy(home, before.home) else None


def is_copy(home: Path, original: Path) -> bool:
    """Return whether a home is another one than its record says, and that one is still there."""
    if _is_at(home, original) or not os.path.exists(original):
        return False
    # A home that was made anew where this one was before has another mark, or none.
    return _mark(home) in (b"", _mark(original))


def _is_at(home: Path, place: Path) -> bool:
    """Return whether the home is found there, also under another name, as where a folder is mounted twice."""
    with suppress(OSError):
        return home == place or os.path.samefile(home, place)
    return False


def _mark(home: Path) -> bytes:
    with suppress(OSError):
        return read_regular_file(home / ORIGIN)
    return b""


def has_data(server: Path) -> bool:
    """Return whether a server was made in this directory; an empty folder is what is left where a volume is missing."""
    data = server / "data"
    try:
        return bool(os.listdir(data))
    except OSError:  # a folder that may not be read is there
        return os.path.exists(data)


def is_hidden(server: Path) -> bool:
    """Return whether this user cannot tell if a server was made in this directory, as where another user owns it."""
    try:
        os.stat(server / "data")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return False


def last_server(home: Path) -> str:
    """Return the place of the server that has the home's memory; empty if it is the embedded one, or none is known."""
    last = _last_place(home)
    return "" if last == EMBEDDED_PLACE else last


def is_embedded(home: Path) -> bool:
    """Return whether the home's memory is known to be in the embedded server."""
    return _last_place(home) == EMBEDDED_PLACE


def _last_place(home: Path) -> str:
    with suppress(OSError, ValueError):
        return read_cached(home / DATABASES, _last_of) or ""
    return ""


def _last_of(raw: bytes) -> str:
    places = json.loads(raw)
    return str(next(reversed(places), "")) if isinstance(places, dict) else ""


def note_embedded(home: Path) -> None:
    """Record that the embedded server has the home's memory from now on, as an operator has said."""
    with suppress(OSError, ValueError, TypeError):
        places = dict(json.loads(read_regular_file(home / DATABASES)))
        database = places.pop(EMBEDDED_PLACE, "")
        note_text(home / DATABASES, json.dumps(places | {EMBEDDED_PLACE: database}, indent=1))


def knows_only_servers(home: Path) -> bool:
    """Return True when the home says which databases it has used, and the embedded one is none of them."""
    with suppress(OSError, ValueError):
        found = json.loads(read_regular_file(home / DATABASES))
        return bool(found) and EMBEDDED_PLACE not in found
    return False
