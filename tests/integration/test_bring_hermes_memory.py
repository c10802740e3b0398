"""The facts of hermes-memory come along, from a file that its own code wrote, with what they say of themselves."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, recalled
from tests.support.recorded import FIXTURES, Bring

RECORDED = FIXTURES / "hermes_memory.db"
FACTS = [
    ("?[vat]: which rate for books", "question", "vat", "shop", "active"),
    ("C[db.id]: UUID mndtry, nvr autoincrement", "constraint", "db.id", None, "active"),
    ("D[auth]: JWT 7j refresh 6j", "decision", "auth", None, "active"),
    ("D[auth]: guests may order", "decision", "auth", "shop", "active"),
    ("D[auth]: sessions last 30 days", "decision", "auth", None, "superseded"),
    ("V[color]: petrol", "value", "color", None, "active"),
    ("V[old.srv]: 10.0.0.7", "value", "old.srv", None, "archived"),
    ("V[srv.prod]: api.example.com:3005", "value", "srv.prod", "shop", "active"),
    ("~[legacy.api]: v1 is gone", "fact", "legacy.api", None, "active"),
    ("\u2713[login]: deployed prod", "fact", "login", "login page", "closed"),
]


@pytest.fixture
def bring(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Bring:
    return Bring(home, dsn, DIMS, capsys)


@pytest.fixture
def file(home: Path) -> Path:
    """The file of the default profile."""
    return Path(shutil.copy(RECORDED, home / "memory.db"))


def stored(dsn: str) -> list[tuple[str, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            'SELECT content, kind, subject, scope, state FROM memory_entries ORDER BY content COLLATE "C"'
        ).fetchall()


def test_facts_keep_kind_subject_scope_and_state(bring: Bring, file: Path, dsn: str) -> None:
    before = file.read_bytes()

    assert bring.only("hermes-memory")["memories_added"] == 10
    assert stored(dsn) == []
    source = bring.only("hermes-memory", "--yes")

    assert (source["memories_added"], source["skipped"]) == (10, {"says the same as another fact": 1})
    assert stored(dsn) == FACTS
    assert bring.only("hermes-memory", "--yes")["memories_added"] == 0
    assert stored(dsn) == FACTS
    assert file.read_bytes() == before


def test_facts_keep_when_they_were_said_and_what_became_of_them(bring: Bring, file: Path, dsn: str) -> None:
    bring.only("hermes-memory", "--yes")

    with psycopg.connect(dsn) as connection:
        (row,) = connection.execute(
            "SELECT old.created_at, old.updated_at, old.metadata ->> 'source', old.content, m.content,"
            " old.metadata ->> 'superseded_by' = m.metadata ->> 'fact'"
            " FROM memory_entries AS m JOIN memory_entries AS old ON old.id = m.replaces"
        ).fetchall()
    at = datetime(2025, 6, 15, 15, 8, 40, tzinfo=UTC)
    said = ("D[auth]: sessions last 30 days", "D[auth]: JWT 7j refresh 6j")
    assert row == (at, at, "import:hermes-memory", *said, True)


def test_what_is_superseded_is_not_recalled_and_the_next_fact_replaces(
    bring: Bring, file: Path, dsn: str, make_provider: MakeProvider
) -> None:
    bring.only("hermes-memory", "--theme", "marketing", "--yes")
    provider = make_provider({"tools": ["recall_memory", "remember"]})

    assert recalled(provider, "sessions last days") == []
    assert recalled(provider, "JWT refresh") == ["D[auth]: JWT 7j refresh 6j"]

    called(provider, "remember", {"content": "D[auth]: JWT 1h refresh 30j", "sync": True})
    assert recalled(provider, "JWT refresh") == ["D[auth]: JWT 1h refresh 30j"]


@pytest.mark.parametrize(
    "change",
    ["DROP TABLE facts", "ALTER TABLE facts RENAME COLUMN target TO about"],
)
def test_a_file_of_another_program_is_refused(bring: Bring, file: Path, change: str) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.executescript("DROP VIEW hot_facts; DROP VIEW gauge;" + change)

    assert "the facts of hermes-memory" in bring.report("hermes-memory", code=1)["error"]


def test_facts_that_nobody_knows_are_left_out(bring: Bring, file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.executescript(
            "PRAGMA ignore_check_constraints = on; UPDATE facts SET type = 'X' WHERE target = 'vat';"
            "UPDATE facts SET content = ' ' WHERE target = 'db.id';"
            "UPDATE facts SET created_at = -1 WHERE target = 'vat' OR target = 'auth'"
        )

    source = bring.only("hermes-memory", "--yes")

    assert (source["read"], source["memories_added"]) == (11, 5)
    assert source["skipped"] == {
        "without a time": 3,
        "of a type or status that is not known": 1,
        "empty": 1,
        "says the same as another fact": 1,
    }


def test_need_29_a_subject_with_a_nul_keeps_no_fact_out(bring: Bring, file: Path, dsn: str) -> None:
    with closing(sqlite3.connect(file)) as facts, facts:
        facts.execute("UPDATE facts SET target = 'old' || char(0) || '.srv' WHERE target = 'old.srv'")
        facts.execute("UPDATE scopes SET label = 'shop' || char(0) WHERE label = 'shop'")
    assert bring.only("hermes-memory", "--yes")["memories_added"] == 10
    assert stored(dsn) == FACTS


def test_need_29_a_damaged_file_is_told_as_such(bring: Bring, file: Path) -> None:
    """What SQLite says of it quotes the damaged bytes, which are no text."""
    file.write_bytes(file.read_bytes().replace(b"tablescopes", b"table\xa6copes"))
    assert "is damaged: its tables have damaged names or definitions" in bring.text("hermes-memory", code=1)
