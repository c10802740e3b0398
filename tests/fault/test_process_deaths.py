"""Processes that die while they write, in every way: each turn whose hook returned arrives once, in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.limits import LANDED_TIMEOUT_S
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import turn, user_turns
from tests.support.waiting import until
from tests.support.writing_process import WritingProcess

DEATHS = ("SIGTERM", "SIGINT", "SIGKILL", "_exit", "exception", "exception at exit", "exit", "fork")


def theme_of(death: str) -> str:
    return "killed-by-" + death.lower().replace(" ", "-")


def said_in(database: Database, theme: str) -> list[str]:
    statement = "SELECT content FROM conversations WHERE agent_identity = %s ORDER BY id"
    return database.column(statement, theme)


def spool_files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "pgvector" / "spool").glob("*.db*"))


@pytest.mark.parametrize("postgres_is", ["reachable", "slow", "away"])
def test_need_03_however_a_process_dies_what_it_accepted_arrives_once_and_in_order(
    postgres_is: str,
    make_provider: MakeProvider,
    proxy: TcpProxy,
    proxied: str,
    database: Database,
    endpoint: ScriptedEmbedder,
    home: Path,
    tmp_path: Path,
) -> None:
    config = {"dsn": proxied, "dims": DIMS, "shutdown_timeout_s": 0.5}
    if postgres_is == "slow":  # what makes the drain slow does not matter
        endpoint.latency_ms = 300
        config["embed_url"] = endpoint.url
    if postgres_is == "away":
        proxy.stop()

    processes = {
        death: WritingProcess(config, home, tmp_path / f"{death}.log", death, theme=theme_of(death), turns=400)
        for death in DEATHS
    }
    for process in processes.values():
        try:
            process.die()
        finally:
            process.close()
    proxy.start()
    endpoint.latency_ms = 0

    provider = make_provider({"dsn": proxied, "spool_keep_s": 0})
    reported = sum(len(numbers) for process in processes.values() for numbers in process.accepted.values())
    assert reported > len(DEATHS) * 20
    until(lambda: len(user_turns(database)) >= reported, LANDED_TIMEOUT_S, "everything reported")
    landed(provider)
    for death, process in processes.items():
        assert process.logged("ERROR") == [], death
        told = [turn(number) for numbers in process.accepted.values() for number in numbers]
        said = said_in(database, theme_of(death))
        assert max(Counter(said).values()) == 1, death
        if death == "fork":  # between two processes there is no order
            assert set(told) <= set(said), death
            continue
        assert said[: len(told)] == told, death
        # The hook of one more may have returned before the signal came.
        assert len(said) <= len(told) + 1, death
    until(lambda: len([name for name in spool_files(home) if name.endswith(".db")]) <= 1, 60, "the end of their files")
    provider.shutdown()
    until(lambda: not spool_files(home), 30, "the end of the last file")


def test_need_03_the_file_of_a_living_process_is_left_to_it(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, dsn: str, database: Database, home: Path, tmp_path: Path
) -> None:
    proxy.stop()
    living = WritingProcess({"dsn": proxied, "dims": DIMS}, home, tmp_path / "living.log", "SIGKILL", turns=50)
    try:
        living.read("parent 49")
        neighbour = make_provider({"dsn": dsn})
        assert neighbour.runtime is not None
        neighbour.sync_turn(turn(900), "")
        landed(neighbour)
        # It has looked for files of the dead by now, and it looks again whenever it is idle.
        assert user_turns(database) == [turn(900)]
        assert neighbour.runtime.stats()["queue_depth"] == 0
        assert len([name for name in spool_files(home) if name.endswith(".db")]) == 2
    finally:
        living.close()
    until(lambda: len(user_turns(database)) >= 51, LANDED_TIMEOUT_S, "the turns of the process that is dead now")
    assert user_turns(database) == [turn(900), *map(turn, range(50))]


def test_need_03_the_order_is_that_of_the_hooks_even_when_the_clock_goes_backwards(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path, tmp_path: Path
) -> None:
    proxy.stop()
    process = WritingProcess(
        {"dsn": proxied, "dims": DIMS}, home, tmp_path / "clock.log", "_exit", turns=150, clock_steps_back_s=60.0
    )
    process.die()
    proxy.start()

    landed(make_provider({"dsn": proxied}))
    until(lambda: len(user_turns(database)) >= 150, LANDED_TIMEOUT_S, "the turns")
    assert user_turns(database) == [turn(number) for number in range(150)]
    times = database.column("SELECT ts FROM conversations ORDER BY id")
    assert times == sorted(times, reverse=True), "the clock did go backwards"


def test_need_03_a_burst_of_thousands_is_taken_at_once_kept_small_and_brought_home(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, home: Path
) -> None:
    provider = make_provider({"dsn": proxied, "spool_keep_s": 0})
    landed(provider)
    proxy.stop()
    provider.sync_turn("Is Postgres away, so that everything which follows has to wait?", "")
    assert provider.runtime is not None
    until(lambda: not provider.runtime.backend.is_up(), 30, "the outage")  # type: ignore[union-attr]
    before = psutil.Process().memory_info().rss
    for number in range(4_000):
        provider.on_memory_write("add", "memory", f"Entry {number:05d} of the burst")
    grown = psutil.Process().memory_info().rss - before
    stats = provider.runtime.stats()
    assert stats["queue_depth"] == 4_001
    assert stats.get("refused", 0) == 0
    assert grown < 12_000_000
    on_disk = sum(path.stat().st_size for path in (home / "pgvector" / "spool").iterdir())
    assert on_disk < 10 * stats["spool_bytes"]

    proxy.start()
    until(lambda: not provider.runtime.writer.depth(), LANDED_TIMEOUT_S, "the burst")  # type: ignore[union-attr]
    entries = database.column("SELECT content FROM memory_entries ORDER BY id")
    assert entries == [f"Entry {number:05d} of the burst" for number in range(4_000)]
