"""A clock that is wrong, or is set back between two lives of an agent: no order changes, and nothing goes too early."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import DIMS, MakeProvider
from tests.support.clocks import CLOCK_AHEAD
from tests.support.memory import landed, recalled
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.traffic import assert_all_embedded
from tests.support.waiting import until

COUNT = 20
LIFE = f"""
import json, os, sys
dsn, home, writes = json.loads(sys.argv[1])
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
provider = PgvectorMemoryProvider({{"dsn": dsn, "dims": {DIMS}}})
provider.initialize("session", hermes_home=home, platform="api_server", gateway_session_key="marketing")
for write in writes:
    provider.on_memory_write(*write)
os._exit(0)
"""
# An agent that reaches Postgres, until it has warned of something.
WARNED = f"""
import json, logging, os, sys, threading
dsn, home = json.loads(sys.argv[1])
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
heard = threading.Event()

class Told(logging.StreamHandler):
    def emit(self, record):
        super().emit(record)
        heard.set()

logging.getLogger().addHandler(Told(sys.stderr))
provider = PgvectorMemoryProvider({{"dsn": dsn, "dims": {DIMS}}})
provider.initialize("session", hermes_home=home, platform="api_server", gateway_session_key="marketing")
heard.wait({STORED_TIMEOUT_S})
os._exit(0)
"""
COMMAND = """
import json, sys
from hermes_memory_pgvector.cli import main
sys.exit(main(json.loads(sys.argv[1])))
"""


def ran(program: str, arguments: Sequence[object], *, ahead_s: float) -> subprocess.CompletedProcess[str]:
    """A program that ran on a machine with another clock."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", CLOCK_AHEAD.format(ahead_s=ahead_s) + program, json.dumps(arguments)],
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def configure(home: Path, dsn: str) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))


def live(home: Path, dsn: str, writes: list[list[object]], *, ahead_s: float) -> str:
    """An agent that cannot reach Postgres, writes, and is gone; returns what it logged."""
    return ran(LIFE, [dsn, str(home), writes], ahead_s=ahead_s).stderr


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


@pytest.mark.parametrize(("ahead_s", "order"), [(7200.0, "ahead of"), (-7200.0, "behind")])
def test_need_02_a_clock_that_is_not_the_servers_is_told(home: Path, dsn: str, ahead_s: float, order: str) -> None:
    """What is said there of a subject takes the place of nothing, or of what others said later."""
    told = ran(WARNED, [dsn, str(home)], ahead_s=ahead_s).stderr
    assert f"this machine's clock is 7200 s {order} the server's" in told


@pytest.mark.parametrize("ahead_s", [86_400.0, -86_400.0], ids=["ahead", "behind"])
def test_need_16_a_purge_counts_back_from_the_clock_that_hid_the_memories(home: Path, dsn: str, ahead_s: float) -> None:
    configure(home, dsn)
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, expires_at)"
            " VALUES ('sre', 'memory', 'Just expired', now() - interval '1 hour'),"
            " ('sre', 'memory', 'Long expired', now() - interval '20 hours')"
        )
    asked = ["purge", "--theme", "sre", "--older-than", "12h", "--yes", "--json", "--hermes-home", str(home)]
    told = json.loads(ran(COMMAND, asked, ahead_s=ahead_s).stdout)
    assert [row["content"] for row in told["rows"]] == ["Long expired"]
    assert Database(dsn).column("SELECT content FROM memory_entries") == ["Just expired"]


def test_need_40_a_fact_that_is_not_current_for_its_date_is_told(home: Path, dsn: str) -> None:
    configure(home, dsn)

    def add(text: str, *, ahead_s: float) -> str:
        said = ["facts", "add", text, "--theme", "sre", "--subject", "srv", "--hermes-home", str(home)]
        return ran(COMMAND, said, ahead_s=ahead_s).stdout

    add("Port 3000", ahead_s=86_400.0)
    assert "it takes the place of m1" in add("Port 3005", ahead_s=0.0), "a date of the future counts as now"
    assert "was said later and stays current" in add("Port 4000", ahead_s=-86_400.0)
    current = "SELECT content FROM memory_entries WHERE state = 'active'"
    assert Database(dsn).column(current) == ["Port 3005"]


@pytest.mark.parametrize("ahead_s", [7200.0, -7200.0], ids=["ahead", "behind"])
def test_need_16_what_was_removed_in_the_last_hour_is_that_by_the_clock_that_dated_it(
    ahead_s: float, make_provider: MakeProvider, home: Path, dsn: str, admin_dsn: str
) -> None:
    provider = make_provider()
    for text in ("The harbour crane is red.", "The office opens at nine."):
        provider.on_memory_write("add", "memory", text)
        provider.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(provider)
    with psycopg.connect(admin_dsn) as connection:
        connection.execute("UPDATE memory_history SET at = at - interval '2 hours' WHERE old_content LIKE '%crane%'")
    configure(home, dsn)
    (theme,) = Database(admin_dsn).column("SELECT DISTINCT agent_identity FROM memory_history")
    asked = ["history", "--since", "1h", "--action", "removed", "--theme", theme, "--json"]
    done = ran(COMMAND, asked, ahead_s=ahead_s)
    assert [row["old_content"] for row in json.loads(done.stdout)] == ["The office opens at nine."]
    done = ran(COMMAND, ["restore", "--since", "1h", "--json"], ahead_s=ahead_s)
    assert [row["content"] for row in json.loads(done.stdout)["rows"]] == ["The office opens at nine."]


def test_need_19_what_a_clock_of_next_year_put_off_is_embedded_now(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, dsn: str
) -> None:
    """While the server's clock was ahead, an agent claimed rows, and ended before they had a vector."""
    without = make_provider()
    without.on_memory_write("add", "memory", "The harbour crane is blue.")
    without.sync_turn("Which colour has the harbour crane?", "It has been blue since May.")
    landed(without)
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE memory_entries SET embed_after = now() + interval '1 year'")
        connection.execute("UPDATE conversations SET embed_after = now() + interval '1 year'")
    provider = make_provider({"embed_url": endpoint.url})
    landed(provider)
    assert_all_embedded(Database(dsn))
