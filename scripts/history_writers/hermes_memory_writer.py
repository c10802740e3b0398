"""Writes facts with hermes-memory's own code, as its tools do: `hermes_memory_writer.py FILE`."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from hermes_memory.core import db, facts, scopes

# Each fact has a time of its own.
_now = count(1_750_000_060, 60).__next__


def main() -> None:
    """Write what there is to read: every type, every status, a scope that is open and one that is closed."""
    for module in (db, facts, scopes):
        module.now = _now
    conn = db.get_connection(Path(sys.argv[1]))
    facts.write(conn, "C[db.id]: UUID mndtry, nvr autoincrement")
    facts.write(conn, "D[auth]: sessions last 30 days")
    facts.write(conn, "D[auth]: JWT 7j refresh 6j")  # supersedes the one before
    shop = scopes.get_or_create(conn, "shop")
    facts.write(conn, "D[auth]: guests may order", shop)
    facts.write(conn, "V[srv.prod]: api.example.com:3005", shop)
    facts.write(conn, "?[vat]: which rate for books", shop)
    done = scopes.get_or_create(conn, "login page")
    facts.write(conn, "V[color]: petrol", done)
    facts.write(conn, "✓[login]: deployed prod", done)
    scopes.close(conn, done)
    facts.write(conn, "V[color]: petrol")  # the same words, of no scope
    facts.write(conn, "~[legacy.api]: v1 is gone")
    facts.write(conn, "V[old.srv]: 10.0.0.7")
    conn.execute("UPDATE facts SET status = 'archived' WHERE target = 'old.srv'")  # as memory_optimize leaves some
    conn.commit()
    conn.execute("PRAGMA journal_mode = DELETE")
    conn.execute("VACUUM")
    conn.close()


if __name__ == "__main__":
    main()
