"""The SQLite files of Holographic: how many facts they hold, which, and how to fill one at once.

    python -P facts.py FOLDER        JSON lines in: {"theme": THEME, "text": TEXT}; in the environment of that product

Its own `add_fact` writes each fact. But for every fact it sums up the vectors of all, which takes hours for some ten
thousand; here it does so once, when all are there. Nor is the vector of a word computed twice.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

_WORDS = 50_000  # whose vectors of 8 kB are kept
_COUNT = "SELECT count(*), count(hrr_vector) FROM facts"


def counted(folder: Path) -> tuple[int, int]:
    """The facts of all files of a folder, and those that have a vector."""
    counts = [_asked(path, _COUNT)[0] for path in folder.glob("*.db")]
    return sum(count[0] for count in counts), sum(count[1] for count in counts)


def texts(folder: Path, theme: str) -> dict[int, str]:
    """Every fact of a theme by its id."""
    return dict(_asked(folder / f"{theme}.db", "SELECT fact_id, content FROM facts"))


def _asked(path: Path, statement: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as conn:
        try:
            return conn.execute(statement).fetchall()
        except sqlite3.OperationalError:  # the product has not made its tables yet
            return [(0, 0)]


def main() -> None:
    """Fill the files, and sum up each."""
    from plugins.memory.holographic import holographic
    from plugins.memory.holographic.store import MemoryStore

    holographic.encode_atom = lru_cache(_WORDS)(holographic.encode_atom)
    stores: dict[str, Any] = {}
    rebuild = MemoryStore._rebuild_bank
    MemoryStore._rebuild_bank = lambda store, category: None
    for line in sys.stdin:
        fact = json.loads(line)
        if (store := stores.get(fact["theme"])) is None:
            store = stores[fact["theme"]] = MemoryStore(Path(sys.argv[1], f"{fact['theme']}.db"))
            store._conn.execute("PRAGMA synchronous = OFF")
        store.add_fact(fact["text"])
    for store in stores.values():
        rebuild(store, "general")
        store.close()


if __name__ == "__main__":
    main()
