"""What processes leave to those after them, when they die one after the other and the disk takes nothing."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from hermes_memory_pgvector.capture import held_files
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, turn, user_turns
from tests.support.waiting import until
from tests.support.writing_process import WritingProcess


def spool_of(home: Path) -> list[Path]:
    return sorted((home / "pgvector" / "spool").glob("*"))


def test_need_03_three_lives_arrive_in_their_order_though_the_second_had_begun_to_bring_the_first_home(
    proxy: TcpProxy,
    proxied: str,
    endpoint: ScriptedEmbedder,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
) -> None:
    config = {"dsn": proxied, "dims": DIMS, "embed_url": endpoint.url}
    proxy.stop()
    with AgentProcess(config, home) as first:
        for number in range(200):
            first.call("sync_turn", turn(number), ANSWER)
    with AgentProcess(config, home) as second:
        for number in range(200, 230):
            second.call("sync_turn", turn(number), ANSWER)
        endpoint.latency_ms = 400
        proxy.start()
        # It crosses off some of the first life, whose file is then the one that was written last.
        until(lambda: user_turns(database), STORED_TIMEOUT_S, "the first of the turns")
        assert len(user_turns(database)) < 200
    endpoint.latency_ms = 0

    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) >= 230, STORED_TIMEOUT_S, "the turns of both")
    assert user_turns(database) == [turn(number) for number in range(230)]


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_need_03_what_cannot_be_taken_over_while_the_disk_is_full_is_sent_in_its_turn(
    end: str, proxy: TcpProxy, proxied: str, home: Path, database: Database
) -> None:
    proxy.stop()
    for life in range(2):
        with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as dead:
            for number in range(80 * life, 80 * life + 80):  # more than one batch
                dead.call("sync_turn", turn(number), "")
            if end == "ended":
                assert dead.exit() == 0
    with AgentProcess({"dsn": proxied, "dims": DIMS, "spool_keep_s": 0}, home) as agent:
        agent.call("sync_turn", turn(160), "")
        agent.fill_disk(True)
        agent.call("sync_turn", turn(161), "")
        proxy.start()
        until(lambda: turn(161) in user_turns(database), 40, "its own turn")
        assert user_turns(database) == [turn(number) for number in range(162)]
        agent.fill_disk(False)
        until(lambda: len(list((home / "pgvector" / "spool").glob("*.db"))) == 1, 40, "the end of the others' files")
        assert "cannot be read" not in agent.log
        assert agent.exit() == 0
    assert user_turns(database) == [turn(number) for number in range(162)]
    assert spool_of(home) == []


def test_need_22_the_files_of_the_spool_are_their_owner_s_alone(dsn: str, home: Path) -> None:
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home) as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        found = spool_of(home)
        assert len(found) >= 3
        assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
        assert (home / "pgvector" / "spool").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("when", ["from the start", "later"])
def test_need_03_a_disk_that_was_full_leaves_no_files_behind(
    when: str, dsn: str, home: Path, database: Database
) -> None:
    blocked = home / "pgvector" / "spool"
    config = {"dsn": dsn, "dims": DIMS, "spool_keep_s": 0}
    with AgentProcess(config, home, full_disk=when == "from the start") as agent:
        agent.call("sync_turn", turn(1), ANSWER)
        until(lambda: user_turns(database) == [turn(1)], STORED_TIMEOUT_S, "the first turn")
        agent.fill_disk(True)
        agent.call("sync_turn", turn(2), ANSWER)
        until(lambda: len(user_turns(database)) == 2, STORED_TIMEOUT_S, "the turn on a full disk")
        # A file that takes nothing is there for a moment.
        until(lambda: len(list(blocked.glob("*.db"))) == (when == "later"), what="no files but the one from before")
        agent.fill_disk(False)
        agent.call("sync_turn", turn(3), ANSWER)
        until(lambda: len(user_turns(database)) == 3, STORED_TIMEOUT_S, "the turn after it")
        assert agent.exit() == 0
    assert spool_of(home) == []


def renumbered(left: Path) -> Path:
    """The file as it is if the agent that was killed had this process's id, as each life has in a container."""
    named = left.with_name(f"{os.getpid()}-{left.name.partition('-')[2]}")
    for path in sorted(left.parent.glob(f"{left.name}*")):
        path.rename(named.with_name(path.name.replace(left.name, named.name)))
    Path(f"{named}.lock").write_text(str(os.getpid()))
    return named


def delete_files(left: Path) -> None:
    for path in left.parent.glob(f"{left.name}*"):
        path.unlink()


def move_folder(left: Path) -> None:
    left.parent.rename(left.parent.with_name("elsewhere"))


def put_back(left: Path) -> None:
    """Another file where this one was, as a restored backup is."""
    copy = left.with_name("copy")
    shutil.copy(left, copy)
    copy.replace(left)


@pytest.mark.parametrize("harm", [delete_files, move_folder, put_back])
def test_need_03_what_a_dead_process_left_is_not_lost_with_its_file_while_another_brings_it_home(
    harm: Callable[[Path], None],
    proxy: TcpProxy,
    proxied: str,
    endpoint: ScriptedEmbedder,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
) -> None:
    proxy.stop()
    left = file_of_a_killed_agent(proxied, home, turns=300)
    endpoint.latency_ms = 400
    proxy.start()
    provider = make_provider({"dsn": proxied, "embed_url": endpoint.url})
    provider.sync_turn(turn(300), "")
    until(lambda: user_turns(database), STORED_TIMEOUT_S, "the first of the turns")
    harm(left)
    assert len(user_turns(database)) < 300
    endpoint.latency_ms = 0
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(301)]


@contextmanager
def opened_by_nobody_else(path: Path) -> Iterator[None]:
    """Another program has the file for itself, so that not even a reader opens it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def adopted_by_another(path: Path) -> Iterator[None]:
    """Another agent is at the file."""
    with Path(f"{path}.lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def file_of_a_killed_agent(dsn: str, home: Path, *, turns: int) -> Path:
    """What an agent has left that reported so many turns while Postgres was away."""
    with AgentProcess({"dsn": dsn, "dims": DIMS}, home) as dead:
        for number in range(turns):
            dead.call("sync_turn", turn(number), "")
        dead.kill()
    (left,) = (home / "pgvector" / "spool").glob("*.db")
    return left


@contextmanager
def looked_at(path: Path) -> Iterator[None]:
    """A command looks whether the owner of the file lives."""
    with Path(f"{path}.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@pytest.mark.parametrize(("held", "named"), [(opened_by_nobody_else, Path), (looked_at, Path), (looked_at, renumbered)])
def test_need_03_what_is_said_waits_for_what_was_left_in_a_file_that_somebody_looks_at(
    held: Callable[[Path], AbstractContextManager[None]],
    named: Callable[[Path], Path],
    proxy: TcpProxy,
    proxied: str,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_files, "HOLD_S", 60.0)
    proxy.stop()
    left = named(file_of_a_killed_agent(proxied, home, turns=5))
    with held(left):
        proxy.start()
        provider = make_provider({"dsn": proxied})
        provider.sync_turn(turn(5), "")
        until(runtime_of(provider).spools.held.delay_any, STORED_TIMEOUT_S, "an attempt to bring home what was left")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(6)]


def test_need_03_what_is_said_waits_for_a_file_that_is_looked_at_before_an_outage_and_after_it(
    proxy: TcpProxy,
    proxied: str,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    longest_s = 10.0  # of which the end of the first connection is noticed
    monkeypatch.setattr(held_files, "HOLD_S", longest_s)
    proxy.stop()
    left = file_of_a_killed_agent(proxied, home, turns=5)
    with looked_at(left):
        proxy.start()
        provider = make_provider({"dsn": proxied})
        provider.sync_turn(turn(5), "")
        until(runtime_of(provider).spools.held.delay_any, STORED_TIMEOUT_S, "an attempt to bring home what was left")
        proxy.stop()
        until(lambda: not runtime_of(provider).backend.is_up(), STORED_TIMEOUT_S, "the outage")
    back = time.monotonic() + longest_s
    until(lambda: time.monotonic() > back, STORED_TIMEOUT_S, "longer than anything waits")
    with looked_at(left):
        proxy.start()
        until(runtime_of(provider).backend.is_up, STORED_TIMEOUT_S, "the end of the outage")
        until(
            lambda: user_turns(database) or runtime_of(provider).spools.held.delay_any(),
            STORED_TIMEOUT_S,
            "another attempt",
        )
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(6)]


@pytest.mark.parametrize("held", [opened_by_nobody_else, looked_at])
def test_need_03_what_a_later_life_left_waits_for_an_earlier_one_s_file_that_somebody_looks_at(
    held: Callable[[Path], AbstractContextManager[None]],
    proxy: TcpProxy,
    proxied: str,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_files, "HOLD_S", 60.0)
    proxy.stop()
    first = file_of_a_killed_agent(proxied, home, turns=5)
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as second:
        second.call("sync_turn", turn(5), "")
        second.kill()
    with held(first):
        proxy.start()
        provider = make_provider({"dsn": proxied})
        until(runtime_of(provider).spools.held.delay_any, STORED_TIMEOUT_S, "an attempt to bring home what was left")
    until(lambda: len(user_turns(database)) >= 6, STORED_TIMEOUT_S, "the turns of both lives")
    assert user_turns(database) == [turn(number) for number in range(6)]


def test_need_03_what_is_said_does_not_wait_for_ever_for_a_file_that_another_program_holds(
    proxy: TcpProxy, proxied: str, home: Path, make_provider: MakeProvider, database: Database
) -> None:
    proxy.stop()
    left = file_of_a_killed_agent(proxied, home, turns=1)
    with opened_by_nobody_else(left):
        proxy.start()
        provider = make_provider({"dsn": proxied})
        provider.sync_turn(turn(1), "")
        until(lambda: user_turns(database) == [turn(1)], 40, "its own turn")
    until(lambda: len(user_turns(database)) == 2, 40, "the turn of the dead process")


@pytest.mark.parametrize("held", [opened_by_nobody_else, adopted_by_another])
def test_need_03_a_dead_process_s_newer_file_waits_for_its_older_one(
    held: Callable[[Path], AbstractContextManager[None]],
    proxy: TcpProxy,
    proxied: str,
    home: Path,
    make_provider: MakeProvider,
    database: Database,
    tmp_path: Path,
) -> None:
    proxy.stop()
    dead = WritingProcess({"dsn": proxied, "dims": DIMS}, home, tmp_path / "dead.log", "orders", turns=50)
    try:
        dead.order("write 50 51", "written")
        (older,) = (home / "pgvector" / "spool").glob("*.db")
        with closing(sqlite3.connect(older, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            dead.order("write 51 80", "written")
            connection.execute("ROLLBACK")
    finally:
        dead.close()
    (newer,) = set((home / "pgvector" / "spool").glob("*.db")) - {older}
    payload = {"session_id": "s", "messages": [{"role": "user", "content": turn(500)}], "metadata": {}}
    other = leave_spool(home, [operation("turn", "marketing", payload, time.time())])
    with held(older):
        proxy.start()
        provider = make_provider({"dsn": proxied})
        until(lambda: not other.exists(), STORED_TIMEOUT_S, "the end of another process's file")
        landed(provider)
        assert user_turns(database) == [turn(500)]
        assert newer.exists()
    until(lambda: len(user_turns(database)) >= 81, 60, "the turns of both files")
    landed(provider)
    assert user_turns(database) == [turn(500), *(turn(number) for number in range(80))]


def test_need_03_what_a_full_disk_kept_from_being_taken_over_goes_before_what_is_said_since(
    proxy: TcpProxy, proxied: str, dsn: str, home: Path, database: Database
) -> None:
    proxy.stop()
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home) as dead:
        for number in range(5):
            dead.call("sync_turn", turn(number), ANSWER)
    proxy.start()
    with AgentProcess({"dsn": proxied, "dims": DIMS}, home, full_disk=True) as agent:
        agent.call("sync_turn", turn(5), ANSWER)
        until(lambda: turn(5) in user_turns(database), STORED_TIMEOUT_S, "a turn that only memory holds")
        agent.fill_disk(False)
        agent.call("sync_turn", turn(6), ANSWER)
        until(lambda: len(user_turns(database)) == 7, 40, "all turns")
        assert user_turns(database) == [turn(number) for number in range(7)]
