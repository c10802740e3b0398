"""Many writes set aside, many files of dead processes, and writes put back: bounded, and each write once."""

from __future__ import annotations

import json
import logging
import os
import random
import sqlite3
import threading
import time
import tracemalloc
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.capture.kept import change_kept, forget_until, keep, pages
from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.operations import Operation
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import turn, user_turns
from tests.support.waiting import until
from tests.support.writing_process import WritingProcess

Records = Callable[[int], list[str]]


@pytest.fixture
def configured(home: Path, dsn: str) -> None:
    """The home's config.yaml names the test's database."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))


@pytest.mark.parametrize("how", ["too old", "of a theme"])
def test_need_02_much_that_was_kept_goes_in_steps_for_each_of_which_a_hook_hardly_waits(how: str, home: Path) -> None:
    spool = Spool(leave_spool(home, []), max_bytes=1 << 30)
    keep(spool, [replace(said(number), seq=number + 1) for number in range(1000)])
    ran: list[str] = []
    with spool.reading() as conn:
        conn.set_trace_callback(ran.append)
    if how == "too old":
        assert forget_until(spool, 1000)
    else:
        assert change_kept(spool, "marketing", lambda op: None) == 1000
    spool.close()
    assert not spool_holds(spool.path)
    assert ran.count("COMMIT") >= 1000 / 64


def test_need_10_what_is_kept_is_never_in_memory_as_a_whole(home: Path) -> None:
    spool = Spool(leave_spool(home, []), max_bytes=1 << 30)
    for first in range(0, 4000, 1000):
        numbers = range(first, first + 1000)
        keep(spool, [replace(said(n, padding="x" * 4000), seq=n + 1) for n in numbers])
    tracemalloc.start()
    try:
        assert sum(map(len, pages(spool))) == 4000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        spool.close()
    assert most < 4000 * 4000 / 2


def spool_holds(path: Path) -> bool:
    """Whether anything is kept in the file."""
    with closing(sqlite3.connect(path)) as file:
        return bool(file.execute("SELECT EXISTS (SELECT 1 FROM kept)").fetchone()[0])


def said(number: int, padding: str = "") -> Operation:
    payload = {"session_id": "s", "messages": [{"role": "user", "content": turn(number) + padding}], "metadata": {}}
    return operation("turn", "marketing", payload, time.time())


def refuse(admin_dsn: str, refuses: bool) -> None:
    """Have Postgres refuse every turn for what it holds, or take them again."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE conversations DROP CONSTRAINT IF EXISTS no_more")
        if refuses:
            connection.execute("ALTER TABLE conversations ADD CONSTRAINT no_more CHECK (false) NOT VALID")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_need_10_the_files_of_very_many_dead_processes_are_opened_a_few_at_a_time(
    home: Path, make_provider: MakeProvider, database: Database, records: Records
) -> None:
    for number in range(150):
        leave_spool(home, [said(number)])
    before, most, ended = open_files(), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.005):
            most = max(most, open_files())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        provider = make_provider()
        until(lambda: len(user_turns(database)) >= 150, 120, "all of them")
        landed(provider)
    finally:
        ended.set()
        watching.join()
    assert sorted(user_turns(database)) == [turn(number) for number in range(150)]
    assert most - before < 100
    until(lambda: len(list((home / "pgvector" / "spool").glob("*.db"))) == 1, 30, "the end of the files")
    assert records(logging.WARNING) == []


def test_need_10_files_with_nothing_but_what_was_set_aside_keep_none_from_its_turn(
    home: Path, configured: None, admin_dsn: str, make_provider: MakeProvider, database: Database
) -> None:
    refuse(admin_dsn, True)
    for number in range(20):
        leave_spool(home, [said(number)])
    provider = make_provider()
    until(lambda: runtime_of(provider).stats()["set_aside"] == 20, 60, "all of them set aside")
    refuse(admin_dsn, False)
    leave_spool(home, [said(20)])
    until(lambda: user_turns(database) == [turn(20)], 30, "the one that is in order")
    assert main(["spool", "retry", "--all", "--yes", "--hermes-home", str(home)]) == 0
    until(lambda: len(user_turns(database)) == 21, 30, "those that were put back")
    until(lambda: len(list((home / "pgvector" / "spool").glob("*.db"))) == 1, 30, "the end of the files")
    assert runtime_of(provider).writer.rejected_count() == 0


def test_need_10_very_many_writes_set_aside_fill_no_log_and_cost_nothing_afterwards(
    home: Path, configured: None, admin_dsn: str, make_provider: MakeProvider, records: Records,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    refuse(admin_dsn, True)
    provider = make_provider()
    for number in range(1_200):
        provider.sync_turn(turn(number), "")
    until(lambda: runtime_of(provider).stats()["set_aside"] == 1_200, 180, "all of them set aside")
    told = records(logging.ERROR)
    assert len(told) == 12, "the first ten, the 100th and the 1,000th"
    assert "(1000 so far)" in told[-1]
    main(["doctor", "--json", "--hermes-home", str(home)])
    checks = [check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "spool"]
    assert len(checks) < 15
    assert any("rejected 1190 more writes" in check["said"] for check in checks)
    cpu, started = time.process_time(), time.monotonic()
    until(lambda: time.monotonic() - started > 5.5, what="a round of looking after files")
    assert time.process_time() - cpu < 0.3


def test_need_03_retries_adoption_and_deaths_together_store_each_write_once(
    home: Path, configured: None, admin_dsn: str, dsn: str, make_provider: MakeProvider, database: Database,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Agents write, are refused, are killed and adopted, while an operator puts back all that was set aside."""
    draw, begun, accepted = random.Random(24), 0, set()
    for life in range(4):
        refuse(admin_dsn, life % 2 == 0)
        processes = []
        for _ in range(2):
            made = WritingProcess(
                {"dsn": dsn, "dims": DIMS}, home, tmp_path / f"{uuid.uuid4().hex}.log", "orders", turns=0
            )
            processes.append(made)
        try:
            for made in processes:
                made.order(f"write {begun} {begun + 200}", "written")
                begun += 200
            main(["spool", "retry", "--all", "--yes", "--json", "--hermes-home", str(home)])
            refuse(admin_dsn, draw.random() < 0.5)
            main(["spool", "retry", "--all", "--yes", "--json", "--hermes-home", str(home)])
        finally:
            for made in processes:
                accepted |= set(made.accepted.get("parent", []))
                made.close()
    refuse(admin_dsn, False)
    provider = make_provider()

    def put_back() -> bool:
        main(["spool", "retry", "--all", "--yes", "--json", "--hermes-home", str(home)])
        return len(user_turns(database)) >= len(accepted)

    until(put_back, 120, "everything")
    landed(provider)
    stored = Counter(user_turns(database))
    assert set(stored) == {turn(number) for number in accepted}
    assert [text for text, count in stored.items() if count > 1] == []


def test_need_03_however_many_files_there_are_they_go_before_what_is_written_since(
    home: Path, proxy: TcpProxy, proxied: str, make_provider: MakeProvider, database: Database
) -> None:
    proxy.stop()
    for number in range(30):
        leave_spool(home, [said(number)])
    provider = make_provider({"dsn": proxied})
    for number in range(30, 60):
        provider.sync_turn(turn(number), "")
    proxy.start()
    until(lambda: len(user_turns(database)) >= 60, 60, "all of them")
    landed(provider)
    stored = user_turns(database)
    assert sorted(stored[:30]) == sorted(turn(number) for number in range(30))
    assert stored[30:] == [turn(number) for number in range(30, 60)]


def test_need_13_what_was_kept_under_a_clock_that_was_ahead_is_taken_over_whole(
    home: Path, make_provider: MakeProvider, database: Database
) -> None:
    left = Spool(leave_spool(home, []), max_bytes=1 << 30)
    ahead = int((time.time() + 3600) * 1e6)
    keep(left, [replace(said(number), seq=ahead + number) for number in range(100)])
    left.close()
    landed(make_provider())
    until(lambda: not left.path.exists(), 30, "the end of the file")
    until(lambda: len(user_turns(database)) == 100, 30, "what the server lacked")
    assert user_turns(database) == [turn(number) for number in range(100)]
    (own,) = (home / "pgvector" / "spool").glob("*.db")
    assert spool_holds(own)
