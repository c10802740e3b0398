"""What comes from elsewhere: long texts with all their vectors, several at once, under row-level security."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.common.theme_names import theme_to_write
from hermes_memory_pgvector.admin.transfer.ingest import IngestOptions, IngestResult, take_in
from hermes_memory_pgvector.admin.transfer.records import MemoryRecord, Part, Record, TurnRecord
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.theme import ThemeRules
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.connection import DeadlineConnection
from hermes_memory_pgvector.store.pool import connect
from tests.support.records import all_rows, fill_theme
from tests.support.row_security import tenant_of
from tests.support.stored import Database

from .conftest import DIMS

AT = datetime(2024, 5, 3, 12, 0, tzinfo=UTC)
INTAKE = IngestOptions(Settings(dims=DIMS), ThemeRules())
TURN = TurnRecord("Sales", "s-1", "user", "Where does the Atlas plan live?", AT, {"source": "import:other"})
MEMORY = MemoryRecord("Sales", "memory", " Atlas is blue\n", AT, AT + timedelta(days=1), {"user_id": "4915112345678"})


@contextmanager
def connected(dsn: str) -> Iterator[DeadlineConnection]:
    with connect(dsn) as conn:
        yield conn


def taken(dsn: str, *records: Record, intake: IngestOptions = INTAKE) -> IngestResult:
    with connected(dsn) as conn:
        return take_in(conn, records, intake)


def test_need_29_records_keep_their_times_and_come_once_however_often_they_are_sent(dsn: str) -> None:
    first = taken(dsn, TURN, MEMORY, TURN, MEMORY)
    assert (first.turns_added, first.turns_there, first.memories_added, first.memories_there) == (1, 1, 1, 1)
    with psycopg.connect(dsn) as conn:
        conn.execute("DELETE FROM hermes_operations")
    again = taken(dsn, TURN, MEMORY)
    assert (again.added, again.memories_there + again.turns_there) == (0, 2)
    memory, turn = all_rows(dsn)
    assert memory[1:6] == ("sales", "memory", "Atlas is blue", AT, AT + timedelta(days=1))
    assert "4915112345678" not in str(memory[6])
    assert turn[1:6] == ("sales", "s-1", "user", TURN.content, AT)


def test_need_29_an_older_and_a_fresher_time_of_the_same_memory_both_count(dsn: str) -> None:
    taken(dsn, MEMORY)
    taken(dsn, replace(MEMORY, created_at=AT - timedelta(days=9), updated_at=AT))
    (row,) = all_rows(dsn)
    assert row[4:6] == (AT - timedelta(days=9), AT + timedelta(days=1))


def test_need_29_what_our_hooks_caught_is_not_taken_in_again_by_another_clock(dsn: str) -> None:
    live = replace(TURN, ts=AT + timedelta(seconds=40), metadata={"platform": "cli"})
    assert taken(dsn, live).turns_added == 1
    near = replace(INTAKE, near_s=600)
    assert taken(dsn, TURN, intake=near).turns_there == 1
    later = replace(TURN, ts=AT + timedelta(hours=2))
    assert taken(dsn, later, replace(later, ts=later.ts + timedelta(minutes=1)), intake=near).turns_added == 2


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (replace(TURN, theme="  "), "theme is blank"),
        (replace(TURN, content="\0 \n"), "text is empty"),
        (replace(TURN, role="oracle"), "role"),
        (replace(MEMORY, target="dreams"), "target"),
        (replace(TURN, ts=AT.replace(tzinfo=None)), "zone"),
    ],
)
def test_need_29_what_cannot_be_stored_is_left_out_with_a_reason(dsn: str, record: Record, reason: str) -> None:
    found = taken(dsn, replace(record, where="line 7"), TURN)
    assert found.turns_added == 1 and len(found.skipped) == 1
    assert reason in next(iter(found.skipped)) and found.examples[0].startswith("line 7: ")


def test_need_03_two_imports_at_once_leave_each_turn_once(dsn: str) -> None:
    records = [replace(TURN, ts=AT + timedelta(seconds=number)) for number in range(1500)]
    found: list[IngestResult] = []
    both = [threading.Thread(target=lambda: found.append(taken(dsn, *records))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(150)
    assert sum(each.turns_added for each in found) == 1500 == len(all_rows(dsn))


def test_need_19_a_long_text_travels_with_the_vectors_of_all_its_parts(
    dsn: str, second_dsn: str, home: Path, tmp_path: Path
) -> None:
    def vector(first: float) -> list[float]:
        return [first] + [0.5] * (DIMS - 1)

    long = replace(
        TURN, content="word " * 900, embedding=vector(0.1), parts=(Part(1500, vector(0.2)), Part(3000, vector(0.3)))
    )
    space = EmbeddingSpace("test-model", DIMS)
    intake = replace(INTAKE, space=space, adopt=True)
    assert taken(dsn, long, replace(MEMORY, content="Atlas is blue", embedding=vector(0.4)), intake=intake).vectors == 2
    assert Database(dsn).column("SELECT model FROM hermes_embedding") == ["test-model"]
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    assert cli.main(["copy", "--to", second_dsn]) == 0
    out = tmp_path / "all.jsonl"
    assert cli.main(["export", str(out), "--vectors"]) == 0
    chunks = "SELECT (part, first_char, agent_identity, embedding, sig, code)::text FROM conversation_chunks ORDER BY 1"
    assert Database(second_dsn).column(chunks) == Database(dsn).column(chunks) != []
    with psycopg.connect(second_dsn) as conn:
        conn.execute("DELETE FROM conversations")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": second_dsn, "dims": DIMS}}}))
    assert cli.main(["import", str(out)]) == 0
    assert Database(second_dsn).column(chunks) == Database(dsn).column(chunks)


def test_need_04_a_tenant_exports_and_imports_only_its_own_themes(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    fill_theme(admin_dsn, "marketing", prefix="Ours")
    fill_theme(admin_dsn, "sales", prefix="Theirs")
    tenant = tenant_of(postgres, admin_dsn, "marketing")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": tenant, "dims": DIMS}}}))
    out = tmp_path / "mine.jsonl"
    assert cli.main(["export", str(out)]) == 0
    assert "Ours" in out.read_text() and "Theirs" not in out.read_text()
    everything = tmp_path / "all.jsonl"
    assert cli.main(["export", str(everything), "--admin-dsn", admin_dsn]) == 0
    with psycopg.connect(admin_dsn) as conn:
        conn.execute("DELETE FROM conversations")
    capsys.readouterr()
    assert cli.main(["import", str(everything), "--dry-run", "--json"]) == 1, "they will be lacking"
    told = json.loads(capsys.readouterr().out)
    assert (told["turns_added"], told["refused"]) == (4, 6)
    (reason,) = told["skipped"]
    assert "tenants grant tenant_marketing sales" in reason and "spool" not in reason
    as_tenant = make_conninfo(admin_dsn, options="-c role=tenant_marketing")
    assert cli.main(["import", str(everything), "--dry-run", "--json", "--admin-dsn", as_tenant]) == 1
    assert list(json.loads(capsys.readouterr().out)["skipped"]) == [reason], "whatever its login is called"
    assert cli.main(["import", str(everything), "--json"]) == 1, "the rows of the other theme are lacking"
    told = json.loads(capsys.readouterr().out)
    assert told["turns_added"] == 4 and told["themes"] == {"marketing": 4}
    assert sum(told["skipped"].values()) == told["refused"] == 6
    assert cli.main(["import", str(everything), "--theme", "marketing"]) == 0, "then nothing is"
    assert Database(admin_dsn).column("SELECT DISTINCT agent_identity FROM conversations") == ["marketing"]


def test_need_19_a_vector_that_nothing_can_be_compared_with_costs_no_text(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE hermes_embedding SET model = 'm'")
    good, bad = [0.5] * DIMS, [0.5] * (DIMS - 1) + [float("nan")]
    intake = replace(INTAKE, origin="export", space=EmbeddingSpace("m", DIMS))
    odd = (
        replace(TURN, content="its own vector is none", embedding=bad),
        replace(TURN, content="that of its second part is none", embedding=good, parts=(Part(10, bad),)),
        replace(TURN, content="its second part begins nowhere", embedding=good, parts=(Part(2**40, good),)),
        replace(TURN, content="its own vector has no direction", embedding=[0.0] * DIMS),
        replace(TURN, content="that of its part has none", embedding=good, parts=(Part(10, [0.0] * DIMS),)),
        replace(TURN, content="it is as it should be", embedding=good),
    )
    told = taken(dsn, *odd, intake=intake)
    assert (told.turns_added, told.vectors, dict(told.skipped)) == (6, 1, {})
    assert Database(dsn).column("SELECT content FROM conversations WHERE embedding IS NOT NULL") == [odd[-1].content]


@pytest.mark.parametrize(
    "at", [datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime(9999, 12, 31, 23, tzinfo=UTC)]
)
def test_trap_10_a_time_that_cannot_be_read_again_is_not_stored(dsn: str, at: datetime) -> None:
    told = taken(dsn, replace(TURN, ts=at), replace(MEMORY, created_at=at, updated_at=at), TURN)
    assert (told.added, sum(told.skipped.values())) == (1, 2)
    assert all("time" in reason for reason in told.skipped)


def test_need_04_a_tenant_brings_history_into_its_own_theme(
    postgres: EmbeddedServer, admin_dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = tenant_of(postgres, admin_dsn, "marketing")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": tenant, "dims": DIMS}}}))
    (home / "memories").mkdir(exist_ok=True)
    (home / "memories" / "MEMORY.md").write_text("The build server is called hal.")
    assert cli.main(["bring", "files", "--theme", "marketing", "--yes"]) == 0, capsys.readouterr().err
    assert Database(admin_dsn).column("SELECT agent_identity FROM memory_entries") == ["marketing"]


def test_need_04_names_that_differ_in_odd_characters_are_the_themes_that_sessions_have(dsn: str, home: Path) -> None:
    rules = ThemeRules()
    names = ("ab", "a\0b", "a\udcfeb", "a\udcffb")
    taken(dsn, *(replace(MEMORY, theme=name) for name in names))
    held = Database(dsn).column("SELECT agent_identity FROM memory_entries ORDER BY id")
    assert held == [rules.resolve_name(name) for name in names] and len(set(held)) == len(names)
    assert [theme_to_write(name, rules, home)[0] for name in names] == held
