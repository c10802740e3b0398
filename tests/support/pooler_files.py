"""The real PgBouncer of the tests.

Fetch it with `PYTHONPATH=. python -m tests.support.pooler_files DIR`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from .debian_files import DebianProgram

_PGBOUNCER = DebianProgram(
    package="pgbouncer",
    file="usr/sbin/pgbouncer",
    variable="PGVECTOR_TEST_PGBOUNCER",
    names=("pgbouncer",),
    places=("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin"),
    advice="install pgbouncer (Debian: apt-get install pgbouncer, macOS: brew install pgbouncer), or name "
    "the program in PGVECTOR_TEST_PGBOUNCER",
)


@cache
def pooler_program() -> tuple[Path, Mapping[str, str]]:
    """Return PgBouncer, and the environment that it runs in; fetched to .cache/pgbouncer where the machine has none.

    Raises RuntimeError when it cannot be had.
    """
    return _PGBOUNCER.find(Path(__file__).resolve().parents[2] / ".cache" / "pgbouncer")


if __name__ == "__main__":
    print(_PGBOUNCER.find(Path(sys.argv[1]).absolute())[0])
