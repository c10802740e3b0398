#!/usr/bin/env python3
"""Writes into each migration the checksum that it records in the database.

The checksum is the sha256 of the file with its own 64 hexadecimal digits counted as zeros, so that plain `psql -f`
records the same one as `hermes-pgvector migrate`. Run it after every change of a migration; `--check` only says what is
not sealed, and exits with 1 then.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

MIGRATIONS = Path(__file__).resolve().parents[1] / "pgvector" / "migrations"
_SEAL = re.compile(r"'[0-9a-f]{64}'")


def sealed(sql: str) -> str:
    """The text of a migration with its checksum in place. Raises ValueError when there is not one place for it."""
    places = _SEAL.findall(sql)
    if len(places) != 1:
        raise ValueError(f"holds {len(places)} quoted texts of 64 hexadecimal digits, there must be one")
    blank = _SEAL.sub("'" + "0" * 64 + "'", sql)
    return _SEAL.sub("'" + hashlib.sha256(blank.encode()).hexdigest() + "'", sql)


def main() -> int:
    """Seal every migration, or only look; the exit code."""
    parser = argparse.ArgumentParser(description="Write each migration's checksum into it.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 when one is not sealed")
    only_look = parser.parse_args().check
    code = 0
    for path in sorted(MIGRATIONS.glob("[0-9][0-9][0-9]_*.sql")):
        sql = path.read_text(encoding="utf-8")
        try:
            right = sealed(sql)
        except ValueError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            code = 1
            continue
        if right == sql:
            print(f"{path.name}: sealed")
        elif only_look:
            print(f"{path.name}: not sealed; run scripts/seal_migrations.py", file=sys.stderr)
            code = 1
        else:
            path.write_bytes(right.encode())
            print(f"{path.name}: sealed now")
    return code


if __name__ == "__main__":
    sys.exit(main())
