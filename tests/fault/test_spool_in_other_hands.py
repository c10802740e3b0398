"""A spool that others lock, delete, cut or overwrite under an agent: nothing is refused, and nothing is lost."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hermes_memory_pgvector.capture.queues import OwnQueues, found_gone
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory, spool_folder
from hermes_memory_pgvector.capture.writer import Writer
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.errors import SpoolError
from hermes_memory_pgvector.domain.operations import Message, StoreTurn
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.limits import MOSTLY_NOT_WAITED_S, NOT_WAITED_S
from tests.support.memory import landed, runtime_of
from tests.support.open_files import at_most_open_files
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import turn, user_turns
from tests.support.waiting import until
from tests.support.writing_process import WritingProcess

Records = Callable[[int], list[str]]

# Of the hook's own work: to write a large spool anew takes several times as long.
LONGEST_CPU_S = 0.3


def spool_files(home: Path) -> list[Path]:
    return sorted((home / "pgvector" / "spool").glob("*.db"))


def printed(command: str, home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says of the agents of this home."""
    main([command, "--hermes-home", str(home)])
    return capsys.readouterr().out


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program has this file to itself, as a shell of sqlite3 may."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


def write(provider: PgvectorMemoryProvider, numbers: range) -> None:
    """Report these turns; no hook may wait for anybody, or do the work that is the background's."""
    took, worked = [], []
    gc.disable()  # what Python collects of all tests before is no hook's work
    try:
        for number in numbers:
            started, cpu = time.monotonic(), time.thread_time()
            provider.sync_turn(turn(number), "")
            took.append(time.monotonic() - started)
            worked.append(time.thread_time() - cpu)
    finally:
        gc.enable()
    assert max(took) < NOT_WAITED_S
    assert statistics.median(took) < MOSTLY_NOT_WAITED_S
    assert max(worked) < LONGEST_CPU_S


@pytest.mark.parametrize("postgres_is", ["up", "away"])
def test_need_03_a_lock_on_the_spool_holds_no_hook_up_and_refuses_nothing(
    postgres_is: str,
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    records: Records,
) -> None:
    provider = make_provider({"dsn": proxied})
    write(provider, range(10))
    landed(provider)
    if postgres_is == "away":
        proxy.stop()
    write(provider, range(10, 20))
    (path,) = spool_files(home)
    with locked(path):
        write(provider, range(20, 1020))
        assert len([line for line in records(logging.WARNING) if "another file of the spool" in line]) == 1
        if postgres_is == "up":
            landed(provider)
            assert len(user_turns(database)) == 1020
    proxy.start()
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(1020)]
    assert runtime_of(provider).stats().get("refused", 0) == 0
    until(lambda: len(spool_files(home)) == 1, 30, "the end of the file that was locked")
    write(provider, range(1020, 1030))
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(1030)]
    assert records(logging.ERROR) == []


def test_need_03_locked_files_of_an_agent_that_was_killed_arrive_once_and_in_order(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path, tmp_path: Path
) -> None:
    process = WritingProcess({"dsn": proxied, "dims": DIMS}, home, tmp_path / "locked.log", "orders", turns=100)
    try:
        process.order("write 100 101", "written")
        (path,) = spool_files(home)
        with locked(path):  # what is acknowledged now cannot be crossed off
            process.order("write 101 200", "written")
            until(lambda: len(user_turns(database)) == 200, 30, "the turns")
            proxy.stop()
            process.order("write 200 300", "written")
            process.close()
    finally:
        process.close()
    proxy.start()
    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) >= 300, 30, "the turns of the process that is gone")
    until(lambda: len(spool_files(home)) == 1, 30, "the end of its files")
    assert user_turns(database) == [turn(number) for number in range(300)]


def delete_files(home: Path) -> None:
    for path in (home / "pgvector" / "spool").iterdir():
        path.unlink()


def delete_folder(home: Path) -> None:
    shutil.rmtree(home / "pgvector" / "spool")


@contextmanager
def waiting_seen(writer: Writer) -> Iterator[Callable[[], int]]:
    """How few writes were said to wait at any moment of the block, to somebody who asks all the time."""
    depths, over = [writer.depth()], threading.Event()

    def ask() -> None:
        while not over.is_set():
            depths[0] = min(depths[0], writer.depth())

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield lambda: depths[0]
    finally:
        over.set()
        asking.join()


def delete_log(home: Path) -> None:
    Path(f"{spool_files(home)[0]}-wal").unlink()


def cut(home: Path) -> None:
    # Not what SQLite maps into memory: whoever reads of that when it is cut is ended by the kernel.
    for path in (home / "pgvector" / "spool").iterdir():
        if not path.name.endswith("-shm"):
            with contextlib.suppress(FileNotFoundError):  # a log that was let go of meanwhile
                os.truncate(path, 0)


def overwrite(home: Path) -> None:
    for path in (home / "pgvector" / "spool").iterdir():
        path.write_bytes(os.urandom(200_000))


def put_back(home: Path) -> None:
    """Another file where this one was, as a restored backup is."""
    (path,) = spool_files(home)
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize("harm", [delete_files, delete_folder, delete_log, cut, overwrite, put_back])
def test_need_03_a_spool_that_is_taken_away_is_noticed_at_the_next_write_and_nothing_is_lost(
    harm: Callable[[Path], None],
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": proxied, "dims": DIMS}}}))
    proxy.stop()
    process = WritingProcess({"dsn": proxied, "dims": DIMS}, home, tmp_path / "harm.log", "orders", turns=300)
    try:
        process.order("write 300 301", "written")
        harm(home)
        process.order("write 301 350", "written")
        until(lambda: any("in a new file now" in line for line in process.logged("WARNING")), what="the new file")
        assert len([line for line in process.logged("WARNING") if "in a new file now" in line]) == 1
        main(["status", "--json", "--hermes-home", str(home)])
        assert json.loads(capsys.readouterr().out)["waiting"] == 350
        process.close()
        assert process.logged("ERROR") == []
    finally:
        process.close()
    proxy.start()
    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) >= 350, 30, "the turns of the process that is gone")
    assert user_turns(database) == [turn(number) for number in range(350)]


def test_need_03_a_spool_that_is_taken_away_from_a_silent_agent_is_there_again_by_itself(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path
) -> None:
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    write(provider, range(50))
    writer = runtime_of(provider).writer
    with waiting_seen(writer) as fewest:
        delete_folder(home)
        until(lambda: spool_files(home), 30, "a new file")
    assert fewest() >= 50
    proxy.start()
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(50)]


def test_need_03_what_a_lost_file_held_waits_until_it_is_stored(
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    write(provider, range(50))
    with monkeypatch.context() as busy:
        busy.setattr("hermes_memory_pgvector.capture.queues._HOOK_MOVES_S", 0.0)  # nobody has time to write it anew
        delete_folder(home)
        write(provider, range(50, 51))
        assert runtime_of(provider).writer.depth() == 51
    proxy.start()
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(51)]


def test_need_03_a_large_spool_that_is_taken_away_holds_no_hook_up(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path
) -> None:
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    write(provider, range(3_000))
    for _ in range(40):  # more than what is copied in memory
        provider.on_memory_write("add", "memory", f"{time.perf_counter_ns()} " + "x" * 480_000)
    delete_folder(home)
    write(provider, range(3_000, 3_500))
    until(lambda: runtime_of(provider).writer.depth() == 3_540, 60, "everything in the new files")
    proxy.start()
    until(lambda: len(user_turns(database)) >= 3_500, 200, "the turns")
    assert user_turns(database) == [turn(number) for number in range(3_500)]
    assert runtime_of(provider).stats()["lost"] == 0


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Another program has all locks of the log that readers need."""
    lock = "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX, 8, 120)"
    command = [sys.executable, "-c", f"{lock}; print(flush=True); sys.stdin.read()", f"{path}-shm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        yield


def test_need_03_a_spool_that_cannot_be_looked_into_now_is_looked_into_later(home: Path) -> None:
    own = OwnQueues(SpoolDirectory(spool_folder(home), max_bytes=100_000_000), 1_000_000)
    (spool,) = own.spools()
    own.append(StoreTurn(theme="marketing", at=0.0, session_id="s", messages=(Message("user", turn(1)),)))
    with closing(sqlite3.connect(spool.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log is shorter, so there is something to look at
    with at_most_open_files(0), pytest.raises(SpoolError, match="cannot be used"):
        spool.take(1)  # the drain thread would end on any other error
    assert [text for op in spool.take(1) for text in op.texts()] == [turn(1)]


def test_need_40_what_an_agent_leaves_that_can_open_no_more_files_is_not_said_to_be_lost(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, home: Path, records: Records
) -> None:
    proxy.stop()
    write(make_provider({"dsn": proxied}), range(3))
    with at_most_open_files(0):
        close_all()
    assert [line for line in records(logging.WARNING) if "lost" in line] == []
    (left,) = spool_files(home)
    with closing(sqlite3.connect(left)) as connection:
        assert connection.execute("SELECT count(*) FROM operations").fetchone() == (3,)


def test_need_03_what_a_lost_file_held_is_not_given_up_while_others_lock_it(home: Path) -> None:
    own = OwnQueues(SpoolDirectory(spool_folder(home), max_bytes=100_000_000), 1_000_000)
    (spool,) = own.spools()
    texts = [f"{turn(number)} " + "x" * 500_000 for number in range(50)]  # more than memory keeps of a file
    for text in texts:
        own.append(StoreTurn(theme="marketing", at=0.0, session_id="s", messages=(Message("user", text),)))
    with unreadable(spool.path):
        delete_folder(home)
        gone = found_gone(spool)
        assert gone is not None and own.rescue(spool, gone)
        own.finish_moves()
        assert own.depth() == 50

    def moved() -> bool:
        """On a busy machine one turn of it does not come to the end."""
        own.finish_moves()
        return not any(own.moves_into(each) for each in own.spools())

    until(moved, what="everything in the new file")
    assert [text for spool in own.spools() for op in spool.take(100) for text in op.texts()] == texts
    assert own.lost == 0


def test_need_03_what_cannot_be_had_any_more_is_counted_and_told(
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    records: Records,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": proxied, "dims": DIMS}}}))
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    texts = [f"Entry {number}: " + "x" * 500_000 for number in range(60)]
    for text in texts:
        provider.on_memory_write("add", "memory", text)
    cut(home)
    provider.on_memory_write("add", "memory", "The last entry")
    until(lambda: runtime_of(provider).stats()["lost"] > 0, 30, "the count")
    lost = runtime_of(provider).stats()["lost"]
    until(lambda: any(f"{lost} accepted writes" in line for line in records(logging.ERROR)), what="the line in the log")
    proxy.start()
    landed(provider)
    until(lambda: f", {lost} LOST" in printed("status", home, capsys), 30, "the number in `status`")
    assert f"hermes_pgvector_lost_writes_total {lost:.1f}" in printed("metrics", home, capsys)
    kept = database.column("SELECT content FROM memory_entries ORDER BY id")
    assert kept == [text for text in [*texts, "The last entry"] if text in set(kept)]
    assert kept[-1] == "The last entry"
    assert len(kept) == 61 - lost
    with contextlib.suppress(FileNotFoundError):
        assert not any(path.stat().st_size > 100_000_000 for path in spool_files(home))


def test_need_03_a_spool_overwritten_in_its_middle_is_noticed_and_written_anew(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path, records: Records
) -> None:
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    write(provider, range(500))
    (path,) = spool_files(home)
    until(lambda: path.stat().st_size > 100_000, 30, "a checkpoint")
    until(lambda: time.time() - path.stat().st_mtime > 0.3, 30, "its end")
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(os.urandom(20_000))
    until(lambda: any("in a new file now" in line for line in records(logging.WARNING)), 30, "the new file")
    proxy.start()
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(500)]


def spoil(home: Path, text: str) -> None:
    """Change a letter of this text wherever the files of the spool hold it, as a failing disk may."""
    found = 0
    for path in (home / "pgvector" / "spool").glob("*.db*"):
        body, times = path.read_bytes(), path.stat()
        found += (many := body.count(text.encode()))
        if many:
            with path.open("r+b") as file:  # the same file, which is open elsewhere
                file.write(body.replace(text.encode(), text.swapcase().encode()))
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert found


@pytest.mark.parametrize("agent", ["goes on", "ends"])
def test_need_03_what_is_spoiled_in_the_file_of_an_agent_that_lives_is_stored_as_it_was_said(
    agent: str,
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    tmp_path: Path,
) -> None:
    proxy.stop()
    process = WritingProcess({"dsn": proxied, "dims": DIMS}, home, tmp_path / "spoiled.log", "orders", turns=30)
    try:
        process.order("write 30 31", "written")
        spoil(home, turn(7))
        if agent == "goes on":
            proxy.start()
            assert process.order("flush", "flushed") == "flushed True"
        process.die()
        assert process.logged("ERROR") == []
    finally:
        process.close()
    proxy.start()
    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) >= 31, 30, "the turns of the process that is gone")
    assert user_turns(database) == [turn(number) for number in range(31)]


def test_need_03_writes_of_several_threads_come_after_all_that_a_lost_file_held(
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One thread writes all of it anew, in many steps, between which the others have their turn.
    monkeypatch.setattr("hermes_memory_pgvector.capture.queues._HOOK_MOVES_S", 10.0)
    proxy.stop()
    provider = make_provider({"dsn": proxied})
    write(provider, range(3_000))
    begun, ended = threading.Barrier(7), threading.Event()

    def write_on(first: int) -> list[int]:
        begun.wait()
        numbers = []
        for number in range(first, first + 1_000):
            provider.sync_turn(turn(number), "")
            numbers.append(number)
            if ended.is_set():
                break
        return numbers

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as threads:
            writing = [threads.submit(write_on, first) for first in range(3_000, 9_000, 1_000)]
            begun.wait()
            (home / "pgvector" / "spool").rename(home / "pgvector" / "moved away")  # at once: they make a new one
            until(lambda: spool_files(home), 30, "a new file")
            ended.set()
            written = [each.result() for each in writing]
    finally:
        sys.setswitchinterval(interval)
    proxy.start()
    landed(provider)
    stored = user_turns(database)
    assert stored[:3_000] == [turn(number) for number in range(3_000)]
    assert sorted(stored[3_000:]) == sorted(turn(number) for numbers in written for number in numbers)
    for numbers in written:
        mine = {turn(number) for number in numbers}
        assert [text for text in stored if text in mine] == [turn(number) for number in numbers]


def test_need_03_writes_after_a_lost_file_wait_for_all_that_it_held(
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = make_provider({"dsn": proxied})
    write(provider, range(10))
    landed(provider)
    proxy.deaf()  # a batch is on its way, after which the drain takes the next one at once
    write(provider, range(10, 400))
    with monkeypatch.context() as busy:
        busy.setattr("hermes_memory_pgvector.capture.queues._HOOK_MOVES_S", 0.0)  # nobody writes it anew
        delete_folder(home)
        write(provider, range(400, 450))
        proxy.start()
        until(lambda: len(user_turns(database)) >= 450, 30, "all turns")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(450)]


def test_need_03_an_older_file_that_is_lost_is_stored_before_the_newer_one(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path
) -> None:
    provider = make_provider({"dsn": proxied})
    write(provider, range(10))
    landed(provider)
    proxy.deaf()
    write(provider, range(10, 200))
    (older,) = spool_files(home)
    with locked(older):
        write(provider, range(200, 250))
    for path in home.glob(f"pgvector/spool/{older.name}*"):
        path.unlink()
    proxy.start()
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(250)]
