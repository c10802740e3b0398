"""Spool files of dead processes as a power cut leaves them: what can be read arrives, and what is lost is told."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.cli import main
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import operation
from tests.support.memory import landed
from tests.support.stored import Database
from tests.support.turns import turn, user_turns
from tests.support.waiting import until

Records = Callable[[int], list[str]]

HEADER, FRAME, PAGE = 32, 1048, 1024
TURNS = 60


@contextmanager
def dying(home: Path) -> Iterator[tuple[Spool, Path]]:
    """The spool of a process that dies at the end of the block, and where its file and log are found then."""
    folder = home / "pgvector" / "spool"
    folder.mkdir(parents=True)
    path = folder / f"4000000-{uuid.uuid4().hex[:8]}.db"
    spool = Spool(home / "written.db", max_bytes=1 << 30)
    spool.label("", "")
    yield spool, path
    for suffix in ("", "-wal"):
        shutil.copy(f"{spool.path}{suffix}", f"{path}{suffix}")
    spool.close()


def accept(spool: Spool, number: int) -> None:
    messages = [{"role": "user", "content": turn(number)}]
    payload = {"session_id": "s", "messages": messages, "metadata": {}}
    spool.append(operation("turn", "marketing", payload, time.time()))


@pytest.fixture
def left(home: Path) -> Path:
    """The file and the log of a process that died after `TURNS` turns, none of which Postgres has."""
    with dying(home) as (spool, path):
        for number in range(TURNS):
            accept(spool, number)
    return path


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def overwrite(path: Path, at: int, body: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(body)


def arrived(make_provider: MakeProvider, database: Database) -> list[str]:
    """What is stored of the dead process once an agent has begun and stored a turn of its own."""
    provider = make_provider()
    provider.sync_turn(turn(900), "")
    until(lambda: turn(900) in user_turns(database), 30, "the new turn")
    landed(provider)
    found = user_turns(database)
    assert found[-1] == turn(900)
    return found[:-1]


ALL = [turn(number) for number in range(TURNS)]


@pytest.mark.parametrize("how", ["a bit", "a frame", "the header", "the first block"])
def test_need_03_what_follows_the_damage_in_a_log_arrives(
    how: str, left: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    log = log_of(left)
    third = HEADER + 2 * FRAME  # its page was written again afterwards
    match how:
        case "a bit":
            overwrite(log, third + 500, bytes([log.read_bytes()[third + 500] ^ 4]))
        case "a frame":
            overwrite(log, third, bytes(FRAME))
        case "the header":
            overwrite(log, 0, bytes(HEADER))
        case _:
            overwrite(log, 0, bytes(4096))

    assert arrived(make_provider, database) == ALL

    (told,) = records(logging.ERROR)
    assert str(left) in told and "damaged" in told
    if how != "the first block":  # with it went the page of a table that nothing has written to since
        until(lambda: not left.exists(), 30, "the end of the file")


def test_need_03_what_was_accepted_after_the_damage_arrives_where_the_rest_was_sent(
    home: Path, make_provider: MakeProvider, database: Database
) -> None:
    with dying(home) as (spool, path):
        for number in range(100, 130):
            accept(spool, number)
        middle = HEADER + (log_of(spool.path).stat().st_size - HEADER) // FRAME // 2 * FRAME
        spool.ack(spool.take(100))
        for number in range(5):
            accept(spool, number)
    overwrite(log_of(path), middle, bytes(FRAME))

    assert arrived(make_provider, database) == ALL[:5]


def test_need_40_a_log_behind_whose_end_is_the_rest_of_a_failed_write_is_not_damaged(
    home: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    with dying(home) as (spool, path):
        for number in range(TURNS - 1):
            accept(spool, number)
        with closing(sqlite3.connect(spool.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA cache_size=1")  # so that it writes to the log before the end
            connection.execute("BEGIN IMMEDIATE")
            for number in range(40):
                connection.execute("INSERT INTO kept VALUES (?, x'00', '', '', ?, 0)", (number, "x" * 9000))
            before = log_of(spool.path).stat().st_size
            connection.execute("ROLLBACK")
        accept(spool, TURNS - 1)
    assert log_of(path).stat().st_size == before, "the last turn was written over a part of it"

    assert arrived(make_provider, database) == ALL
    assert records(logging.WARNING) == []


@pytest.mark.parametrize("within", [0, 300])
def test_need_03_the_lost_end_of_a_log_is_told_and_what_is_before_it_arrives(
    within: int, left: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    log = log_of(left)
    size = log.stat().st_size
    lost = HEADER + (size - HEADER) // FRAME // 2 * FRAME + within
    overwrite(log, lost, bytes(size - lost))

    found = arrived(make_provider, database)

    assert 0 < len(found) < TURNS
    assert found == ALL[: len(found)]
    (told,) = records(logging.ERROR)
    assert str(left) in told and "lost" in told


def test_need_03_a_file_without_content_is_restored_from_its_log(
    left: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    left.write_bytes(b"")

    assert arrived(make_provider, database) == ALL
    assert len(records(logging.ERROR)) == 1


def test_need_03_an_empty_file_is_told(
    left: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    left.write_bytes(b"")
    log_of(left).unlink()

    assert arrived(make_provider, database) == []
    (told,) = records(logging.WARNING)
    assert str(left) in told and "empty" in told


def test_need_03_a_process_that_died_while_it_wrote_its_last_turn_has_no_damaged_log(
    left: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    log = log_of(left)
    log.write_bytes(log.read_bytes()[: -FRAME // 2])

    found = arrived(make_provider, database)

    assert found == ALL[: len(found)] and len(found) == TURNS - 1
    assert records(logging.WARNING) == []


def test_need_03_the_log_of_a_file_of_another_version_or_program_is_left_to_sqlite(
    home: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    folder = home / "pgvector" / "spool"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(home / "written.db")) as connection:  # with pages of 4,096 bytes
        connection.execute("PRAGMA journal_mode=WAL")
        for number in range(9):
            connection.execute(f"CREATE TABLE other_{number} (x)")
        for name in ("4000000-00000001.db", "notes.db"):
            for suffix in ("", "-wal"):
                shutil.copy(home / f"written.db{suffix}", folder / f"{name}{suffix}")
    overwrite(folder / "notes.db-wal", HEADER + 4 * 4120 + 500, bytes(500))

    assert arrived(make_provider, database) == []

    assert "damaged" not in "".join(records(logging.WARNING))
    with closing(sqlite3.connect(folder / "4000000-00000001.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (9,)


@pytest.mark.parametrize("locked", [True, False], ids=["as it was left", "copied there"])
def test_need_40_an_operator_who_looks_first_is_told_of_a_damaged_log_and_takes_nothing_from_it(
    locked: bool,
    left: Path,
    home: Path,
    dsn: str,
    make_provider: MakeProvider,
    database: Database,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    if locked:
        Path(f"{left}.lock").touch()
    overwrite(log_of(left), HEADER + 2 * FRAME, bytes(FRAME))

    assert main(["doctor", "--json", "--hermes-home", str(home)]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert any(str(left) in check["said"] and "damaged" in check["said"] for check in checks)
    assert main(["status", "--hermes-home", str(home)]) in (0, 1)
    assert str(left) in capsys.readouterr().out

    assert arrived(make_provider, database) == ALL


@pytest.mark.parametrize("how", ["page", "sector"])
@pytest.mark.parametrize("table", ["accepted_for", "aside", "kept", "report"])
def test_need_03_damage_beside_the_waiting_writes_keeps_none_of_them(
    table: str, how: str, left: Path, make_provider: MakeProvider, database: Database
) -> None:
    with closing(sqlite3.connect(left)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    size = PAGE if how == "page" else PAGE // 2  # half of it is left: the row's place without the row
    overwrite(left, page * PAGE - size, bytes(size))

    assert arrived(make_provider, database) == ALL
