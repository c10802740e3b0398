"""Writes that Postgres will never take: rejected, told once, in nobody's way, and in an operator's hands."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.spool_views import drop, opened_spool, retry
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.operations import Operation
from tests.conftest import DIMS, MakeProvider
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import landed, runtime_of, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import memories, turn, user_turns
from tests.support.waiting import until

Records = Callable[[int], list[str]]
RETRIED_TIMEOUT_S = 40.0


def said(number: int, **changes: Any) -> Operation:
    """A turn as the hooks accept it, with parts of its payload as no hook makes them."""
    payload = {"session_id": "s", "messages": [{"role": "user", "content": turn(number)}], "metadata": {}} | changes
    return operation(
        "turn", "marketing", {key: value for key, value in payload.items() if value is not None}, time.time()
    )


def poison() -> dict[str, Operation]:
    """Operations of a shape that nothing mends, by what is wrong with them."""
    entry = {"target": "memory", "content": "An entry", "origin": "here", "metadata": {}}
    return {
        "a role that does not exist": said(1, messages=[{"role": "nonsense", "content": turn(1)}]),
        "no messages": said(2, messages=None),
        "messages that are none": said(3, messages="Hello"),
        "a number for a text": said(4, messages=[{"role": "user", "content": 4}]),
        "a target that does not exist": operation("add", "marketing", entry | {"target": "nonsense"}, time.time()),
        "no target": operation("add", "marketing", {"content": "An entry"}, time.time()),
        "a kind that does not exist": operation("forget everything", "marketing", entry, time.time()),
        "a time that does not exist": operation("add", "marketing", entry, 1e30),
        "a NUL byte": said(5, messages=[{"role": "user", "content": "a\0b"}]),
    }


@pytest.fixture
def configured(home: Path, dsn: str) -> None:
    """The home's config.yaml names the test's database."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(home: Path, configured: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command of ours; returns its exit code and what it printed."""

    def command(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, "--hermes-home", str(home)])
        return code, capsys.readouterr().out

    return command


def test_need_03_what_postgres_never_takes_is_set_aside_and_told_once_and_the_rest_arrives(
    home: Path, make_provider: MakeProvider, database: Database, records: Records, run: Run
) -> None:
    bad = poison()
    operations = [said(100)]
    for number, refused in enumerate(bad.values(), 101):
        operations += [refused, said(number)]
    leave_spool(home, operations)

    provider = make_provider()
    until(lambda: len(user_turns(database)) > len(bad), 30, "the rest")
    landed(provider)
    assert user_turns(database) == [turn(number) for number in range(100, 101 + len(bad))]
    assert memories(database) == []
    told = records(logging.ERROR)
    assert len(told) == len(bad), told
    assert all("it waits for an operator" in line for line in told)
    assert runtime_of(provider).stats()["set_aside"] == len(bad)

    # A restart finds them where they are, and has nothing new to say.
    provider.shutdown()
    successor = make_provider()
    successor.sync_turn(turn(200), "")
    landed(successor)
    assert user_turns(database)[-1] == turn(200)
    assert len(records(logging.ERROR)) == len(bad)
    _, listed = run("spool", "list", "--json")
    assert {item["id"] for item in json.loads(listed)} == {refused.op_id.hex for refused in bad.values()}
    assert all(item["error"] and item["text"] is not None for item in json.loads(listed))


def test_need_24_doctor_names_a_write_that_is_stuck_and_the_commands_for_it(
    home: Path, make_provider: MakeProvider, records: Records, run: Run
) -> None:
    refused = poison()["a role that does not exist"]
    leave_spool(home, [refused])
    make_provider()
    until(lambda: records(logging.ERROR), 30, "the poison")

    code, printed = run("doctor", "--json")
    assert code == 1
    checks = json.loads(printed)["checks"]
    (check,) = [check for check in checks if (check["name"], check["state"]) == ("spool", "fail")]
    assert refused.op_id.hex[:8] in check["said"] and "marketing" in check["said"]
    assert "hermes-pgvector spool list" in check["fix"]
    assert "spool retry" in check["fix"] and "spool drop" in check["fix"]
    _, printed = run("doctor")
    assert "FAIL" in printed and refused.op_id.hex[:8] in printed
    _, printed = run("status")
    assert "hermes-pgvector spool list" in printed


def test_need_16_what_a_rejected_write_says_forges_no_line_and_steers_no_terminal(
    home: Path, make_provider: MakeProvider, records: Records, run: Run
) -> None:
    forged = "deadbeef  2026-01-01T00:00:00+00:00  turn  theme marketing"
    hostile = f"\x1b[2J\x1b]0;owned\x07\u202eall is well\n{forged}\r\u2028{forged}"
    refused = said(1, messages=[{"role": "nonsense", "content": hostile}])
    leave_spool(home, [refused])
    make_provider()
    until(lambda: records(logging.ERROR), 30, "the poison")

    for arguments in (("list",), ("retry", refused.op_id.hex[:8]), ("drop", "--all", "--yes")):
        code, printed = run("spool", *arguments)

        assert code == 0 and "all is well" in printed
        assert not {"\x1b", "\x07", "\r", "\u202e", "\u2028"} & set(printed)
        assert not any(line.startswith("deadbeef") for line in printed.splitlines())


def test_need_16_a_set_aside_write_is_listed_retried_and_dropped_and_nothing_changes_without_a_yes(
    home: Path, make_provider: MakeProvider, database: Database, admin_dsn: str, records: Records, run: Run
) -> None:
    bad = [said(number, messages=[{"role": "nonsense", "content": turn(number)}]) for number in (1, 2, 3)]
    leave_spool(home, bad)
    make_provider()
    until(lambda: len(records(logging.ERROR)) == 3, 30, "the poison")
    ids = [refused.op_id.hex[:8] for refused in bad]

    code, printed = run("spool", "list")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines() if line[:8] in ids] == ids
    assert turn(2) in printed and "rejected:" in printed
    for action in ("retry", "drop"):
        code, printed = run("spool", action, ids[0])
        assert code == 0
        assert "nothing was changed: add --yes" in printed
        assert run("spool", action)[0] == 2, "it wants to be told which"
        assert run("spool", action, "ffffffff", "--yes")[0] == 1
        assert run("spool", action, ids[0], "ffffffff", "--yes")[0] == 1, "nothing, if not all"
        with pytest.raises(SystemExit, match="2"):  # a variable that is not set names no write
            run("spool", action, "", "--yes")
    assert len(json.loads(run("spool", "list", "--json")[1])) == 3

    code, printed = run("spool", "drop", ids[0], "--yes")
    assert code == 0 and "1 write deleted" in printed
    assert [item["id"][:8] for item in json.loads(run("spool", "list", "--json")[1])] == ids[1:]

    # Refused again while nothing has changed; taken when somebody has changed what was in the way.
    run("spool", "retry", ids[1], "--yes")
    until(lambda: len(records(logging.ERROR)) == 4, RETRIED_TIMEOUT_S, "the second refusal")
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE conversations DROP CONSTRAINT conversations_role_check")
    assert run("spool", "retry", "--all", "--yes")[0] == 0
    said_at_last = "SELECT content FROM conversations WHERE role = 'nonsense' ORDER BY id"
    until(lambda: len(database.column(said_at_last)) == 2, RETRIED_TIMEOUT_S, "the retried writes")
    assert database.column(said_at_last) == [turn(2), turn(3)]
    until(lambda: run("spool", "list")[1] == "no write was rejected\n", 30, "the end of the list")
    until(lambda: not list((home / "pgvector" / "spool").glob("4000000-*")), 30, "the end of the dead process's file")


def test_need_16_of_writes_that_two_commands_change_at_once_each_is_counted_by_the_one_that_had_it(home: Path) -> None:
    path = leave_spool(home, [said(number) for number in range(1, 5)])
    with opened_spool(path) as dropping, opened_spool(path) as retrying:
        for write in dropping.take(4):
            dropping.reject(write, "refused")
        found = [item.operation for item in retrying.rejected()]
        assert drop(dropping, found[:3]) == {write.seq for write in found[:3]}
        assert retry(retrying, found) == {found[3].seq}
        assert drop(dropping, found) == set()
        assert [write.op_id for write in retrying.take(10)] == [found[3].op_id]


def test_need_11_an_agent_that_ends_sends_what_was_put_back_and_what_it_accepted_after_that(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, admin_dsn: str, run: Run
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE conversations ADD CONSTRAINT in_the_way CHECK (content !~ 'number0')")
    provider = make_provider({"dsn": proxied})
    for number in range(200):
        provider.sync_turn(turn(number), "")
    landed(provider)
    assert runtime_of(provider).writer.rejected_count() == 200
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE conversations DROP CONSTRAINT in_the_way")
    proxy.stop()  # busy from here on
    provider.sync_turn(turn(200), "")
    until(lambda: runtime_of(provider).backend.problem is not None, what="the outage")
    assert run("spool", "retry", "--all", "--yes")[0] == 0
    provider.sync_turn(turn(201), "")
    proxy.start()
    landed(provider)
    assert sorted(user_turns(database)) == list(map(turn, range(202)))


@pytest.mark.parametrize("since", ["removed", "replaced"])
def test_need_15_a_memory_that_is_gone_when_its_rejected_write_is_put_back_goes_with_the_next_session(
    since: str, home: Path, make_provider: MakeProvider, database: Database, admin_dsn: str, run: Run
) -> None:
    kept, old, new = "The office opens at eight.", "The spare key is on shelf four.", "The spare key is on shelf five."
    write_entries(home, kept)
    provider = make_provider()
    landed(provider)
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE memory_entries ADD CONSTRAINT in_the_way CHECK (content !~ 'shelf four')")
    write_entries(home, kept, old)
    provider.on_memory_write("add", "memory", old)
    landed(provider)
    if since == "removed":
        write_entries(home, kept)
        provider.on_memory_write("remove", "memory", "", {"old_text": "shelf four"})
    else:
        write_entries(home, kept, new)
        provider.on_memory_write("replace", "memory", new, {"old_text": "shelf four"})
    landed(make_provider(session_id="one that reads the file"))
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE memory_entries DROP CONSTRAINT in_the_way")
    assert run("spool", "retry", "--all", "--yes")[0] == 0
    until(lambda: old in memories(database), RETRIED_TIMEOUT_S, "the retried write")
    landed(provider)
    make_provider(session_id="the next one")
    until(lambda: old not in memories(database), 30, "the end of what is gone")
    assert memories(database) == [kept, *([new] if since == "replaced" else [])]


def test_need_24_status_and_stats_show_how_the_write_path_goes(
    home: Path, make_provider: MakeProvider, endpoint: ScriptedEmbedder, run: Run, records: Records
) -> None:
    config = json.loads((home / "config.yaml").read_text())
    config["plugins"]["pgvector"]["embed_url"] = endpoint.url
    (home / "config.yaml").write_text(json.dumps(config))
    leave_spool(home, [poison()["a role that does not exist"]])
    provider = make_provider({"embed_url": endpoint.url})
    for number in range(30):
        provider.sync_turn(turn(number), "")
    landed(provider)
    provider.handle_tool_call("recall_conversation", {"query": "harbour crane"})
    until(lambda: records(logging.ERROR), 30, "the poison")

    def report() -> dict[str, Any]:
        """What the process has published since; it does so every five seconds."""
        processes = json.loads(run("status", "--json")[1])["processes"]
        found: list[dict[str, Any]] = [each["report"] for each in processes if each["living"]]
        return next((each for each in found if each.get("operations", 0) >= 30 and each.get("set_aside")), {})

    told = until(report, 30, "the counters")
    expected = {"postgres", "endpoint", "queue_depth", "spool_bytes", "set_aside", "operations", "operations_per_s"}
    expected |= {f"{kind}_{percentile}_ms" for kind in ("embed", "write", "search") for percentile in ("p50", "p95")}
    assert expected <= told.keys()
    assert (told["postgres"], told["endpoint"], told["set_aside"], told["queue_depth"]) == ("up", "closed", 1, 0)
    assert told["write_p95_ms"] >= told["write_p50_ms"] > 0

    code, printed = run("status")
    assert code == 0
    for part in ("30 turns", "0 still without an embedding", "endpoint up", "p50/p95", "rejected   1 write;", "/s"):
        assert part in printed, printed
    code, printed = run("stats", "--json")
    assert code == 0
    numbers = json.loads(printed)
    assert (numbers["turns"], numbers["pending_turns"], numbers["set_aside"], numbers["processes"]) == (30, 0, 1, 1)
    assert {"waiting", "spool_bytes", "operations", "write_p50_ms"} <= numbers.keys()
    assert all(isinstance(value, (int, float)) for value in numbers.values())


def test_need_24_status_shows_what_waits_while_postgres_and_the_endpoint_are_away(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, run: Run, database: Database
) -> None:
    endpoint.mode = "http_500"
    provider = make_provider({"embed_url": endpoint.url})
    for number in range(5):
        provider.sync_turn(turn(number), "")
        landed(provider)
    with database.writes_blocked():
        for number in range(5, 15):
            provider.sync_turn(turn(number), "")
        code, printed = run("status", "--json")
        status = json.loads(printed)
        assert code == 0
        assert status["waiting"] == 10
        assert status["spool_bytes"] > 1_000
        assert status["database"]["pending_turns"] == 5
        assert run("stats", "--json")[0] == 0
    landed(provider)

    def endpoint_state() -> str:
        (process,) = json.loads(run("status", "--json")[1])["processes"]
        return str(process["report"].get("endpoint"))

    until(lambda: endpoint_state() == "open", 30, "the breaker's state")
    assert " retr" in run("status")[1]
