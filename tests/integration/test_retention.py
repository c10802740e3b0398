"""The setting `retention`: old turns go by themselves, at quiet times, and memories never."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.retention_policy import RetentionPolicy
from hermes_memory_pgvector.admin.prune.retention import Pacing, Retention
from hermes_memory_pgvector.capture import housekeeping
from hermes_memory_pgvector.capture.housekeeping import Housekeeping
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime import retention_process
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.backend import Backend
from tests.conftest import DIMS, MakeProvider
from tests.support.aged import age
from tests.support.limits import NOT_WAITED_S
from tests.support.memory import landed, recalled, runtime_of
from tests.support.row_security import tenant_of
from tests.support.stored import Database
from tests.support.waiting import until

from .test_prune import DAYS, configure, fill, turns

FAST = Pacing(grace_s=0.0, every_s=3600.0, pause_s=0.0, slice=30)
Make = Callable[..., Retention]


@pytest.fixture
def process(dsn: str) -> Iterator[Make]:
    """Makes what one agent process has of it; `login` is another conninfo than the agents'."""
    backends: list[Backend] = []

    def make(*pairs: str, pacing: Pacing = FAST, login: str = "") -> Retention:
        backend = Backend(lambda: login or dsn, dims=DIMS, pool_max_size=2)
        backend.bring_up()
        backends.append(backend)
        return Retention(backend, RetentionPolicy(pairs), pacing)

    yield make
    for backend in backends:
        backend.close()


def run(retention: Retention, steps: int = 100) -> int:
    """Do all that is due; returns how many turns were deleted."""
    before = retention.deleted
    for _ in range(steps):
        if retention.step() >= 1.0:
            break
    return retention.deleted - before


def announced(dsn: str) -> None:
    """Another process has announced two days ago what will be deleted."""
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO hermes_retention (agent_identity, policy, announced_at)"
            " VALUES ('marketing', '180 days', now() - interval '2 days')"
        )


def announced_long_ago(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE hermes_retention SET announced_at = now() - interval '2 days'")


def test_need_17_an_agent_deletes_old_turns_by_policy_and_never_a_memory(
    make_provider: MakeProvider, dsn: str, monkeypatch: pytest.MonkeyPatch, records: Callable[[int], list[str]]
) -> None:
    monkeypatch.setattr(housekeeping, "QUIET_S", 0.0)
    fill(dsn, "marketing")
    fill(dsn, "audit")
    announced(dsn)
    make_provider().on_memory_write("add", "memory", "Atlas is blue")
    landed(make_provider())
    age(dsn, "Atlas is blue", days=1000)
    provider = make_provider({"retention": {"*": 180, "audit": "forever"}})
    until(lambda: turns(dsn, "marketing") == 180, 30, "the old turns to go")
    provider.sync_turn("Is there anything else about Atlas today?", "Nothing else about Atlas that I would know of.")
    landed(provider)
    assert turns(dsn, "audit") == DAYS and turns(dsn, "marketing") == 182
    assert recalled(provider, "atlas blue") == ["Atlas is blue"]
    until(lambda: runtime_of(provider).stats()["retention_deleted"] == 220, 30)
    until(lambda: any("220 old turns of 1 theme were deleted" in line for line in records(logging.INFO)), 30)
    log = Database(dsn).column("SELECT verb || arguments::text || counts::text FROM hermes_maintenance")
    assert len(log) == 1 and "retention" in log[0] and "180 days" in log[0] and '{"turns": 220}' in log[0]


def test_need_17_a_new_policy_is_told_a_day_before_it_deletes_anything(
    process: Make, dsn: str, records: Callable[[int], list[str]]
) -> None:
    fill(dsn, "marketing")
    day = replace(FAST, grace_s=86_400.0)
    first = process("marketing=180", pacing=day)
    assert run(first) == 0
    (told,) = records(logging.WARNING)
    assert "24 hours" in told and "prune --theme marketing --older-than 180d" in told
    assert run(first) == 0 and run(process("marketing=180", pacing=day)) == 0
    assert len(records(logging.WARNING)) == 1, "told once"
    announced_long_ago(dsn)
    changed = process("marketing=90", pacing=day)
    assert run(changed) == 0 and run(changed) == 0, "another policy waits as well"
    announced_long_ago(dsn)
    assert run(first) == 0, "and the old one is not carried out any more"
    announced_long_ago(dsn)
    assert run(process("marketing=180", pacing=day)) == DAYS - 180


def test_need_17_the_command_that_is_told_shows_what_will_go_and_no_more(
    process: Make, dsn: str, records: Callable[[int], list[str]], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(dsn, "it's ours")
    configure(home, dsn)
    retention = process("it's ours=180 user")
    run(retention)
    (told,) = records(logging.WARNING)
    command = shlex.split(told.partition("to see what that is: ")[2])
    assert main([*command[command.index("prune") :], "--json", "--hermes-home", str(home)]) == 0
    planned = json.loads(capsys.readouterr().out)["turns"]
    assert run(retention) == planned > 0


def test_need_23_the_name_of_a_theme_of_somebodys_sql_steers_no_log(
    process: Make, dsn: str, records: Callable[[int], list[str]]
) -> None:
    fill(dsn, "old\n\x1b[2JERROR\u202e forged")
    run(process("*=180"))
    (told,) = records(logging.WARNING)
    assert told.isprintable() and "prune --theme" in told


def test_need_17_agents_that_disagree_delete_nothing(process: Make, dsn: str) -> None:
    fill(dsn, "marketing")
    one, other = process("marketing=180"), process("marketing=30")
    for _ in range(5):
        assert run(one, steps=1) == 0 and run(other, steps=1) == 0
    assert turns(dsn, "marketing") == DAYS


def test_need_17_only_what_the_setting_says_goes(process: Make, dsn: str) -> None:
    for theme in ("marketing", "sales", "coder", "new"):
        fill(dsn, theme, days=40 if theme == "new" else DAYS)
    retention = process("*=180", "sales=forever", "coder=100 user")
    run(retention)
    assert run(retention) == 220 + 150
    left = Database(dsn).column(
        "SELECT agent_identity || role || count(*) FROM conversations GROUP BY agent_identity, role ORDER BY 1"
    )
    assert left == [
        "coderassistant200", "coderuser50", "marketingassistant90", "marketinguser90", "newassistant20", "newuser20",
        "salesassistant200", "salesuser200",
    ]  # fmt: skip
    fill(dsn, "marketing")
    assert run(retention) == 0 and run(process("*=180", "sales=forever", "coder=100 user")) == 0, "not so soon again"


def test_need_17_ages_are_the_servers(process: Make, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(dsn, "marketing")
    monkeypatch.setattr(time, "time", lambda: 4e9)  # this host lives in the year 2096
    retention = process("marketing=180")
    run(retention)
    assert run(retention) == DAYS - 180


@pytest.mark.parametrize("ahead", [True, False], ids=["a year ahead", "put right again"])
def test_need_17_a_clock_that_is_wrong_for_a_day_deletes_nothing(process: Make, dsn: str, ahead: bool) -> None:
    """The clock of Postgres was set: what was noted before is a year old, or a year in the future."""
    day = replace(FAST, grace_s=86_400.0)
    fill(dsn, "marketing")
    retention = process("marketing=180", pacing=day)
    run(retention)
    announced_long_ago(dsn)
    assert run(retention) == DAYS - 180, "as on every day"
    fill(dsn, "marketing", days=10)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE conversations SET ts = ts - interval '365 days'" if ahead else "SELECT 1")
        conn.execute(
            "UPDATE hermes_retention SET announced_at = announced_at + %(by)s * interval '365 days',"
            " begun_at = begun_at + %(by)s * interval '365 days', ended_at = ended_at + %(by)s * interval '365 days'",
            {"by": -1 if ahead else 1},
        )
    left = turns(dsn, "marketing")
    assert run(retention) == 0 and run(process("marketing=180", pacing=day)) == 0
    assert turns(dsn, "marketing") == left
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE conversations SET ts = ts - interval '365 days' WHERE ts > now() - interval '100 days'")
    run(retention)
    announced_long_ago(dsn)  # it stood so for a day: it is right
    assert run(retention) > 0


def test_need_17_a_server_whose_clock_is_ahead_of_this_machines_deletes_nothing(
    process: Make, dsn: str, monkeypatch: pytest.MonkeyPatch, records: Callable[[int], list[str]]
) -> None:
    """By less than a week, which its own records would not tell."""
    fill(dsn, "marketing")
    retention = process("marketing=180")
    announced(dsn)

    real = time.time

    def days_behind(days: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() - days * 86_400)

    days_behind(3)
    assert run(retention) == 0 and run(retention) == 0
    (said,) = records(logging.WARNING)
    assert "the clock of Postgres is 72.0 hours ahead of this machine's" in said
    days_behind(0)
    retention.step()  # finds what is due
    days_behind(3)
    assert run(retention) == 0, "also where it was set since"
    days_behind(0)
    assert run(retention) == DAYS - 180


def test_need_03_two_processes_share_the_work_and_one_is_at_it(process: Make, dsn: str) -> None:
    fill(dsn, "marketing", per_day=5)
    one, other = process("marketing=180"), process("marketing=180")
    run(one)
    one.step()  # finds the theme
    one.step()  # deletes a slice
    assert 0 < one.deleted < 1100
    assert run(other) == 0, "the other one leaves it alone"
    left = "SELECT count(*) - 900 FROM conversations"

    def work(retention: Retention) -> None:
        until(lambda: (retention.step(), Database(dsn).column(left) == [0])[1], 30, "the old turns to go")

    threads = [threading.Thread(target=work, args=(each,)) for each in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(150)
    assert one.deleted + other.deleted == 1100 and turns(dsn, "marketing") == 900
    assert Database(dsn).column("SELECT counts ->> 'turns' FROM hermes_maintenance") == ["1100"]


def test_need_03_where_a_process_died_another_goes_on(process: Make, dsn: str) -> None:
    fill(dsn, "marketing")
    pacing = replace(FAST, lease_s=0.2)
    dead, heir = process("marketing=180", pacing=pacing), process("marketing=180", pacing=pacing)
    run(dead)
    run(dead, steps=3)
    assert 0 < dead.deleted < 220
    until(lambda: run(heir) > 0, 20, "the lease to end")
    assert dead.deleted + heir.deleted == 220 and turns(dsn, "marketing") == 180
    assert Database(dsn).column("SELECT counts ->> 'turns' FROM hermes_maintenance") == ["220"], "all of the run"


@pytest.fixture
def held_up(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """Old turns that are due; their deletion waits for what this connection holds."""
    monkeypatch.setattr(housekeeping, "QUIET_S", 0.0)
    fill(dsn, "marketing")
    announced(dsn)
    with psycopg.connect(dsn) as holder:
        holder.execute(
            "INSERT INTO conversation_chunks (row_id, part, agent_identity, first_char, embedding, sig)"
            " SELECT id, 1, 'marketing', 9, array_fill(0.1::real, ARRAY[384])::vector, (repeat('1', 384))::bit(384)"
            "   FROM conversations ORDER BY ts LIMIT 1"
        )
        holder.commit()
        holder.execute("SELECT FROM conversation_chunks FOR UPDATE")
        yield holder


def begun(make_provider: MakeProvider, dsn: str) -> PgvectorMemoryProvider:
    """An agent of which the deletion is under way."""
    provider = make_provider({"retention": {"marketing": 180}})
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    until(lambda: Database(dsn).column(waiting) != [0], 30, "the deletion to wait")
    return provider


@pytest.mark.usefixtures("held_up")
def test_need_01_a_write_comes_before_it(make_provider: MakeProvider, dsn: str) -> None:
    """The deletion waits for what somebody holds; the writes of the same process do not wait for long."""
    provider = begun(make_provider, dsn)
    began = time.monotonic()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    assert time.monotonic() - began < NOT_WAITED_S
    landed(provider)
    assert time.monotonic() - began < 20.0
    assert turns(dsn, "marketing") == DAYS


def test_need_03_where_what_deletes_is_killed_the_agent_goes_on_and_has_it_done_later(
    held_up: psycopg.Connection,
    make_provider: MakeProvider,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    records: Callable[[int], list[str]],
) -> None:
    monkeypatch.setattr(retention_process, "_BEGIN_AGAIN_S", 0.1)
    provider = begun(make_provider, dsn)
    process_of(provider).kill()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    until(lambda: any("ended: without a message" in line for line in records(logging.WARNING)), 30, "the warning")
    held_up.rollback()
    with psycopg.connect(dsn) as conn:  # as ten minutes later
        conn.execute("UPDATE hermes_retention SET held_until = now()")
    provider.shutdown()
    make_provider({"retention": {"marketing": 180}})
    until(lambda: turns(dsn, "marketing") == 180, 30, "the old turns to go")


@pytest.mark.parametrize("theme", ["marketing", "sales"])
def test_need_24_what_was_held_by_a_clock_of_next_year_is_deleted_now(process: Make, dsn: str, theme: str) -> None:
    """The server's clock was ahead while a process, which then ended, worked on that theme or on another one."""
    for each in ("marketing", "sales"):
        fill(dsn, each)
    retention = process("*=180")
    run(retention)  # announces
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "UPDATE hermes_retention SET held_by = gen_random_uuid(), held_until = now() + interval '1 year'"
            " WHERE agent_identity = %s",
            (theme,),
        )
    run(retention)
    assert (turns(dsn, "marketing"), turns(dsn, "sales")) == (180, 180)


def test_need_03_what_else_is_said_in_its_process_stops_nothing(
    make_provider: MakeProvider,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: Callable[[int], list[str]],
) -> None:
    """A tracer may write lines of JSON to standard error, and a library in the encoding of its locale."""
    monkeypatch.setattr(housekeeping, "QUIET_S", 0.0)
    said = b'{"level": "info", "said": "traced"}\nL\xe4uft\n'
    (tmp_path / "sitecustomize.py").write_text(f"import os\nos.write(2, {said!r})\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fill(dsn, "marketing")
    announced(dsn)
    provider = make_provider({"retention": {"marketing": 180}})
    until(lambda: turns(dsn, "marketing") == 180, 30, "the old turns to go")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert records(logging.WARNING) == []


@pytest.mark.usefixtures("held_up")
def test_need_11_what_deletes_ends_with_the_agent(make_provider: MakeProvider, dsn: str) -> None:
    provider = begun(make_provider, dsn)
    process = process_of(provider)
    provider.shutdown()
    assert process.poll() is not None
    assert turns(dsn, "marketing") == DAYS


def process_of(provider: PgvectorMemoryProvider) -> subprocess.Popen[str]:
    process = runtime_of(provider)._retention._process
    assert process is not None
    return process


def test_need_01_nothing_is_deleted_beside_an_agent_at_work(make_provider: MakeProvider, dsn: str) -> None:
    fill(dsn, "marketing")
    announced(dsn)
    provider = make_provider({"retention": {"marketing": 180}})
    for ask in (lambda: recalled(provider, "atlas"), lambda: provider.prefetch("What of the Atlas project?")):
        ask()
        assert (
            1.0
            < Housekeeping(runtime_of(provider).backend, process_like(provider), removal_hold_days=7).step()
            <= housekeeping.QUIET_S
        )
    assert turns(dsn, "marketing") == DAYS


def process_like(provider: object) -> Retention:
    backend = runtime_of(provider).backend  # type: ignore[arg-type]
    return Retention(backend, RetentionPolicy(["marketing=180"]), FAST)


def test_trap_09_a_role_without_the_right_holds_no_write_up(
    process: Make, dsn: str, admin_dsn: str, records: Callable[[int], list[str]]
) -> None:
    fill(dsn, "marketing")
    retention = process("marketing=180")
    with psycopg.connect(admin_dsn) as conn:
        conn.execute("REVOKE ALL ON hermes_retention FROM hermes")
    assert retention.step() > 1.0 and not retention.on
    (told,) = records(logging.WARNING)
    assert "old turns are not deleted by this process" in told and "permission denied" in told


def test_need_04_a_role_of_one_theme_has_that_theme_pruned_only(
    postgres: EmbeddedServer, admin_dsn: str, process: Make
) -> None:
    fill(admin_dsn, "marketing")
    fill(admin_dsn, "sales")
    retention = process("*=180", login=tenant_of(postgres, admin_dsn, "marketing"))
    run(retention)
    assert run(retention) == DAYS - 180
    assert turns(admin_dsn, "sales") == DAYS and turns(admin_dsn, "marketing") == 180
    assert Database(admin_dsn).column("SELECT agent_identity FROM hermes_retention") == ["marketing"]


def test_need_16_digests_and_ids_go_after_their_time(make_provider: MakeProvider, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        for days in (29, 31, 729, 731):
            conn.execute(
                "INSERT INTO hermes_operations VALUES ('a', gen_random_uuid(), now() - %(days)s * interval '1 day')",
                {"days": days},
            )
            conn.execute(
                "INSERT INTO hermes_tombstones VALUES ('a', 'memory', hermes_digest(%(days)s::text),"
                " now() - %(days)s * interval '1 day')",
                {"days": days},
            )
    make_provider()
    until(lambda: Database(dsn).column("SELECT count(*) FROM hermes_operations WHERE agent_identity = 'a'") == [1], 30)
    until(lambda: Database(dsn).column("SELECT count(*) FROM hermes_tombstones WHERE agent_identity = 'a'") == [3], 30)


def test_need_24_status_and_doctor_tell_how_it_goes(
    process: Make, dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(verb: str, **settings: object) -> str:
        configure(home, dsn, **settings)
        main([verb])
        out, _ = capsys.readouterr()
        return next(line for line in out.splitlines() if "retention" in line)

    assert "off: this home's agents keep all turns" in told("status")
    fill(dsn, "marketing")
    fill(dsn, "sales")
    run(process("*=180", pacing=replace(FAST, grace_s=86_400.0)))
    assert "nothing was deleted yet; new to 2 themes, deletes there from" in told("status", retention={"*": 180})
    retention = process("*=180")
    assert run(retention) == 440
    assert "last run" in told("status", retention={"*": 180}) and "440 turns" in told("doctor", retention={"*": 180})
    misspelt = told("doctor", retention={"*": 180, "markting": "forever"})
    assert "note" in misspelt and "'markting'" in misspelt


def test_need_24_a_theme_that_is_gone_is_not_waited_for(process: Make, dsn: str, home: Path) -> None:
    configure(home, dsn)
    fill(dsn, "gone", days=100)
    fill(dsn, "old", days=100)
    run(process("gone=30", "old=30"))
    announced = "SELECT agent_identity FROM hermes_retention ORDER BY 1"
    assert Database(dsn).column(announced) == ["gone", "old"]
    assert main(["themes", "delete", "gone", "--yes"]) == 0
    assert Database(dsn).column(announced) == ["old"]
    assert main(["themes", "rename", "old", "new", "--yes"]) == 0
    assert Database(dsn).column(announced) == []


@pytest.mark.parametrize("at", ["infinity", "-infinity", "4000-01-01 BC", "20000-01-01"])
def test_need_04_times_that_one_theme_made_up_keep_no_other_from_its_policy(process: Make, dsn: str, at: str) -> None:
    fill(dsn, "marketing")
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, content, ts)"
            " VALUES ('sales', 's', 'user', 'An old turn.', '2000-01-01'), ('sales', 's', 'user', 'An odd turn.', %s)",
            (at,),
        )
        conn.execute(
            "INSERT INTO hermes_retention (agent_identity, policy, announced_at, begun_at, ended_at, held_until)"
            " VALUES ('sales', '180 days', %(at)s, %(at)s, %(at)s, %(at)s)",
            {"at": at},
        )
    retention = process("*=180")
    run(retention)  # announces
    run(retention)
    assert turns(dsn, "marketing") == 180
