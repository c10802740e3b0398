"""Files of dead processes that are damaged, of a newer version, or in order: kept, told once, and in nobody's way."""

from __future__ import annotations

import json
import logging
import os
import random
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common.installed_models import install_model
from hermes_memory_pgvector.admin.common.spool_views import inspect_spools
from hermes_memory_pgvector.capture.mirror import Mirror
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory, spool_folder
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, runtime_of
from tests.support.model_files import MODEL_NAME
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import turn, user_turns
from tests.support.waiting import until
from tests.support.writing_process import WritingProcess

Records = Callable[[int], list[str]]
LeaveSpool = Callable[..., Path]


@pytest.fixture
def leave_spool(proxied: str, proxy: TcpProxy, home: Path, tmp_path: Path) -> LeaveSpool:
    """Leaves the file of a process that died with turns `first` to `first + 199` in it; Postgres is away until then."""

    def leave(first: int = 0) -> Path:
        proxy.stop()
        folder = home / "pgvector" / "spool"
        before = set(folder.glob("*.db"))
        process = WritingProcess(
            {"dsn": proxied, "dims": DIMS}, home, tmp_path / f"dead-{first}.log", "orders", turns=0
        )
        try:
            process.order(f"write {first} {first + 200}", "written")
        finally:
            process.close()
        (path,) = set(folder.glob("*.db")) - before
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path

    return leave


def damage(path: Path, how: str) -> None:
    noise = random.Random(7)
    body = bytearray(path.read_bytes())
    if how == "noise":
        body = bytearray(noise.randbytes(len(body)))
    elif how == "truncated":
        del body[len(body) // 2 :]
    elif how == "holes":
        for start in range(8_192, len(body), 16_384):
            body[start : start + 512] = noise.randbytes(512)
    times = path.stat()
    path.write_bytes(body)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # a file that was written last would be read last


@pytest.mark.parametrize("how", ["noise", "truncated", "holes"])
def test_need_03_a_damaged_file_is_kept_and_told_once_and_the_rest_arrives(
    how: str,
    leave_spool: LeaveSpool,
    proxy: TcpProxy,
    proxied: str,
    make_provider: MakeProvider,
    database: Database,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    home: Path,
) -> None:
    damaged, whole = leave_spool(0), leave_spool(500)
    damage(damaged, how)
    proxy.start()

    provider = make_provider({"dsn": proxied})
    provider.sync_turn(turn(900), "")
    until(lambda: turn(900) in user_turns(database), 30, "the new turn")
    landed(provider)
    said = user_turns(database)
    rest = [turn(number) for number in range(500, 700)] + [turn(900)]
    assert said[-201:] == rest
    # What stands before the damage may be saved, in order; nothing of it twice.
    saved = said[:-201]
    assert saved == [text for text in map(turn, range(200)) if text in set(saved)]

    (told,) = records(logging.ERROR)
    assert str(damaged) in told
    assert damaged.exists()
    until(lambda: not whole.exists(), 30, "the end of the file that was in order")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": proxied, "dims": DIMS}}}))
    assert main(["doctor", "--json", "--hermes-home", str(home)]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check["state"] for check in checks if check["name"] == "spool" and str(damaged) in check["said"]] == [
        "fail"
    ]
    main(["status", "--hermes-home", str(home)])
    assert str(damaged) in capsys.readouterr().out
    # The next start finds it again, says so again, and saves nothing twice.
    provider.shutdown()
    make_provider({"dsn": proxied}).sync_turn(turn(901), "")
    until(lambda: turn(901) in user_turns(database), 30, "the turn after a restart")
    assert user_turns(database) == [*said, turn(901)]
    assert len(records(logging.ERROR)) == 2


@pytest.mark.parametrize("part", ["kept", "aside_op_id", "report"])
def test_need_40_a_file_whose_writes_have_arrived_is_gone_though_another_part_of_it_is_damaged(
    part: str,
    leave_spool: LeaveSpool,
    proxy: TcpProxy,
    proxied: str,
    make_provider: MakeProvider,
    database: Database,
) -> None:
    """`status` would name its process for ever, and every agent would read it."""
    left = leave_spool()
    with closing(sqlite3.connect(left)) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (part,)).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    with left.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
    proxy.start()
    landed(make_provider({"dsn": proxied, "spool_keep_s": 0}))
    until(lambda: not left.exists(), 30, "the end of the file")
    assert user_turns(database) == [turn(number) for number in range(200)]


def test_need_03_a_file_of_a_newer_version_is_left_as_it_is_and_told_once(
    leave_spool: LeaveSpool,
    proxy: TcpProxy,
    proxied: str,
    make_provider: MakeProvider,
    database: Database,
    records: Records,
    capsys: pytest.CaptureFixture[str],
    home: Path,
) -> None:
    newer = leave_spool(0)
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = newer.read_bytes()
    proxy.start()

    provider = make_provider({"dsn": proxied})
    provider.sync_turn(turn(900), "")
    landed(provider)
    until(lambda: user_turns(database) == [turn(900)], 30, "the new turn")
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": proxied, "dims": DIMS}}}))
    assert main(["doctor", "--json", "--hermes-home", str(home)]) == 1
    assert "newer version" in capsys.readouterr().out
    provider.shutdown()

    (told,) = records(logging.ERROR)
    assert "newer version" in told and str(newer) in told
    assert newer.read_bytes() == before


def test_need_03_an_unreadable_row_is_set_aside_and_the_rest_of_its_file_arrives(
    leave_spool: LeaveSpool,
    proxy: TcpProxy,
    proxied: str,
    make_provider: MakeProvider,
    database: Database,
    records: Records,
) -> None:
    path = leave_spool(0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE operations SET payload = substr(payload, 1, 20) WHERE seq = 5")
        connection.execute("UPDATE operations SET payload = CAST(x'ff00fe' AS TEXT) WHERE seq = 7")
        connection.execute("UPDATE operations SET op_id = x'00' WHERE seq = 9")
        connection.execute("UPDATE operations SET at = at * 1e9 WHERE seq = 11")  # nanoseconds
    proxy.start()

    provider = make_provider({"dsn": proxied})
    until(lambda: len(user_turns(database)) >= 196, 30, "the rest")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(200) if number not in (4, 6, 8, 10)]
    assert len(records(logging.ERROR)) == 4
    assert path.exists()


def test_need_03_files_are_gone_when_their_writes_have_arrived(
    leave_spool: LeaveSpool,
    proxy: TcpProxy,
    proxied: str,
    make_provider: MakeProvider,
    database: Database,
    records: Records,
    home: Path,
) -> None:
    leave_spool(0)
    leave_spool(500)
    proxy.start()
    provider = make_provider({"dsn": proxied, "spool_keep_s": 0})
    until(lambda: len(user_turns(database)) >= 400, 30, "both")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in (*range(200), *range(500, 700))]
    provider.shutdown()
    until(lambda: not list((home / "pgvector" / "spool").iterdir()), 30, "an empty folder")
    assert records(logging.WARNING) == []


def test_need_03_a_file_of_version_1_0_0_is_read_with_what_was_set_aside_in_it(
    dsn: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    folder = home / "pgvector" / "spool"
    folder.mkdir(parents=True)
    payload = {"session_id": "s", "messages": [{"role": "user", "content": turn(1)}], "metadata": {}}
    with closing(sqlite3.connect(folder / "4711-dead.db", isolation_level=None)) as connection:
        connection.execute(
            "CREATE TABLE operations (seq INTEGER PRIMARY KEY, op_id BLOB NOT NULL, theme TEXT NOT NULL, "
            "kind TEXT NOT NULL, payload TEXT NOT NULL, at REAL NOT NULL, error TEXT)"
        )
        for error in (None, "refused once"):
            row = (uuid.uuid4().bytes, "marketing", "turn", json.dumps(payload), 1.0, error)
            connection.execute(
                "INSERT INTO operations (op_id, theme, kind, payload, at, error) VALUES (?, ?, ?, ?, ?, ?)", row
            )
        connection.execute("PRAGMA user_version = 1")
    provider = make_provider({"dsn": dsn})
    until(lambda: user_turns(database) == [turn(1)], 30, "what waited")
    until(lambda: runtime_of(provider).writer.rejected_count() == 1, 30, "what was set aside")
    (item,) = [item for view in inspect_spools(home) for item in view.rejected]
    assert item.error == "refused once"


def fail_to_install_a_model(home: Path) -> None:
    """The folder of models is made in ours before anything else is."""
    with pytest.raises(ConfigurationError):
        install_model(home, Settings(), MODEL_NAME, source=home)


def make_open(home: Path) -> None:
    """As an earlier version left it."""
    spool_folder(home).mkdir(parents=True)


def test_nobody_else_may_put_a_spool_in_the_place_of_ours_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        firsts = (lambda home: Mirror(home).now(), lambda home: Mirror(home).origin, fail_to_install_a_model, make_open)
        for number, use in enumerate(firsts):
            home = tmp_path / str(number)
            home.mkdir()
            use(home)
            spools = SpoolDirectory(spool_folder(home), max_bytes=1_000_000)
            spool = spools.open_own()
            for path in (home / "pgvector").rglob("*"):
                assert not path.stat().st_mode & 0o077, path
            assert not (home / "pgvector").stat().st_mode & 0o022
            spools.discard(spool)
    finally:
        os.umask(before)


def test_need_03_files_of_others_in_the_folder_are_left_alone_and_keep_no_write_from_the_disk(
    make_provider: MakeProvider, database: Database, records: Records, dsn: str, home: Path
) -> None:
    folder = spool_folder(home)
    folder.mkdir(parents=True)
    for each in (folder.parent, folder):
        each.chmod(0o700)
    elsewhere, foreign = home / "shopping.db", folder / "shopping.db"
    for path in (elsewhere, foreign):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE shopping (what TEXT)")
            connection.execute("PRAGMA user_version = 1")
    before = foreign.read_bytes()
    (folder / "1-0000000000000001-linked.db").symlink_to(elsewhere)
    (folder / "2-0000000000000002-looped.db").symlink_to(folder / "2-0000000000000002-looped.db")
    (folder / "3-0000000000000003-lost.db").symlink_to(home / "nowhere")
    (folder / "4-0000000000000004-folder.db").mkdir()
    os.mkfifo(folder / "5-0000000000000005-pipe.db")

    provider = make_provider()
    provider.sync_turn(turn(1), "")
    landed(provider)
    until(lambda: user_turns(database) == [turn(1)], 30, "the turn")
    until(lambda: sum("is no spool" in each for each in records(logging.ERROR)) == 2, 60, "both to be told")
    assert not [each for each in records(logging.WARNING) if "in memory only" in each]
    provider.shutdown()
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    assert main(["doctor", "--json", "--hermes-home", str(home)]) == 1
    assert main(["spool", "list", "--hermes-home", str(home)]) in (0, 1)

    assert foreign.read_bytes() == elsewhere.read_bytes() == before
