"""A clock that is set back between two lives of an agent changes no order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, recalled
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.waiting import until

COUNT = 20
LIFE = f"""
import json, os, sys, time
ahead_s, dsn, home, writes = json.loads(sys.argv[1])
real, real_ns = time.time, time.time_ns
time.time = lambda: real() + ahead_s
time.time_ns = lambda: real_ns() + int(ahead_s * 1e9)
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
provider = PgvectorMemoryProvider({{"dsn": dsn, "dims": {DIMS}}})
provider.initialize("session", hermes_home=home, platform="api_server", gateway_session_key="marketing")
for write in writes:
    provider.on_memory_write(*write)
os._exit(0)
"""


def live(home: Path, dsn: str, writes: list[list[object]], *, ahead_s: float) -> str:
    """An agent that cannot reach Postgres, writes, and is gone; returns what it logged."""
    arguments = json.dumps([ahead_s, dsn, str(home), writes])
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIFE, arguments], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("disk", ["one", "another"])
def test_need_03_replacements_after_a_clock_was_set_back_leave_no_stale_version(
    disk: str, make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    nowhere = make_conninfo(dsn, host="127.0.0.1", port="1")
    adds: list[list[object]] = [["add", "memory", f"Setting {n:02d} is old"] for n in range(COUNT)]
    replaces: list[list[object]] = [
        ["replace", "memory", f"Setting {n:02d} is new", {"old_text": f"Setting {n:02d} is old"}] for n in range(COUNT)
    ]
    in_the_way = home / "pgvector" / "spool"
    if disk == "another":  # as if the home could not be written to: what is said is kept elsewhere
        in_the_way.parent.mkdir()
        in_the_way.touch()
    live(home, nowhere, adds, ahead_s=3600.0)
    if disk == "another":
        in_the_way.unlink()
    live(home, nowhere, replaces, ahead_s=0.0)
    provider = make_provider()
    count = "SELECT count(*) FROM hermes_operations"
    until(lambda: Database(dsn).column(count) >= [2 * COUNT], STORED_TIMEOUT_S, "what both lives left")
    landed(provider)
    assert sorted(recalled(provider, "setting")) == [f"Setting {n:02d} is new" for n in range(COUNT)]


def test_need_40_a_clock_that_was_corrected_is_told_once(home: Path, dsn: str) -> None:
    nowhere = make_conninfo(dsn, host="127.0.0.1", port="1")
    told = [
        live(home, nowhere, [["add", "memory", f"Setting {life} is on"]], ahead_s=ahead_s).count("was set back by")
        for life, ahead_s in enumerate([86_400.0, 0.0, 0.0, -3600.0, -3600.0])
    ]
    assert told == [0, 1, 0, 1, 0]
